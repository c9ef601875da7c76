"""How many candidates stand above every right answer: one float32 product serves both directions, nothing is sorted.

A float32 product rounds differently from tile to tile, by about 1e-7; compared bare it would invent and miss ties. So
the product decides only what is clear: a candidate at p + δ or more stands above a right answer that scores p, one
under p − δ below. The few in between are scored again exactly (`unclear`). δ is eight times the largest rounding error
of a sample of right answers, and is checked: the error of every right answer, read from the very tiles, must stay under
a quarter of δ, otherwise everything is counted again with a wider δ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from coder_core.evaluation.exact import pair_scores, rough_pair_scores
from coder_core.evaluation.sources import Scored
from coder_core.evaluation.unclear import Counts, Unclear

_ROWS, _COLUMNS = 256, 1024  # a tile and its comparison stay in cache: 2 · 1 MiB
_UNIT = 2.0**-24  # rounding error of one float32 operation
_GUARD = 4  # least δ over the largest rounding error of a right answer
_CROWDED = 64  # one pair in so many unclear: the whole tile is scored exactly
_BLOCKS, _BLOCK = 16, 16  # the sample: 16 products of 16 · 16 pairs


def count_above(scored: Scored) -> tuple[Counts, Counts]:
    """Count both directions: images asking for captions, captions asking for images."""
    delta = _first_delta(scored)
    own = rough_pair_scores(scored, scored.image_of_text, torch.arange(scored.m))
    while True:
        counter = _Counter(scored, own, delta)
        counter.run()
        if _GUARD * counter.worst <= delta:
            return counter.unclear.settle(counter.images, counter.texts, own)
        delta = 2 * _GUARD * counter.worst


def _first_delta(scored: Scored) -> float:
    """Eight times the largest error of a sample, and at least half of √D · u · scale (Higham & Mary 2019)."""
    width = sum(image.shape[1] for image in scored.images)
    texts = torch.linspace(0, scored.m - 1, _BLOCKS * _BLOCK).long()
    worst = 0.0
    for part in texts.split(_BLOCK):
        owners = scored.image_of_text[part]
        product = torch.zeros(len(part), len(part))
        for image, text, weight in zip(scored.images, scored.texts, scored.weights, strict=True):
            product.addmm_(image[owners], text[part].T, alpha=weight)
        worst = max(worst, float((product.diagonal() - pair_scores(scored, owners, part)).abs().max()))
    return max(math.sqrt(width) * _UNIT * scored.scale / 2, 2 * _GUARD * worst)


class _Counter:
    """One pass over all tiles with one δ.

    Args:
        scored: what is ranked.
        own: (m,) the score of every caption with its own image, within rounding error.
        delta: how far from a right answer's score a candidate's score is clear.

    Attributes:
        images: (n,) int64, the captions clearly above.
        texts: (m,) int64, the images clearly above.
        unclear: what is left to be scored exactly.
        worst: the largest rounding error seen on a right answer.
    """

    def __init__(self, scored: Scored, own: Tensor, delta: float) -> None:
        self.scored = scored
        self.own = own
        self.best_own = scored.best_by_image(own)
        self.delta = delta
        self.images = torch.zeros(scored.n, dtype=torch.int64)
        self.texts = torch.zeros(scored.m, dtype=torch.int64)
        self.unclear = Unclear(scored)
        self.worst = 0.0
        self._tile = torch.empty(_ROWS * _COLUMNS)
        self._flags = torch.empty(_ROWS * _COLUMNS)
        self._ones = torch.ones(max(_ROWS, _COLUMNS))

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
            for left, first, last in zip(lefts, bounds, bounds[1:], strict=False):
                self._count_tile(rows, slice(left, min(left + _COLUMNS, m)), owned[first:last])

    def _count_tile(self, rows: slice, columns: slice, owned: Tensor) -> None:
        tile = self._product(rows, columns)
        if len(owned):
            at = (self.scored.image_of_text[owned] - rows.start, owned - columns.start)
            self.worst = max(self.worst, float((tile[at] - self.own[owned]).abs().max()))
            tile[at] = -torch.inf
        ask_images, ask_texts = self.best_own[rows, None], self.own[None, columns]
        images_high, images_low = self._reaching(tile, ask_images, by_row=True)
        texts_high, texts_low = self._reaching(tile, ask_texts, by_row=False)
        unclear = int((images_low - images_high).sum()), int((texts_low - texts_high).sum())
        if max(unclear) * _CROWDED > tile.numel():
            self.unclear.add_tile(rows, columns, owned)
            return
        self.images[rows] += images_high.long()
        self.texts[columns] += texts_high.long()
        if unclear[0]:
            some = (images_low != images_high).nonzero()[:, 0]
            found = self._near(tile[some], ask_images[some]).nonzero()
            self.unclear.add_pairs(some[found[:, 0]] + rows.start, found[:, 1] + columns.start, "images")
        if unclear[1]:
            some = (texts_low != texts_high).nonzero()[:, 0]
            found = self._near(tile[:, some], ask_texts[:, some]).nonzero()
            self.unclear.add_pairs(found[:, 0] + rows.start, some[found[:, 1]] + columns.start, "texts")

    def _product(self, rows: slice, columns: slice) -> Tensor:
        height, width = rows.stop - rows.start, columns.stop - columns.start
        tile = self._tile[: height * width].view(height, width)
        sources = zip(self.scored.images, self.scored.texts, self.scored.weights, strict=True)
        for k, (image, text, weight) in enumerate(sources):
            torch.addmm(tile, image[rows], text[columns].T, beta=min(k, 1), alpha=weight, out=tile)
        return tile

    def _reaching(self, tile: Tensor, threshold: Tensor, *, by_row: bool) -> tuple[Tensor, Tensor]:
        """Per query: how many candidates reach threshold + δ, and how many threshold − δ."""
        flags = self._flags[: tile.numel()].view(tile.shape)
        queries = flags if by_row else flags.T
        ones = self._ones[: queries.shape[1]]
        torch.ge(tile, threshold + self.delta, out=flags)
        high = torch.mv(queries, ones)
        torch.ge(tile, threshold - self.delta, out=flags)
        return high, torch.mv(queries, ones)

    def _near(self, scores: Tensor, threshold: Tensor) -> Tensor:
        """Neither clearly above nor clearly below: the same comparisons as in `_reaching`."""
        return (scores >= threshold - self.delta) & ~(scores >= threshold + self.delta)
