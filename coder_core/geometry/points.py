"""Images and captions as one cloud of points, read in tiles that fit the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

Array = np.ndarray
TILE_ELEMENTS = 4_194_304  # 16 MiB of float32


@dataclass(frozen=True)
class Points:
    """The joint space of one run on one split. Point p is image p, or caption p − n.

    Args:
        images: (n, D) unit rows, usually memory-mapped. texts: (m, D) unit rows.
    """

    images: Array
    texts: Array

    def __len__(self) -> int:
        return len(self.images) + len(self.texts)

    @property
    def width(self) -> int:
        """D."""
        return int(self.images.shape[1])

    def tiles(self) -> Iterator[tuple[slice, Array]]:
        """All points in order, (t, D) at a time, with the rows they are."""
        rows = max(1, TILE_ELEMENTS // max(self.width, 1))
        start = 0
        for part in (self.images, self.texts):
            for first in range(0, len(part), rows):
                tile = np.asarray(part[first : first + rows])
                yield slice(start, start + len(tile)), tile
                start += len(tile)

    def take(self, rows: Array) -> Array:
        """(k, D) float32 copy of some points, in the order asked for."""
        rows = np.asarray(rows)
        taken = np.empty((len(rows), self.width), dtype=np.float32)
        image = rows < len(self.images)
        taken[image] = self.images[rows[image]]
        taken[~image] = self.texts[rows[~image] - len(self.images)]
        return taken


def stratified(counts: tuple[int, ...], most: int, seed: int) -> Array:
    """Draw at most `most` rows at random, from every stratum in proportion.

    Args:
        counts: how many samples each stratum has; stratum 0 has the first rows, and so on.

    Returns:
        (min(most, sum),) ascending rows, without repetition.
    """
    total = sum(counts)
    if total <= most:
        return np.arange(total)
    rng = np.random.default_rng(seed)
    drawn: list[Array] = []
    start, left = 0, most
    for position, count in enumerate(counts):
        share = left if position == len(counts) - 1 else min(max(round(most * count / total), 1), count)
        drawn.append(start + np.sort(rng.choice(count, min(share, count), replace=False)))
        left -= len(drawn[-1])
        start += count
    return np.concatenate(drawn)
