"""Formulas of word-region heat maps. Words are (T, D), regions (L, D), maps (T, L)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coder_core.api.sides import Array


@dataclass(frozen=True)
class HeatMap:
    """Weights with which each word reads a picture.

    Args:
        words: T words.
        values: (T, L) float32; NaN for a region that is missing in the data.
        boxes: (L, 4) left, top, right, bottom of every region as shares of the picture's sides, or None.
        unknown: why there are no boxes; "" where there are.
    """

    words: list[str]
    values: Array
    boxes: Array | None = None
    unknown: str = ""

    def strongest(self) -> Array:
        """(T,) the region that each word reads most."""
        return np.asarray(np.nan_to_num(self.values, nan=-np.inf).argmax(1))

    def most_varied(self) -> int:
        """The word whose values vary most over the regions."""
        return int(np.nanstd(self.values, axis=1).argmax())


class Laid(NamedTuple):
    """Regions laid over a picture: cells between the edges of all boxes."""

    values: Array
    """(rows, columns), the mean of the regions that cover a cell; NaN where none does."""
    x: Array
    """(columns + 1,) edges as shares of the picture's width."""
    y: Array
    """(rows + 1,) edges as shares of the picture's height."""


def cosines(words: Array, regions: Array) -> Array:
    """(T, L): s_lk = t_l · v_k / (‖t_l‖ ‖v_k‖), the cosine of word l and region k. Lee et al. 2018 (SCAN), section 3.1.

    Args:
        words: (T, D). regions: (L, D); a region of zeros is missing and has NaN.
    """
    lengths = np.linalg.norm(regions, axis=1)
    units = [
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (words, regions)
    ]
    return np.where(lengths > 0, units[0] @ units[1].T, np.nan).astype(np.float32)


def interaction_attention(words: Array, regions: Array, sharpness: float) -> Array:
    """(T, L): α_lk = softmax_k(λ · [s_lk]₊ / ‖[s_·k]₊‖), the weights with which word l reads the regions.

    Diao et al. 2024 (Deep Boosting Learning), eq. 1, as `scoring.interaction` computes it: the norm is over the words
    of the caption. A word's weights sum to 1.

    Args:
        words, regions: as for `cosines`. sharpness: λ.
    """
    s = np.maximum(cosines(words, regions), 0)
    exponents = sharpness * s / np.maximum(np.linalg.norm(s, axis=0, keepdims=True), 1e-12)
    weights = np.exp(exponents - np.nanmax(exponents, axis=1, keepdims=True))
    return np.asarray(weights / np.nansum(weights, axis=1, keepdims=True), dtype=np.float32)


def lay_over(values: Array, boxes: Array) -> Laid:
    """Lay regions over a picture; where several overlap, their mean stands.

    Args:
        values: (L,), NaN for a region to leave out. boxes: (L, 4) as in `HeatMap`.
    """
    x, y = (np.unique(np.round(boxes[:, sides], 5)) for sides in ((0, 2), (1, 3)))
    left, top, right, bottom = np.round(boxes, 5).T
    across = (left[:, None] <= x[:-1]) & (x[1:] <= right[:, None])  # (L, columns)
    down = (top[:, None] <= y[:-1]) & (y[1:] <= bottom[:, None])  # (L, rows)
    finite = np.isfinite(values)
    covers = down[finite].T.astype(np.float64), across[finite].astype(np.float64)
    count = covers[0] @ covers[1]
    total = (covers[0] * values[finite]) @ covers[1]
    return Laid(np.where(count > 0, total / np.maximum(count, 1), np.nan), x, y)
