"""Candidates too close to a right answer for a float32 product to tell: collected, then decided by exact scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from coder_core.evaluation.exact import pair_scores, tile_scores
from coder_core.evaluation.sources import Scored

Asking = Literal["images", "texts"]
_SIDE = 512  # a crowded tile is scored in float64 in squares of this side


@dataclass
class Counts:
    """Candidates of other images above, and exactly level with, the best right answer of every query.

    Args:
        above: (Q,) int64.
        level: (Q,) int64.
    """

    above: Tensor
    level: Tensor


class Unclear:
    """Pairs and whole tiles that wait for an exact decision."""

    def __init__(self, scored: Scored) -> None:
        self._scored = scored
        self._pairs: dict[Asking, list[Tensor]] = {"images": [], "texts": []}
        self._tiles: list[tuple[slice, slice]] = []

    def add_pairs(self, images: Tensor, texts: Tensor, asking: Asking) -> None:
        """Candidates close to the right answer of the side that asks."""
        self._pairs[asking].append(torch.stack([images, texts]))

    def add_tile(self, rows: slice, columns: slice) -> None:
        """A tile of images and captions full of close candidates, as a collapsed model has them."""
        for top in range(rows.start, rows.stop, _SIDE):
            for left in range(columns.start, columns.stop, _SIDE):
                part = slice(top, min(top + _SIDE, rows.stop)), slice(left, min(left + _SIDE, columns.stop))
                self._tiles.append(part)

    def settle(self, images: Tensor, texts: Tensor) -> tuple[Counts, Counts]:
        """Add the exact decisions to what was clear.

        Args:
            images: (n,) captions clearly above.
            texts: (m,) images clearly above.
        """
        pairs = {
            asking: torch.cat([torch.empty(2, 0, dtype=torch.int64), *found], 1)
            for asking, found in self._pairs.items()
        }
        own = self._exact_own(pairs["images"][0], pairs["texts"][1])
        best_own = self._scored.best_by_image(own)
        by_image = Counts(images, torch.zeros_like(images))
        by_text = Counts(texts, torch.zeros_like(texts))
        self._decide_pairs(pairs["images"], pairs["images"][0], best_own, by_image)
        self._decide_pairs(pairs["texts"], pairs["texts"][1], own, by_text)
        for rows, columns in self._tiles:
            tile = tile_scores(self._scored, rows, columns)
            own_image = self._scored.image_of_text[columns] - rows.start
            inside = ((own_image >= 0) & (own_image < len(tile))).nonzero()[:, 0]
            tile[own_image[inside], inside] = -torch.inf
            _decide_tile(tile, best_own[rows, None], by_image, rows, axis=1)
            _decide_tile(tile, own[None, columns], by_text, columns, axis=0)
        return by_image, by_text

    def _exact_own(self, images: Tensor, texts: Tensor) -> Tensor:
        """The right answers' scores, exact where a decision needs them."""
        if self._tiles:
            wanted = torch.arange(self._scored.m)
        else:
            asked = torch.zeros(self._scored.n, dtype=torch.bool)
            asked[images] = True
            needed = asked[self._scored.image_of_text]
            needed[texts] = True
            wanted = needed.nonzero()[:, 0]
        exact = self._scored.own.clone()
        exact[wanted] = pair_scores(self._scored, self._scored.image_of_text[wanted], wanted)
        return exact

    def _decide_pairs(self, pairs: Tensor, queries: Tensor, own: Tensor, counts: Counts) -> None:
        scores = pair_scores(self._scored, pairs[0], pairs[1])
        counts.above += torch.bincount(queries[scores > own[queries]], minlength=len(own))
        counts.level += torch.bincount(queries[scores == own[queries]], minlength=len(own))


def _decide_tile(tile: Tensor, own: Tensor, counts: Counts, part: slice, *, axis: int) -> None:
    counts.above[part] += (tile > own).sum(axis)
    counts.level[part] += (tile == own).sum(axis)
