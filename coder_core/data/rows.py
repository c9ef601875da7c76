"""Read rows of a features file through the file itself.

Touching a mapped page behind the end of its file ends the process (SIGBUS), which Python cannot catch. So features are
mapped for their shape and type, and their values are read: a file that became shorter is then an error like any other.
"""

from __future__ import annotations

import os
import weakref
from itertools import pairwise

import numpy as np

from coder_core.console.faults import Fault, InputError


class UnreadableRowsError(InputError):
    """A features file that could be read before cannot be read any more."""


class FeatureRows:
    """The rows of features, read on demand.

    Args:
        features: (n, L, F) or (n, F): a memory map, a slice of its images, or an array in memory. Arrays in memory, and
            maps in Fortran order, whose rows are scattered over the file, are indexed instead.
    """

    def __init__(self, features: np.ndarray) -> None:
        self.features = features if features.ndim == 3 else features[:, None]
        self.images, self.regions, self.size = self.features.shape
        self._descriptor = -1
        self._start, self.path = _position_in_file(self.features)
        if (
            self.path
            and self.features[:1, :1].flags.c_contiguous
            and self.features.strides[2] == features.itemsize
        ):
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, self._descriptor)

    def of_images(self, start: int, stop: int) -> np.ndarray:
        """Images start…stop, (stop − start, L, F) in the features' own type."""
        numbers = np.repeat(np.arange(start, stop), self.regions)
        rows = self.gather(numbers, np.tile(np.arange(self.regions), stop - start))
        return rows.reshape(stop - start, self.regions, self.size)

    def gather(self, images: np.ndarray, regions: np.ndarray) -> np.ndarray:
        """Region regions[i] of image images[i], (k,) and (k,) -> (k, F) in the features' own type.

        Raises:
            UnreadableRowsError: the file became shorter, or its disk fails.
        """
        if self._descriptor < 0 or not len(images):
            return self.features[images, regions]
        rows = np.empty((len(images), self.size), self.features.dtype)
        image_bytes, region_bytes, _ = self.features.strides
        places = self._start + images * image_bytes + regions * region_bytes
        row_bytes = rows.itemsize * self.size
        target = rows.reshape(-1).view(np.uint8).data
        breaks = (
            np.flatnonzero(np.diff(places) != row_bytes) + 1
        )  # rows that stand together are read together
        for first, last in pairwise([0, *breaks.tolist(), len(rows)]):
            self._read(target[first * row_bytes : last * row_bytes], int(places[first]))
        return rows

    def _read(self, target: memoryview, place: int) -> None:
        done = 0
        while done < len(target):
            try:
                count = os.preadv(self._descriptor, [target[done:]], place + done)
            except OSError as error:
                raise UnreadableRowsError(
                    Fault(str(self.path), f"cannot be read ({error.strerror})")
                ) from error
            if count == 0:
                size, needed = os.fstat(self._descriptor).st_size, place + len(target)
                problem = f"became shorter while it was read: it has {size:,} bytes"
                raise UnreadableRowsError(
                    Fault(str(self.path), problem, f"{needed:,} or more", "restore the file")
                )
            done += count


def _position_in_file(array: np.ndarray) -> tuple[int, str]:
    """Offset of a mapped array in its file, and the file; (0, "") for an array in memory."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None:
        return 0, ""
    return root.offset + array.__array_interface__["data"][0] - root.__array_interface__["data"][0], str(
        root.filename
    )
