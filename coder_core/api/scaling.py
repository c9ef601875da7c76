"""A similarity matrix before and after diversity scaling, tile by tile; large ones as the means of blocks. CODER eq. 4.

With S the cosines, an anchor i and its negatives j, the exponent of the loss is x_ij = (S_ij − γ) / (μ·div_i), and the
share of the loss that a negative carries is p_ij = exp(x_ij) / (1 + Σ_k exp(x_ik)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coder_core.api.anchors import Loss
from coder_core.api.diversity import (
    Array,
    Sides,
    entropy_over_split,
    normalise,
    squash,
    std_over_split,
)

TILE = 2_097_152  # 8 MiB of float32: the largest piece of S that is ever held
CELLS = 256  # a side: up to here every pair is a cell of its own
Direction = Literal["i2t", "t2i"]


@dataclass(frozen=True)
class Spread:
    """How differently each anchor sees the negatives shown. CODER eq. 3.

    Args:
        spread: (Q,) standard deviation, or entropy in bits. raw: (Q,) 1 / sigmoid(ε / spread).
        diversity: (Q,) raw over the largest raw. negatives: (Q,) how many there are.
    """

    spread: Array
    raw: Array
    diversity: Array
    negatives: Array


@dataclass(frozen=True)
class Scaled:
    """What diversity does to a matrix; anchors are rows, candidates columns, all four float32 of one shape (R, C).

    Args:
        similarity: S, the own pairs included.
        exponent: (S − γ) / (μ·div). change: what diversity adds to (S − γ) / μ. share: p, of the loss.
            Own pairs are no negatives: NaN there.
        row_step, column_step: samples in a cell; 1 where every pair is a cell, otherwise the cell is a block's mean.
        spread: of the anchors. loss: μ, γ, ε used.
    """

    similarity: Array
    exponent: Array
    change: Array
    share: Array
    row_step: int
    column_step: int
    spread: Spread
    loss: Loss


def measured(s: Sides, loss: Loss) -> Array:
    """(Q,) standard deviation, or entropy in bits, of every anchor over the negatives in `s`; μ, γ, ε play no part."""
    return std_over_split(s) if loss.function == "std" else entropy_over_split(s, loss.entropy_temperature)


def spread_of(s: Sides, loss: Loss, spread: Array | None = None) -> Spread:
    """Spread and diversity of every anchor over the negatives in `s`, normalised over these anchors.

    Args:
        spread: what `measured` gave for these sides, when it is known.
    """
    spread = measured(s, loss) if spread is None else spread
    raw = squash(spread, loss.epsilon)
    images, counts = np.unique(s.candidate_images, return_counts=True)
    place = np.minimum(np.searchsorted(images, s.anchor_images), len(images) - 1)
    own = np.where(images[place] == s.anchor_images, counts[place], 0)
    return Spread(spread, raw, normalise(raw), len(s.candidates) - own)


def scale(s: Sides, spread: Spread, loss: Loss, *, cells: int = CELLS) -> Scaled:
    """The four matrices, at most `cells` a side. Never more of S is held than one tile.

    Args:
        s: unit rows, in the order in which they are shown. spread: of the same anchors. loss: μ and γ.

    Raises:
        ValueError: μ is not positive.
    """
    if not loss.temperature > 0:
        raise ValueError(f"temperature must be > 0, got {loss.temperature}")
    total, width = len(s.anchors), len(s.candidates)
    row_step, column_step = max(1, -(-total // cells)), max(1, -(-width // cells))
    starts = np.arange(0, width, column_step)
    lengths = np.diff(np.append(starts, width))
    shape = (-(-total // row_step), len(starts))
    sums = {name: np.zeros(shape) for name in ("similarity", "exponent", "plain", "share")}
    counts = np.zeros(shape)
    if s.scores is None:
        s = replace(s, candidates=np.ascontiguousarray(s.candidates))
    rows = max(1, TILE // max(width, 1))
    for start in range(0, total, rows):
        part = slice(start, min(start + rows, total))
        effective = (loss.temperature * spread.diversity[part])[:, None]
        tile = s.tile(part)
        own = np.nonzero(s.anchor_images[part, None] == s.candidate_images[None, :])
        block, first = np.unique(np.arange(part.start, part.stop) // row_step, return_index=True)
        across = np.add.reduceat(tile, starts, 1)
        sums["similarity"][block] += np.add.reduceat(across, first)
        left = np.repeat(lengths[None, :], len(tile), 0)
        np.subtract.at(left, (own[0], own[1] // column_step), 1)
        np.subtract.at(across, (own[0], own[1] // column_step), tile[own])
        over = across - loss.gamma * left  # Σ (S − γ) over the negatives of a block
        counts[block] += np.add.reduceat(left, first)
        sums["exponent"][block] += np.add.reduceat(over / effective, first)
        sums["plain"][block] += np.add.reduceat(over / loss.temperature, first)
        shares = _shares(tile, own, effective, loss.gamma)
        sums["share"][block] += np.add.reduceat(np.add.reduceat(shares, starts, 1), first)
    heights = np.diff(np.append(np.arange(0, total, row_step), total))
    with np.errstate(invalid="ignore", divide="ignore"):
        exponent, plain, share = (sums[name] / np.where(counts > 0, counts, np.nan) for name in
                                  ("exponent", "plain", "share"))  # fmt: skip
        similarity = sums["similarity"] / (heights[:, None] * lengths[None, :])
    s_, x, change, p = (array.astype(np.float32) for array in (similarity, exponent, exponent - plain, share))
    return Scaled(s_, x, change, p, row_step, column_step, spread, loss)


def _shares(tile: Array, own: tuple[Array, ...], effective: Array, gamma: float) -> Array:
    """p of every negative; the tile is used up."""
    tile -= np.float32(gamma)
    tile *= (1.0 / effective).astype(np.float32)
    tile[own] = -np.inf
    largest = np.maximum(tile.max(1, keepdims=True), np.float32(0.0))
    tile -= largest
    np.exp(tile, out=tile)
    total = np.exp(-largest.astype(np.float64)) + tile.sum(1, keepdims=True, dtype=np.float64)
    tile *= (1.0 / total).astype(np.float32)
    return tile


@dataclass(frozen=True)
class Pair:
    """One cell: every number of eq. 3 and 4 for an anchor and a candidate.

    Args:
        similarity: S. own: it is the anchor's own, so it is no negative: exponents and shares are NaN.
        negatives: how many the anchor has here. spread, raw, largest, diversity: eq. 3; largest is over all anchors.
        effective: μ·div. plain, exponent: (S − γ)/μ and (S − γ)/(μ·div).
        total_plain, total: 1 + Σ exp over the anchor's negatives. share_plain, share: exp over that total.
        positive: similarity to the anchor's own partner in a batch of pairs; NaN otherwise.
        loss_plain, loss_value: μ·log(total) − log(1 + S⁺), NaN without a partner. loss: μ, γ, ε.
    """

    similarity: float
    own: bool
    negatives: int
    spread: float
    raw: float
    largest: float
    diversity: float
    effective: float
    plain: float
    exponent: float
    total_plain: float
    total: float
    share_plain: float
    share: float
    positive: float
    loss_plain: float
    loss_value: float
    loss: Loss


def open_pair(s: Sides, spread: Spread, loss: Loss, anchor: int, candidate: int, *, paired: bool) -> Pair:
    """Every number behind one cell, in float64.

    Args:
        anchor, candidate: positions in `s`.
        paired: candidate k is the partner of anchor k.

    Raises:
        IndexError: there is no such cell.
    """
    if not (0 <= anchor < len(s.anchors) and 0 <= candidate < len(s.candidates)):
        raise IndexError(f"no cell ({anchor}, {candidate}) in {len(s.anchors)} × {len(s.candidates)}")
    mu = loss.temperature
    scores = s.row(anchor).astype(np.float64)
    negatives = s.candidate_images != s.anchor_images[anchor]
    own = not bool(negatives[candidate])
    diversity = float(spread.diversity[anchor])
    value = float(scores[candidate])
    plain, exponent = (float("nan"),) * 2 if own else ((value - loss.gamma) / mu, (value - loss.gamma) / mu / diversity)
    over = (scores[negatives] - loss.gamma) / mu
    log_plain, log_scaled = (float(np.logaddexp.reduce(np.append(x, 0.0))) for x in (over, over / diversity))
    positive = float(scores[anchor]) if paired else float("nan")
    pull = float(np.log1p(max(positive, -1 + 1e-4))) if paired else float("nan")
    return Pair(
        similarity=value, own=own, negatives=int(negatives.sum()), spread=float(spread.spread[anchor]),
        raw=float(spread.raw[anchor]), largest=float(spread.raw.max()), diversity=diversity, effective=mu * diversity,
        plain=plain, exponent=exponent, total_plain=float(np.exp(log_plain)), total=float(np.exp(log_scaled)),
        share_plain=float(np.exp(plain - log_plain)), share=float(np.exp(exponent - log_scaled)), positive=positive,
        loss_plain=mu * log_plain - pull, loss_value=mu * log_scaled - pull, loss=loss,
    )  # fmt: skip
