"""Spread of every anchor's similarities over a split, in NumPy. CODER eq. 3; supplement eq. 15 and 16.

For data that a matrix of all similarities would not fit: the standard deviation over a whole split comes from the
candidates' covariance, entropy from tiles. What follows, from the spread to the temperature, is
`coder_core.ops.diversity_scaling`, as in training.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from coder_core.api.sides import TILE_ELEMENTS, Array, Sides, slices
from coder_core.ops.diversity_scaling import normalise_by_largest

Measure = Literal["std", "entropy"]

ENTROPY_TILE = 2_097_152  # 8 MiB: entropy passes over a tile several times, so it should stay in the cache
SAFE_EXPONENT = 40.0  # e⁴⁰ times a million candidates is far below float32's largest number


def _own_moments(s: Sides, centre: Array) -> tuple[Array, Array, Array]:
    """Count, sum and sum of squares of each anchor's similarity to its OWN candidates (centred on `centre`)."""
    count, anchor, candidate = s.own_pairs()
    value = np.empty(len(anchor))
    for part in slices(len(anchor), TILE_ELEMENTS // s.anchors.shape[1]):
        centred = s.candidates[candidate[part]] - centre
        value[part] = np.einsum("pd,pd->p", s.anchors[anchor[part]], centred, dtype=np.float64)
    total, squares = (np.bincount(anchor, values, minlength=len(s.anchors)) for values in (value, value**2))
    return count, total, squares


def std_over_split(s: Sides) -> Array:
    """Population standard deviation of every anchor's similarities to ALL its negatives, (Q,) float64.

    With c̄ the mean candidate and Σ their covariance, an anchor's similarities have variance aᵀΣa over all candidates;
    its own candidates are then taken out. Exact, in O((Q + C)·D²), without a similarity matrix. Known scores are read
    tile by tile.
    """
    if s.scores is not None:
        return _std_of_scores(s)
    total_candidates, width = s.candidates.shape
    rows = TILE_ELEMENTS // width
    centre = np.zeros(width)
    for part in slices(total_candidates, rows):
        centre += s.candidates[part].sum(0, dtype=np.float64)
    centre /= max(total_candidates, 1)
    scatter = np.zeros((width, width))
    for part in slices(total_candidates, rows):
        centred = s.candidates[part] - centre
        scatter += centred.T @ centred
    squares = np.empty(len(s.anchors))
    for part in slices(len(s.anchors), rows):
        anchors = np.asarray(s.anchors[part], dtype=np.float64)
        squares[part] = np.einsum("qd,qd->q", anchors @ scatter, anchors)
    own, own_sum, own_squares = _own_moments(s, centre)
    negatives = np.maximum(total_candidates - own, 1)
    variance = (squares - own_squares) / negatives - (own_sum / negatives) ** 2
    return np.sqrt(np.maximum(variance, 0.0))


def _std_of_scores(s: Sides) -> Array:
    spread = np.zeros(len(s.anchors))
    for rows, tile, own in s.tiles(TILE_ELEMENTS):
        negatives = np.ones(tile.shape, dtype=bool)
        negatives[own] = False
        spread[rows] = masked_spread(tile.astype(np.float64), negatives, "std", 1.0)
    return spread


def masked_spread(scores: Array, negatives: Array, measure: Measure, temperature: float) -> Array:
    """Standard deviation or entropy of the scores (Q, C) where `negatives` (Q, C) is True; 0 without a negative."""
    if measure == "std":
        count = np.maximum(negatives.sum(1), 1)
        mean = np.where(negatives, scores, 0.0).sum(1) / count
        return np.asarray(np.sqrt((np.where(negatives, scores - mean[:, None], 0.0) ** 2).sum(1) / count))
    from scipy.special import entr, softmax

    share = softmax(np.where(negatives, scores / temperature, np.finfo(np.float64).min), axis=1)
    return np.asarray(entr(np.where(negatives, share, 0.0)).sum(1) / np.log(2.0))


def entropy_over_split(s: Sides, temperature: float) -> Array:
    """Entropy in bits of softmax(S / τ) over all negatives, (Q,) float64; supplement eq. 16. One tile at a time.

    Raises:
        ValueError: temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    entropy = np.zeros(len(s.anchors))
    scale = np.float32(1.0 / temperature)
    for rows, tile, own in s.tiles(ENTROPY_TILE):
        tile *= scale
        tile[own] = -np.inf
        if scale > SAFE_EXPONENT:  # entropy does not change with a shift; small exponents need none
            largest = tile.max(1, initial=-np.inf, keepdims=True)
            tile -= np.where(np.isfinite(largest), largest, 0.0)
        weights = np.exp(tile)
        tile[own] = 0.0  # 0 · ∞ is not 0
        mass = weights.sum(1).astype(np.float64)
        alone = mass == 0  # no negative at all
        mass[alone] = 1.0
        nats = np.log(mass) - np.einsum("qc,qc->q", weights, tile) / mass
        entropy[rows] = np.where(alone, 0.0, nats)
    return entropy / np.log(2.0)


def normalise(raw: Array, batch_of: Array | None = None) -> Array:
    """Divide by the largest raw value: over all anchors, or within each batch. Range (0.5, 1]."""
    if not len(raw):
        return raw
    if batch_of is None:
        return normalise_by_largest(raw)
    largest = np.zeros(batch_of.max() + 1)
    np.maximum.at(largest, batch_of, raw)
    return normalise_by_largest(raw, largest[batch_of])


def shares(exponents: Array) -> Array:
    """exp(x) / (1 + Σ exp(x)) of every row, the share of the loss each negative carries. CODER eq. 4.

    What is missing to 1 belongs to "no negative is too close".

    Args:
        exponents: (Q, C), −∞ where there is no negative; used up.
    """
    largest = exponents.max(1, keepdims=True, initial=0.0)
    exponents -= largest
    np.exp(exponents, out=exponents)
    total = np.exp(-largest.astype(np.float64)) + exponents.sum(1, keepdims=True, dtype=np.float64)
    exponents *= (1.0 / total).astype(exponents.dtype)
    return exponents
