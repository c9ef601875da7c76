"""A similarity matrix before and after diversity scaling, tile by tile; large ones as the means of blocks. CODER eq. 4.

With S the cosines, an anchor i and its negatives j, the exponent of the loss is x_ij = (S_ij − γ) / (μ·div_i), and the
share of the loss that a negative carries is p_ij = exp(x_ij) / (1 + Σ_k exp(x_ik)).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from coder_core.api.diversity import Loss, entropy_over_split, normalise, shares, std_over_split
from coder_core.api.sides import Array, Sides
from coder_core.ops.diversity_scaling import sharpness, squash

TILE = 2_097_152  # 8 MiB of float32: the largest piece of S in memory
CELLS = 256  # a side: up to here every pair is a cell of its own


@dataclass(frozen=True)
class AnchorDiversity:
    """Diversity of each anchor over the negatives shown. CODER eq. 3.

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
    """A matrix before and after diversity scaling; anchors are rows, candidates columns, all four float32 (R, C).

    Args:
        similarity: S, the own pairs included.
        exponent: (S − γ) / (μ·div). change: what diversity adds to (S − γ) / μ. share: p, of the loss.
            NaN for own pairs, which are not negatives.
        row_step, column_step: samples in a cell; 1 where every pair is a cell, otherwise the cell is a block's mean.
        spread: of the anchors. loss: μ, γ, ε used.
    """

    similarity: Array
    exponent: Array
    change: Array
    share: Array
    row_step: int
    column_step: int
    spread: AnchorDiversity
    loss: Loss


def spread_over(s: Sides, loss: Loss) -> Array:
    """(Q,) standard deviation, or entropy in bits, of every anchor over the negatives in `s`; μ, γ, ε play no part."""
    return std_over_split(s) if loss.function == "std" else entropy_over_split(s, loss.entropy_temperature)


def anchor_diversity(s: Sides, loss: Loss, spread: Array | None = None) -> AnchorDiversity:
    """Spread (known from `spread_over`, or None) and diversity of every anchor over the negatives in `s`, normalised over
    these anchors."""
    spread = spread_over(s, loss) if spread is None else spread
    raw = squash(spread, loss.epsilon)
    return AnchorDiversity(spread, raw, normalise(raw), len(s.candidates) - s.own_pairs()[0])


def scale(s: Sides, spread: AnchorDiversity, loss: Loss, *, cells: int = CELLS) -> Scaled:
    """The four matrices, at most `cells` a side. Only one tile of S is in memory at a time.

    Args:
        s: unit rows, in the order in which they are shown. spread: of the same anchors. loss: μ and γ.

    Raises:
        ValueError: μ is not positive.
    """
    plain, scaled = sharpness(1.0, loss.temperature), sharpness(spread.diversity, loss.temperature)
    total, width = len(s.anchors), len(s.candidates)
    row_step, column_step = max(1, -(-total // cells)), max(1, -(-width // cells))
    tops, starts = np.arange(0, total, row_step), np.arange(0, width, column_step)
    sizes = np.outer(np.diff(np.append(tops, total)), np.diff(np.append(starts, width)))
    counts = sizes.copy()  # negatives of a block
    _, own_rows, own_columns = s.own_pairs()
    np.subtract.at(counts, (own_rows // row_step, own_columns // column_step), 1)
    of_rows = np.stack([scaled, scaled - plain]).astype(np.float32)
    sums = np.zeros((4, len(tops), len(starts)))  # similarity, exponent, change, share
    for part, tile, own in s.tiles(TILE):
        start = part.start
        block, first = np.unique(np.arange(part.start, part.stop) // row_step, return_index=True)
        added = np.empty((4, len(block), width), np.float32)
        np.add.reduceat(tile, first, out=added[0])
        tile -= np.float32(loss.gamma)
        tile[own] = 0.0
        for number, (top, bottom) in enumerate(pairwise([*first, len(tile)])):
            np.matmul(of_rows[:, start + top : start + bottom], tile[top:bottom], out=added[1:3, number])
        tile *= of_rows[0, part, None]
        tile[own] = -np.inf
        np.add.reduceat(shares(tile), first, out=added[3])
        sums[:, block] += np.add.reduceat(added, starts, 2)
    negatives = np.where(counts > 0, counts, np.nan)
    means = [sums[0] / sizes, *(summed / negatives for summed in sums[1:])]
    similarity, exponent, change, share = (mean.astype(np.float32) for mean in means)
    return Scaled(similarity, exponent, change, share, row_step, column_step, spread, loss)


@dataclass(frozen=True)
class Pair:
    """One cell: every number of eq. 3 and 4 for an anchor and a candidate.

    Args:
        similarity: S. own: the candidate is the anchor's own and not a negative: exponents and shares are NaN.
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


def open_pair(
    s: Sides, spread: AnchorDiversity, loss: Loss, anchor: int, candidate: int, *, paired: bool
) -> Pair:
    """Every number behind one cell, in float64.

    Args:
        anchor, candidate: positions in `s`.
        paired: candidate k is the partner of anchor k.

    Raises:
        IndexError: there is no such cell.
    """
    if not (0 <= anchor < len(s.anchors) and 0 <= candidate < len(s.candidates)):
        raise IndexError(f"no cell ({anchor}, {candidate}) in {len(s.anchors)} × {len(s.candidates)}")
    mu, diversity = loss.temperature, float(spread.diversity[anchor])
    scales = sharpness(1.0, mu), sharpness(diversity, mu)
    scores = s.row(anchor).astype(np.float64)
    negatives = s.candidate_images != s.anchor_images[anchor]
    own = not bool(negatives[candidate])
    above = float("nan") if own else float(scores[candidate]) - loss.gamma
    plain, exponent = (above * scale for scale in scales)
    every = np.append(scores[negatives] - loss.gamma, 0.0)  # the 1 in the sum is exp(0)
    log_plain, log_scaled = (float(np.logaddexp.reduce(every * scale)) for scale in scales)
    positive = float(scores[anchor]) if paired else float("nan")
    pull = float(np.log1p(max(positive, -1 + 1e-4))) if paired else float("nan")
    return Pair(
        similarity=float(scores[candidate]),
        own=own,
        negatives=int(negatives.sum()),
        spread=float(spread.spread[anchor]),
        raw=float(spread.raw[anchor]),
        largest=float(spread.raw.max()),
        diversity=diversity,
        effective=mu * diversity,
        plain=plain,
        exponent=exponent,
        total_plain=float(np.exp(log_plain)),
        total=float(np.exp(log_scaled)),
        share_plain=float(np.exp(plain - log_plain)),
        share=float(np.exp(exponent - log_scaled)),
        positive=positive,
        loss_plain=mu * log_plain - pull,
        loss_value=mu * log_scaled - pull,
        loss=loss,
    )
