"""How many candidates stand above every right answer: one float32 product serves both directions, nothing is sorted.

A float32 product rounds differently from tile to tile, by about 1e-7; compared bare it would invent and miss ties. So
the product decides only what is clear: a candidate at p + δ or more stands above a right answer that scores p, one
under p − δ below. The few in between are scored again exactly (`unclear`). δ is eight times the largest rounding error
of a sample of right answers, and is checked: the error of every right answer, read from the very tiles, must stay under
a quarter of δ, otherwise everything is counted again with a wider δ.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.exact import pair_scores
from coder_core.evaluation.reaching import Reaching
from coder_core.evaluation.sources import Scored
from coder_core.evaluation.unclear import Asking, Counts, Unclear

_ROWS, _COLUMNS = 1024, 8192  # 32 MiB: tall and wide enough for the product to run at full speed
_UNIT = 2.0**-24  # rounding error of one float32 operation
_GUARD = 4  # least δ over the largest rounding error of a right answer
_CROWDED = 64  # one pair in so many unclear: the whole tile is scored exactly
_SAMPLE = 32  # right answers whose rounding error is looked at beforehand


def count_above(scored: Scored) -> tuple[Counts, Counts]:
    """Count both directions: images asking for captions, captions asking for images."""
    delta = _first_delta(scored)
    while True:
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            counter = _Counter(scored, delta, pool)
            counter.run()
        if _GUARD * counter.worst <= delta:
            return counter.unclear.settle(counter.images, counter.texts)
        delta = 2 * _GUARD * counter.worst


def _first_delta(scored: Scored) -> float:
    """Eight times the largest rounding error of a sample.

    Where the sample happens to round to nothing, at least half of √D · u · |image| · |text|, the error to be expected
    (Higham & Mary 2019).
    """
    texts = torch.linspace(0, scored.m - 1, _SAMPLE).long()
    owners = scored.image_of_text[texts]
    product, expected = torch.zeros(_SAMPLE, _SAMPLE), 0.0
    for image, text, weight in zip(scored.images, scored.texts, scored.weights, strict=True):
        left, right = image[owners], text[texts]
        product.addmm_(left, right.T, alpha=weight)
        longest = float(left.norm(dim=1).max() * right.norm(dim=1).max())
        expected += abs(weight) * longest * math.sqrt(image.shape[1]) * _UNIT
    worst = float((product.diagonal() - pair_scores(scored, owners, texts)).abs().max())
    return max(expected / 2, 2 * _GUARD * worst)


class _Counter:
    """One pass over all tiles with one δ.

    Args:
        scored: what is ranked.
        delta: how far from a right answer's score a candidate's score is clear.
        pool: threads that share the counting of a tile.

    Attributes:
        images: (n,) int64, the captions clearly above.
        texts: (m,) int64, the images clearly above.
        unclear: what is left to be scored exactly.
        worst: the largest rounding error seen on a right answer.
    """

    def __init__(self, scored: Scored, delta: float, pool: ThreadPoolExecutor) -> None:
        self.scored = scored
        self.images = torch.zeros(scored.n, dtype=torch.int64)
        self.texts = torch.zeros(scored.m, dtype=torch.int64)
        self.unclear = Unclear(scored)
        self.worst = 0.0
        shifts = torch.tensor([[delta], [-delta]])
        self._ask_images = (
            scored.best_by_image(scored.own) + shifts
        ).numpy()  # (2, n): clearly above, not clearly below
        self._ask_texts = (scored.own + shifts).numpy()  # (2, m)
        self._pool = pool
        self._reaching = [Reaching(min(_COLUMNS, scored.m)) for _ in range(torch.get_num_threads())]
        self._tile = torch.empty(min(_ROWS, scored.n) * min(_COLUMNS, scored.m))

    def run(self) -> None:
        """Count every tile."""
        n, m = self.scored.n, self.scored.m
        order = torch.argsort(self.scored.image_of_text, stable=True)
        starts = torch.searchsorted(self.scored.image_of_text[order], torch.arange(n + 1)).tolist()
        lefts = range(0, m, _COLUMNS)
        for top in range(0, n, _ROWS):
            rows = slice(top, min(top + _ROWS, n))
            owned = order[starts[rows.start] : starts[rows.stop]].sort().values
            bounds = torch.searchsorted(owned, torch.tensor([*lefts, m])).tolist()
            for left, (first, last) in zip(lefts, pairwise(bounds), strict=True):
                self._count_tile(rows, slice(left, min(left + _COLUMNS, m)), owned[first:last])

    def _count_tile(self, rows: slice, columns: slice, owned: Tensor) -> None:
        tile = self._product(rows, columns)
        if len(owned):
            at = (self.scored.image_of_text[owned] - rows.start, owned - columns.start)
            self.worst = max(self.worst, float((tile[at] - self.scored.own[owned]).abs().max()))
            tile[at] = -torch.inf
        scores, ask_images, ask_texts = tile.numpy(), self._ask_images[:, rows], self._ask_texts[:, columns]
        by_image, by_text = self._count(scores, ask_images, ask_texts)
        unclear = max(int((found[1] - found[0]).sum()) for found in (by_image, by_text))
        if unclear * _CROWDED > tile.numel():
            self.unclear.add_tile(rows, columns)
            return
        self.images[rows] += torch.from_numpy(by_image[0])
        self.texts[columns] += torch.from_numpy(by_text[0])
        some = np.flatnonzero(by_image[0] != by_image[1])
        near = _between(scores[some], ask_images[:, some, None])
        self._note(some[near[0]] + rows.start, near[1] + columns.start, "images")
        some = np.flatnonzero(by_text[0] != by_text[1])
        near = _between(scores[:, some], ask_texts[:, None, some])
        self._note(near[0] + rows.start, some[near[1]] + columns.start, "texts")

    def _product(self, rows: slice, columns: slice) -> Tensor:
        height, width = rows.stop - rows.start, columns.stop - columns.start
        tile = self._tile[: height * width].view(height, width)
        sources = zip(self.scored.images, self.scored.texts, self.scored.weights, strict=True)
        for k, (image, text, weight) in enumerate(sources):
            torch.addmm(tile, image[rows], text[columns].T, beta=min(k, 1), alpha=weight, out=tile)
        return tile

    def _count(self, tile: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Share the rows of a tile among the threads."""
        bounds = np.linspace(0, len(tile), len(self._reaching) + 1).astype(int)
        parts = [slice(first, last) for first, last in pairwise(bounds)]
        counted = self._pool.map(
            lambda reaching, part: reaching.count(tile[part], rows[:, part], columns), self._reaching, parts
        )
        by_row, by_column = zip(*counted, strict=True)
        return np.concatenate(by_row, 1), sum(by_column)

    def _note(self, images: np.ndarray, texts: np.ndarray, asking: Asking) -> None:
        self.unclear.add_pairs(torch.from_numpy(images), torch.from_numpy(texts), asking)


def _between(scores: np.ndarray, ask: np.ndarray) -> tuple[np.ndarray, ...]:
    """Where neither clearly above nor clearly below: the same comparisons as in `Reaching`."""
    return np.nonzero((scores >= ask[1]) & ~(scores >= ask[0]))
