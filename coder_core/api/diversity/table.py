"""Diversity of every anchor of a split, in NumPy. CODER eq. 3; supplement eq. 15 and 16.

The same numbers as `coder_core.objectives.diversity`, for data that a matrix of all similarities would not fit: the
standard deviation over a whole split comes from the candidates' covariance, entropy from tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Array = np.ndarray
Modality = Literal["image", "text"]
Measure = Literal["std", "entropy"]
Candidates = Literal["split", "batch", "bank"]

TILE_ELEMENTS = 4_194_304  # 16 MiB of float32: the largest piece of a similarity matrix that is ever held
ENTROPY_TILE = 2_097_152  # 8 MiB: entropy passes over a tile several times, so it should stay in the cache
SAFE_EXPONENT = 40.0  # e⁴⁰ times a million candidates is far below float32's largest number


@dataclass(frozen=True)
class Sides:
    """Anchors of one modality against candidates of the other.

    Args:
        anchors: (Q, D) unit rows.
        candidates: (C, D) unit rows.
        anchor_images: (Q,) the image each anchor shows or describes.
        candidate_images: (C,) likewise; an anchor's own image is never a negative.
        scores: (Q, C) of a model that scores pair by pair; its anchors and candidates have no numbers (D = 0).
    """

    anchors: Array
    candidates: Array
    anchor_images: Array
    candidate_images: Array
    scores: Array | None = None

    def tile(self, rows: slice) -> Array:
        """(k, C) float32 similarities of some anchors with all candidates, to be written to."""
        if self.scores is not None:
            return np.array(self.scores[rows], dtype=np.float32)
        return np.asarray(np.ascontiguousarray(self.anchors[rows]) @ self.candidates.T)

    def row(self, anchor: int, candidates: Array | slice = slice(None)) -> Array:
        """(k,) float32 similarities of one anchor with some candidates."""
        if self.scores is not None:
            return np.array(self.scores[anchor, candidates], dtype=np.float32)
        return np.asarray(np.asarray(self.candidates[candidates], np.float32) @ self.anchors[anchor])

    def pairs(self, anchors: Array, candidates: Array) -> Array:
        """(P,) float32 similarity of each anchor to the candidate at the same place, a tile of rows at a time."""
        found = np.empty(len(anchors), dtype=np.float32)
        rows = max(1, TILE_ELEMENTS // max(1, self.anchors.shape[1]))
        for start in range(0, len(anchors), rows):
            part = slice(start, start + rows)
            if self.scores is not None:
                found[part] = self.scores[anchors[part], candidates[part]]
            else:
                found[part] = np.einsum("pd,pd->p", self.anchors[anchors[part]], self.candidates[candidates[part]])
        return found

    def among(self, candidates: Array) -> Sides:
        """The same anchors against some of the candidates."""
        scores = None if self.scores is None else self.scores[:, candidates]
        images = self.candidate_images[candidates]
        return Sides(self.anchors, self.candidates[candidates], self.anchor_images, images, scores)


def sides(images: Array, texts: Array, image_of_text: Array, modality: Modality, scores: Array | None = None) -> Sides:
    """Images (n, D) and texts (m, D) as anchors and candidates; `modality` names the anchors.

    Args:
        scores: (n, m) instead of inner products.
    """
    numbers = np.arange(len(images))
    if modality == "image":
        return Sides(images, texts, numbers, image_of_text, scores)
    return Sides(texts, images, image_of_text, numbers, None if scores is None else scores.T)


def squash(spread: Array, epsilon: float) -> Array:
    """raw = 1 / sigmoid(ε / spread), from 1 (no spread) to 2. CODER eq. 3.

    Raises:
        ValueError: epsilon is not positive.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be > 0, got {epsilon}")
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 + np.exp(-epsilon / np.asarray(spread, dtype=np.float64)))


def _own_pairs(s: Sides) -> tuple[Array, Array, Array]:
    """Each anchor's number of OWN candidates (Q,), and all such pairs: anchors ascending (P,), candidates (P,)."""
    order = np.argsort(s.candidate_images, kind="stable")
    owners = s.candidate_images[order]
    first = np.searchsorted(owners, s.anchor_images, side="left")
    count = np.searchsorted(owners, s.anchor_images, side="right") - first
    anchor = np.repeat(np.arange(len(s.anchors)), count)
    step = np.arange(len(anchor)) - np.repeat(np.cumsum(count) - count, count)
    return count, anchor, order[np.repeat(first, count) + step]


def _own_moments(s: Sides, centre: Array) -> tuple[Array, Array, Array]:
    """Count, sum and sum of squares of each anchor's similarity to its OWN candidates (centred on `centre`)."""
    count, anchor, candidate = _own_pairs(s)
    value = np.empty(len(anchor))
    rows = max(1, TILE_ELEMENTS // s.anchors.shape[1])
    for start in range(0, len(anchor), rows):
        part = slice(start, start + rows)
        centred = s.candidates[candidate[part]] - centre
        value[part] = np.einsum("pd,pd->p", s.anchors[anchor[part]], centred, dtype=np.float64)
    total = np.bincount(anchor, value, minlength=len(s.anchors))
    squares = np.bincount(anchor, value**2, minlength=len(s.anchors))
    return count, total, squares


def std_over_split(s: Sides) -> Array:
    """Population standard deviation of every anchor's similarities to ALL its negatives, (Q,) float64.

    With c̄ the mean candidate and Σ their covariance, an anchor's similarities have variance aᵀΣa over all candidates;
    its own candidates are then taken out. Exact, and O((Q + C)·D²): no similarity matrix is ever formed.
    Where the scores are known they are read, tile by tile.
    """
    if s.scores is not None:
        return _std_of_scores(s)
    total_candidates, width = s.candidates.shape
    rows = max(1, TILE_ELEMENTS // width)
    centre = np.zeros(width)
    for start in range(0, total_candidates, rows):
        centre += s.candidates[start : start + rows].sum(0, dtype=np.float64)
    centre /= max(total_candidates, 1)
    scatter = np.zeros((width, width))
    for start in range(0, total_candidates, rows):
        centred = s.candidates[start : start + rows] - centre
        scatter += centred.T @ centred
    squares = np.empty(len(s.anchors))
    for start in range(0, len(s.anchors), rows):
        part = np.asarray(s.anchors[start : start + rows], dtype=np.float64)
        squares[start : start + rows] = np.einsum("qd,qd->q", part @ scatter, part)
    own, own_sum, own_squares = _own_moments(s, centre)
    left = np.maximum(total_candidates - own, 1)
    variance = (squares - own_squares) / left - (own_sum / left) ** 2
    return np.sqrt(np.maximum(variance, 0.0))


def _std_of_scores(s: Sides) -> Array:
    _, own_anchor, own_candidate = _own_pairs(s)
    found = np.zeros(len(s.anchors))
    rows = max(1, TILE_ELEMENTS // max(len(s.candidates), 1))
    for start in range(0, len(s.anchors), rows):
        tile = s.tile(slice(start, start + rows))
        first, last = np.searchsorted(own_anchor, (start, start + len(tile)))
        negatives = np.ones(tile.shape, dtype=bool)
        negatives[own_anchor[first:last] - start, own_candidate[first:last]] = False
        found[start : start + len(tile)] = masked_spread(tile.astype(np.float64), negatives, "std", 1.0)
    return found


def masked_spread(scores: Array, negatives: Array, measure: Measure, temperature: float) -> Array:
    """Standard deviation or entropy of the scores (Q, C) where `negatives` (Q, C) is True; 0 without a negative."""
    count = np.maximum(negatives.sum(1), 1)
    if measure == "std":
        mean = np.where(negatives, scores, 0.0).sum(1) / count
        return np.asarray(np.sqrt((np.where(negatives, scores - mean[:, None], 0.0) ** 2).sum(1) / count))
    logits = np.where(negatives, scores / temperature, -np.inf)
    largest = logits.max(1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0.0)
    shifted = logits - largest
    weights = np.exp(shifted)
    mass = np.maximum(weights.sum(1), np.finfo(np.float64).tiny)
    expected = (weights * np.where(negatives, shifted, 0.0)).sum(1) / mass
    return np.asarray((np.log(mass) - expected) / np.log(2.0))


def entropy_over_split(s: Sides, temperature: float) -> Array:
    """Entropy in bits of softmax(S / τ) over all negatives, (Q,) float64; supplement eq. 16. One tile at a time.

    Raises:
        ValueError: temperature is not positive.
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    result = np.zeros(len(s.anchors))
    if s.scores is None:
        s = replace(s, candidates=np.ascontiguousarray(s.candidates))
    _, own_anchor, own_candidate = _own_pairs(s)
    rows = max(1, ENTROPY_TILE // max(len(s.candidates), 1))
    scale = np.float32(1.0 / temperature)
    for start in range(0, len(s.anchors), rows):
        tile = s.tile(slice(start, start + rows))
        tile *= scale
        first, last = np.searchsorted(own_anchor, (start, start + len(tile)))
        own = own_anchor[first:last] - start, own_candidate[first:last]
        tile[own] = -np.inf
        if scale > SAFE_EXPONENT:  # entropy does not change with a shift; small exponents need none
            largest = tile.max(1, initial=-np.inf, keepdims=True)
            tile -= np.where(np.isfinite(largest), largest, 0.0)
        weights = np.exp(tile)
        tile[own] = 0.0  # 0 · ∞ is not 0
        mass = weights.sum(1).astype(np.float64)
        alone = mass == 0  # no negative at all
        mass[alone] = 1.0
        found = np.log(mass) - np.einsum("qc,qc->q", weights, tile) / mass
        result[start : start + len(tile)] = np.where(alone, 0.0, found)
    return result / np.log(2.0)


@dataclass(frozen=True)
class Draw:
    """Random training batches in which every anchor of a modality stands exactly once as itself.

    Args:
        pair_image, pair_text: (Q,) the image and the caption of each anchor's pair.
        batches: (K, B) anchors in each batch; the last one borrows from the first to be full.
        batch_of: (Q,) the batch an anchor is judged in.
    """

    pair_image: Array
    pair_text: Array
    batches: Array
    batch_of: Array


def draw_batches(images: int, image_of_text: Array, modality: Modality, *, batch_size: int, seed: int) -> Draw:
    """Cut all anchors of a modality into random batches; an image is paired with one of its captions, at random.

    Raises:
        ValueError: the batch is smaller than 2.
    """
    if batch_size < 2:
        raise ValueError(f"batch_size must be at least 2, got {batch_size}: a pair alone has no negatives")
    rng = np.random.default_rng(seed)
    if modality == "image":
        shuffled = rng.permutation(len(image_of_text))
        owner, first = np.unique(image_of_text[shuffled], return_index=True)
        pair_text = np.zeros(images, dtype=np.int64)
        pair_text[owner] = shuffled[first]
        pair_image = np.arange(images)
    else:
        pair_image, pair_text = np.asarray(image_of_text, dtype=np.int64), np.arange(len(image_of_text))
    count = len(pair_image)
    size = min(batch_size, count)
    order = rng.permutation(count)
    starts = np.arange(0, count, size)
    batches = order[(starts[:, None] + np.arange(size)[None, :]) % count]
    batch_of = np.empty(count, dtype=np.int64)
    batch_of[order] = np.arange(count) // size
    return Draw(pair_image, pair_text, batches, batch_of)


def draw_bank(pairs: int, *, size: int, seed: int) -> Array:
    """Rows of the captions whose pairs stand in a bank of `size` (or of all pairs), drawn without repetition.

    Raises:
        ValueError: the bank holds nothing.
    """
    if size < 1:
        raise ValueError(f"a bank holds at least 1 pair, got {size}")
    return np.sort(np.random.default_rng(seed).choice(pairs, min(size, pairs), replace=False))


def spread_in_batches(
    images: Array, texts: Array, draw: Draw, modality: Modality, measure: Measure, *, temperature: float = 1.0,
    scores: Array | None = None,
) -> Array:  # fmt: skip
    """Each anchor's spread over the negatives of its batch, (Q,) float64.

    Args:
        images: (n, D) unit rows. texts: (m, D) unit rows.
        draw: from `draw_batches`. modality: of the anchors.
        scores: (n, m) instead of inner products.
    """
    spread = np.zeros(len(draw.pair_image))
    for number, batch in enumerate(draw.batches):
        pair_images, pair_texts = draw.pair_image[batch], draw.pair_text[batch]
        if scores is None:
            known = images[pair_images] @ texts[pair_texts].T
        else:
            known = scores[pair_images[:, None], pair_texts[None, :]]
        found_scores = np.asarray(known if modality == "image" else known.T, dtype=np.float64)
        owners = draw.pair_image[batch]
        found = masked_spread(found_scores, owners[:, None] != owners[None, :], measure, temperature)
        own = draw.batch_of[batch] == number
        spread[batch[own]] = found[own]
    return spread


def normalise(raw: Array, batch_of: Array | None = None) -> Array:
    """Divide by the largest raw value: over all anchors, or within each batch. Range (0.5, 1]."""
    if batch_of is None:
        return np.asarray(raw / raw.max()) if len(raw) else raw
    largest = np.zeros(batch_of.max() + 1 if len(batch_of) else 0)
    np.maximum.at(largest, batch_of, raw)
    return np.asarray(raw / largest[batch_of])
