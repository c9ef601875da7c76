"""Features in .npy files: the header is checked and nothing is unpickled or loaded whole.

Touching a mapped page behind the end of its file ends the process (SIGBUS), which Python cannot catch. So features are
mapped for their shape and type, and their values are read: a file that became shorter is then an error like any other.
"""

from __future__ import annotations

import math
import os
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tokenize import TokenError
from typing import BinaryIO, Literal

import numpy as np
from numpy.lib import format as npy

from coder_core.console.faults import Fault, InputError
from coder_core.data.lines import plain_file

SCAN_BYTES = 8 * 2**20
SCAN_THREADS = 2
ROWS_NAMED = 10
BAD_SYNTAX = (ValueError, TypeError, SyntaxError, TokenError, LookupError)
HEADER_ERRORS = (*BAD_SYNTAX, EOFError, RecursionError, MemoryError, OverflowError)
LARGEST = 1e15  # training adds up squares of features in float32, which ends at 3.4e38
RIGHT_FILE = "a .npy file of float16, float32 or float64, (images, regions, size) or (images, size)"


@dataclass(frozen=True)
class FeatureFile:
    """A features file whose header is known to fit its size. shape is (n, L, D) or (n, D)."""

    path: Path
    shape: tuple[int, ...]
    dtype: np.dtype
    fortran: bool
    offset: int

    def map(self) -> np.ndarray:
        """The whole file as a read-only memory map, in its own dtype."""
        order: Literal["F", "C"] = "F" if self.fortran else "C"
        return np.memmap(self.path, self.dtype, mode="r", offset=self.offset, shape=self.shape, order=order)

    @property
    def row_bytes(self) -> int:
        """Bytes of one image's features."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize


def open_features(path: Path, faults: list[Fault]) -> FeatureFile:
    """Check a features file's header against its size and describe it; coercions are noted in `faults`.

    Raises:
        InputError: not a .npy file, pickled objects, a wrong dtype or shape, or a size that does not fit the header.
    """
    plain_file(path, faults)
    size = path.stat().st_size
    with path.open("rb") as file:
        shape, fortran, dtype = _read_header(file, path, size)
        offset = file.tell()
    _check_dtype(path, dtype)
    _check_shape(path, shape)
    expected = offset + math.prod(shape) * dtype.itemsize
    if size != expected:
        problem = f"holds {size:,} bytes, but its header promises {dtype} {shape}, which takes {expected:,}"
        fix = (
            "copy or download it again: it was cut short or damaged" if size < expected else "write it again"
        )
        raise InputError.at(path, problem, f"{expected:,} bytes", fix)
    faults.extend(_coercions(path, shape, dtype, fortran))
    return FeatureFile(path, shape, dtype, fortran, offset)


def _read_header(file: BinaryIO, path: Path, size: int) -> tuple[tuple[int, ...], bool, np.dtype]:
    start = file.read(npy.MAGIC_LEN)
    if not start.startswith(npy.MAGIC_PREFIX):
        raise InputError.at(path, _what_it_is(start, size), RIGHT_FILE, "write it with numpy.save")
    file.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers written by Python 2 are legal
            version = npy.read_magic(file)
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            return read(file)
    except HEADER_ERRORS as error:
        first = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        fix = "write it again with numpy.save"
        raise InputError.at(path, f"its .npy header cannot be read: {first}", RIGHT_FILE, fix) from None


def _what_it_is(start: bytes, size: int) -> str:
    if size == 0:
        return "the file is empty (0 bytes)"
    if start.startswith(b"PK"):
        return "a zip archive (.npz) under the name .npy"
    if start.startswith(b"\x80"):
        return "a Python pickle, which is never opened, because opening one can run a program"
    return f"not a .npy file ({size:,} bytes)"


def _check_dtype(path: Path, dtype: np.dtype) -> None:
    if dtype.hasobject:
        problem, fix = (
            "an array of Python objects (a pickle), which is never opened",
            "save the numbers as float32",
        )
    elif dtype.kind != "f" or dtype.itemsize > 8:
        problem, fix = f"dtype {dtype}", "save it as array.astype(numpy.float32)"
    else:
        return
    raise InputError.at(path, problem, "float16, float32 or float64", fix)


def _check_shape(path: Path, shape: tuple[int, ...]) -> None:
    if len(shape) not in (2, 3) or any(length < 1 for length in shape):
        wanted = "(images, regions, size) or (images, size), nothing of length 0"
        raise InputError.at(path, f"shape {shape}", wanted, "reshape the array and save it again")


def _coercions(path: Path, shape: tuple[int, ...], dtype: np.dtype, fortran: bool) -> list[Fault]:
    notes = []
    if dtype != np.float32:
        order = "" if dtype.isnative else "big-endian "
        notes.append(f"{order}float{8 * dtype.itemsize}; every batch is converted to float32")
    if fortran:
        notes.append(
            "Fortran order; batches are gathered from all over the file, which is slow: numpy.save a C copy"
        )
    if len(shape) == 2:
        notes.append("one vector an image (images, size), read as one region")
    return [Fault(str(path), text, severity="note") for text in notes]


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
                raise UnreadableRowsError.at(self.path, f"cannot be read ({error.strerror})") from error
            if count == 0:
                size, needed = os.fstat(self._descriptor).st_size, place + len(target)
                problem = f"became shorter while it was read: it has {size:,} bytes"
                raise UnreadableRowsError.at(self.path, problem, f"{needed:,} or more", "restore the file")
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


def scan_values(file: FeatureFile, rows: tuple[int, int]) -> tuple[np.ndarray, list[Fault]]:
    """Read every value of rows[0]…rows[1] once, in pieces, and report NaN, Inf, values above 1e15 and all-zero rows.

    Works on the bits: without its sign a float is an integer that grows with it; 0 is zero, all exponent bits set is
    NaN or Inf. So one integer maximum a region answers every question.

    Returns:
        (z, 2) int64 pairs (row of the file, region) that are all zero, and the faults.
    """
    per_piece, reader = max(1, SCAN_BYTES // file.row_bytes), FeatureRows(file.map())
    starts = range(*rows, per_piece)
    with ThreadPoolExecutor(SCAN_THREADS) as pool:
        pieces = list(
            pool.map(lambda start: _scan_piece(reader, start, min(start + per_piece, rows[1])), starts)
        )
    bad, large, zero, blank = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    return zero, _value_faults(file.path, bad, large, zero, blank)


def _scan_piece(
    reader: FeatureRows, start: int, stop: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows start…stop: (·, 2) pairs (image, region) not finite, too large, all zero, and (·,) images all zero."""
    values = reader.of_images(start, stop)
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    bits = values.view(f"u{values.itemsize}")
    infinity = np.array(np.inf, dtype=values.dtype).view(bits.dtype)
    largest = (bits & np.array(np.iinfo(bits.dtype).max >> 1, dtype=bits.dtype)).max(
        axis=-1
    )  # (images, regions)
    blank = np.flatnonzero(largest.max(axis=1) == 0) + start
    shift = np.array([start, 0])
    bound = np.array(min(LARGEST, float(np.finfo(values.dtype).max)), dtype=values.dtype).view(bits.dtype)
    large = np.argwhere((largest > bound) & (largest < infinity))
    return np.argwhere(largest >= infinity) + shift, large + shift, np.argwhere(largest == 0) + shift, blank


def _value_faults(
    path: Path, bad: np.ndarray, large: np.ndarray, zero: np.ndarray, blank: np.ndarray
) -> list[Fault]:
    """bad, large, zero: (·, 2) pairs (image, region); blank: (·,) images, an error; a zero region is a warning."""
    faults = []
    if len(bad):
        problem = f"NaN or Inf in {len(bad):,} regions of {len(np.unique(bad[:, 0])):,} images; {_rows(bad)}"
        faults.append(Fault(str(path), problem, "finite numbers", "extract these images' features again"))
    if len(large):
        problem = f"numbers too large to train on in {len(large):,} regions of {len(np.unique(large[:, 0])):,} images"
        fix = "extract these images' features again, or scale them"
        faults.append(Fault(str(path), f"{problem}; {_rows(large)}", f"at most {LARGEST:.0e}", fix))
    if len(blank):
        first = ", ".join(map(str, blank[:ROWS_NAMED].tolist()))
        problem = f"{len(blank):,} images are zero in all their features; the first, counted from 0: {first}"
        faults.append(
            Fault(str(path), problem, "a feature vector an image", "extract them again, or remove them")
        )
    single = zero[~np.isin(zero[:, 0], blank)]
    if len(single):
        problem = f"{len(single):,} regions are all zero and are masked in training; {_rows(single)}"
        faults.append(Fault(str(path), problem, severity="warning"))
    return faults


def _rows(pairs: np.ndarray) -> str:
    named = ", ".join(f"({image}, {region})" for image, region in pairs[:ROWS_NAMED].tolist())
    return f"the first (image, region), counted from 0: {named}"
