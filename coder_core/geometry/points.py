"""Images and captions as one set of points, read in tiles that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from coder_core.geometry.settings import Modalities

Array = np.ndarray
TILE_ELEMENTS = 4_194_304  # 16 MiB of float32


@dataclass(frozen=True)
class Points:
    """The joint space of one run on one split. Point p is image p, or caption p − n."""

    images: Array  # (n, D) unit rows, usually memory-mapped
    texts: Array  # (m, D) unit rows
    # (2, D) mean image and mean caption, subtracted from every row before it is normalised again, or None
    centres: Array | None = None

    def only(self, modalities: Modalities) -> Points:
        """Return only the images or only the captions, or both, each centred on its mean. "both" changes nothing."""
        if modalities == "images":
            return replace(self, texts=self.texts[:0])
        if modalities == "captions":
            return replace(self, images=self.images[:0])
        if modalities == "centred":
            means = [np.mean(part, axis=0, dtype=np.float64) for part in (self.images, self.texts)]
            return replace(self, centres=np.stack(means).astype(np.float32))
        return self

    def __len__(self) -> int:
        return len(self.images) + len(self.texts)

    @property
    def width(self) -> int:
        """Dimension of the space, D."""
        return int(self.images.shape[1])

    def tiles(self) -> Iterator[tuple[slice, Array]]:
        """Yield all points in order, (t, D) at a time, each with the slice of rows that it covers."""
        rows = max(1, TILE_ELEMENTS // max(self.width, 1))
        start = 0
        for modality, part in enumerate((self.images, self.texts)):
            for first in range(0, len(part), rows):
                tile = self._centred(np.asarray(part[first : first + rows]), modality)
                yield slice(start, start + len(tile)), tile
                start += len(tile)

    def take(self, rows: Array) -> Array:
        """Return a (k, D) float32 copy of some points, in the order of `rows`."""
        rows = np.asarray(rows)
        taken = np.empty((len(rows), self.width), dtype=np.float32)
        image = rows < len(self.images)
        taken[image] = self._centred(self.images[rows[image]], 0)
        taken[~image] = self._centred(self.texts[rows[~image] - len(self.images)], 1)
        return taken

    def _centred(self, rows: Array, modality: int) -> Array:
        if self.centres is None:
            return rows
        rows = rows - self.centres[modality]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 1e-6))


def stratified(counts: tuple[int, ...], most: int, seed: int) -> Array:
    """Draw at most `most` rows at random, in proportion to the strata. Return (min(most, sum),) ascending rows
    without repetition. `counts`: number of samples in each stratum; stratum 0 has the first rows, and so on."""
    total = sum(counts)
    if total <= most:
        return np.arange(total)
    rng = np.random.default_rng(seed)
    drawn: list[Array] = []
    start = 0
    left = most
    for position, count in enumerate(counts):
        share = left if position == len(counts) - 1 else min(max(round(most * count / total), 1), count)
        drawn.append(start + np.sort(rng.choice(count, min(share, count), replace=False)))
        left -= len(drawn[-1])
        start += count
    return np.concatenate(drawn)
