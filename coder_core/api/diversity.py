"""Diversity of a run's anchors and its effect on the weights of their negatives. CODER eq. 3 and 4.

From top to bottom: the spread of an anchor's similarities over its negatives, which may be a whole split, a random
batch or a random bank; from spreads to diversities; from diversities to weights; details of one anchor. The formulas
are those of training (`coder_core.ops.diversity_scaling`), applied to NumPy arrays.

A matrix of all similarities of a split would not fit in memory, so they are computed in tiles. Standard deviations over
a split of embeddings need no similarities at all: they follow from the covariance of the candidates.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import pandas as pd

from coder_core.api.sampling import SplitPart
from coder_core.api.sides import TILE_ELEMENTS, Array, Modality, Sides, slices
from coder_core.evaluation.sources import column_sums
from coder_core.objectives.table import EPSILON, MARGIN, TEMPERATURE
from coder_core.ops.diversity_scaling import Measure, normalise_by_largest, sharpness, spread, squash

Candidates = Literal["split", "batch", "bank"]

BANK_SIZE = 4_096  # CODER's bank on Flickr30K, section 4.2
NONE_EXCLUDED = (np.empty(0, np.int64), np.empty(0, np.int64))  # rows and columns
TILE = 2_097_152  # 8 MiB: entropy passes over a tile several times, so it should stay in the cache


@dataclass(frozen=True)
class LossSettings:
    """The settings of eq. 3 and 4 for an anchor's diversity and weights."""

    temperature: float = TEMPERATURE  # μ
    gamma: float = MARGIN  # γ
    epsilon: float = EPSILON  # ε
    function: Measure = "std"  # the measure of diversity, "std" or "entropy"
    entropy_temperature: float = 1.0  # τ of the softmax inside entropy
    # False if the run was trained with another loss, so that these are only the paper's values
    trained: bool = False


@dataclass(frozen=True)
class DiversitySettings:
    """The choices behind a table of diversities."""

    modality: Modality = "text"  # of the anchors
    function: Measure = "std"  # "std" (eq. 3) or "entropy" (supplement eq. 16)
    # "split", all negatives; "batch", those of one random batch; "bank", a random bank of pairs
    candidates: Candidates = "split"
    batch_size: int = 128  # pairs in a batch
    bank_size: int = BANK_SIZE  # pairs in the bank
    seed: int = 0  # of the random batches or bank
    temperature: float = 1.0  # of the softmax inside entropy

    def __post_init__(self) -> None:
        if self.modality not in get_args(Modality):
            raise ValueError(f"modality is {self.modality!r}: give one of {', '.join(get_args(Modality))}")

    @property
    def key(self) -> tuple[object, ...]:
        """The settings that affect the spread."""
        drawn = {"split": (), "batch": (self.batch_size, self.seed), "bank": (self.bank_size, self.seed)}
        temperature = self.temperature if self.function == "entropy" else None
        return self.modality, self.function, self.candidates, *drawn[self.candidates], temperature


def spread_over(s: Sides, measure: Measure, temperature: float) -> Array:
    """Return (Q,) float64 standard deviation, or entropy in bits, of every anchor's similarities to ALL its negatives.
    ValueError: the entropy's temperature is not positive."""
    if measure == "std" and s.scores is None:
        return std_from_covariance(s)
    spreads = np.zeros(len(s.anchors))
    for rows, tile, own in s.tiles(TILE):
        scores = tile.astype(np.float64) if measure == "std" else tile
        spreads[rows] = spread(scores, own, measure, temperature)
    return spreads


def std_from_covariance(s: Sides) -> Array:
    """Return the population standard deviation of every anchor's similarities to its negatives, (Q,) float64.

    With c̄ the mean candidate and Σ their covariance, an anchor's similarities have variance aᵀΣa over all candidates;
    its own candidates are then removed. This is exact and takes O((Q + C)·D²), without a similarity matrix.
    """
    count, width = s.candidates.shape
    rows = TILE_ELEMENTS // width
    centre = column_sums(s.candidates) / max(count, 1)
    scatter = np.zeros((width, width))
    for part in slices(count, rows):
        centred = s.candidates[part] - centre
        scatter += centred.T @ centred
    squares = np.empty(len(s.anchors))
    for part in slices(len(s.anchors), rows):
        anchors = np.asarray(s.anchors[part], dtype=np.float64)
        squares[part] = np.einsum("qd,qd->q", anchors @ scatter, anchors)
    positives, positive_sum, positive_squares = _own_moments(s, centre)
    negatives = np.maximum(count - positives, 1)
    variance = (squares - positive_squares) / negatives - (positive_sum / negatives) ** 2
    return np.sqrt(np.maximum(variance, 0.0))


def _own_moments(s: Sides, centre: Array) -> tuple[Array, Array, Array]:
    """Return count, sum and sum of squares of each anchor's similarity to its OWN candidates (centred on `centre`)."""
    count, anchor, candidate = s.own_pairs()
    value = np.empty(len(anchor))
    for part in slices(len(anchor), TILE_ELEMENTS // s.anchors.shape[1]):
        centred = s.candidates[candidate[part]] - centre
        value[part] = np.einsum("pd,pd->p", s.anchors[anchor[part]], centred, dtype=np.float64)
    total, squares = (np.bincount(anchor, values, minlength=len(s.anchors)) for values in (value, value**2))
    return count, total, squares


@dataclass(frozen=True)
class Draw:
    """Random training batches that hold every anchor of a modality exactly once."""

    # pair_image, pair_text: (Q,) the image and the caption of each anchor's pair; any caption for an image without one
    pair_image: Array
    pair_text: Array
    batches: Array  # (K, B) anchors in each batch; the last one borrows from the first to be full
    batch_of: Array  # (Q,) the batch that gives an anchor its diversity


def draw_batches(part: SplitPart, settings: DiversitySettings) -> Draw | None:
    """Cut all anchors of a modality into random batches; an image is paired with one of its captions at random. Return
    None unless the settings' candidates are "batch". ValueError: the batch is smaller than 2."""
    if settings.candidates != "batch":
        return None
    if settings.batch_size < 2:
        size = settings.batch_size
        raise ValueError(f"batch_size must be at least 2, got {size}: a pair alone has no negatives")

    rng = np.random.default_rng(settings.seed)
    if settings.modality == "image":
        shuffled = rng.permutation(len(part.owner))
        owner, first = np.unique(part.owner[shuffled], return_index=True)
        pair_text = np.resize(shuffled, len(part.images))
        pair_text[owner] = shuffled[first]
        pair_image = np.arange(len(part.images))
    else:
        pair_image = np.asarray(part.owner, dtype=np.int64)
        pair_text = np.arange(len(part.owner))

    count = len(pair_image)
    size = min(settings.batch_size, count)
    order = rng.permutation(count)
    starts = np.arange(0, count, size)
    batches = order[(starts[:, None] + np.arange(size)[None, :]) % count]
    batch_of = np.empty(count, dtype=np.int64)
    batch_of[order] = np.arange(count) // size
    return Draw(pair_image, pair_text, batches, batch_of)


def draw_bank(part: SplitPart, settings: DiversitySettings) -> Array:
    """Draw a bank of pairs (all, if there are fewer) without replacement, and return its captions, or their images. An
    image is in the bank once for each of its pairs, as in the coupled queues. ValueError: bank_size is below 1."""
    if settings.bank_size < 1:
        raise ValueError(f"bank_size must be at least 1, got {settings.bank_size}")
    count = len(part.owner)
    rng = np.random.default_rng(settings.seed)
    pairs = np.sort(rng.choice(count, min(settings.bank_size, count), replace=False))
    return pairs if settings.modality == "image" else part.owner[pairs]


def anchor_spreads(part: SplitPart, settings: DiversitySettings) -> Array:
    """Return (Q,) float64 standard deviation, or entropy in bits, of every anchor's similarities to its negatives."""
    measure = settings.function
    temperature = settings.temperature
    draw = draw_batches(part, settings)
    if draw is None:
        sides = part.sides(settings.modality)
        if settings.candidates == "bank":
            sides = sides.among(draw_bank(part, settings))
        return spread_over(sides, measure, temperature)

    spreads = np.zeros(len(draw.pair_image))
    for number, batch in enumerate(draw.batches):
        images = draw.pair_image[batch]
        texts = draw.pair_text[batch]
        scores = part.similarities(images, texts).astype(np.float64)
        own = images[:, None] == part.owner[texts]
        if settings.modality == "text":
            scores = scores.T
            own = own.T
        in_batch = spread(scores, own.nonzero(), measure, temperature)
        counted = draw.batch_of[batch] == number
        spreads[batch[counted]] = in_batch[counted]
    return spreads


def normalise_in_draw(raw: Array, draw: Draw | None = None) -> Array:
    """Divide by the largest raw value: over all anchors, or over those of each anchor's batch. Range (0.5, 1]. Anchors
    that the last batch borrows count with the spread in their own batch."""
    if not len(raw):
        return raw
    return normalise_by_largest(raw, None if draw is None else raw[draw.batches].max(1)[draw.batch_of])


def shares(exponents: Array) -> Array:
    """Return exp(x) / (1 + Σ exp(x)) of every row, the share of each negative in the loss. CODER eq. 4.

    The rest up to 1 is the share of "no negative is too close". `exponents` (Q, C), −∞ where there is no negative, are
    overwritten.
    """
    largest = exponents.max(1, keepdims=True, initial=0.0)
    exponents -= largest
    np.exp(exponents, out=exponents)
    total = np.exp(-largest.astype(np.float64)) + exponents.sum(1, keepdims=True, dtype=np.float64)
    exponents *= (1.0 / total).astype(exponents.dtype)
    return exponents


def negative_weights(similarities: Array, *, temperature: float, gamma: float) -> Array:
    """Return the share of each negative in the loss, with exponents (S − γ) / temperature. CODER eq. 4.

    With the effective temperature μ·div, a small diversity raises the exponents of negatives above γ and lowers those
    of negatives below. ValueError: temperature is not positive.
    """
    exponents = (np.asarray(similarities, dtype=np.float64) - gamma) * sharpness(1.0, temperature)
    return shares(exponents[None])[0]


@dataclass(frozen=True)
class Anchor:
    """An anchor: its negatives, its diversity, and the weights of its negatives."""

    modality: Modality  # "image" or "text"
    number: int  # its row in the split
    candidates: Array  # (N,) rows of its negatives in the other modality
    similarities: Array  # (N,) cosines to them
    positives: Array  # (P,) similarities to its own candidates
    spread: float  # standard deviation (or entropy, bits) of the similarities
    raw: float  # 1 / sigmoid(ε / spread)
    diversity: float  # raw over the largest raw of the modality, in (0.5, 1]
    temperature: float  # the effective one, μ·div
    # plain, scaled: (N,) weight of every negative without and with diversity
    plain: Array
    scaled: Array
    loss: LossSettings

    def nearest(self, count: int = 10) -> pd.DataFrame:
        """List the negatives most similar to the anchor: candidate, similarity, weights without and with diversity."""
        rows = np.argsort(-self.similarities, kind="stable")[:count]
        columns = {
            "candidate": self.candidates[rows],
            "similarity": self.similarities[rows].astype(np.float64),
            "weight_plain": self.plain[rows],
            "weight_diversity": self.scaled[rows],
        }
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class MeasuredSpreads:
    """Spreads of the anchors of a split, or of a sample of it, and how they were measured."""

    part: SplitPart  # the split or the sample
    settings: DiversitySettings
    values: Array  # (Q,) standard deviation, or entropy in bits, of every anchor of the part


def open_anchor(split: Sides, number: int, measured: MeasuredSpreads, loss: LossSettings) -> Anchor:
    """Compute an anchor's negatives, its diversity and the weights of the negatives.

    An anchor outside the sample is compared with the sample's candidates, in batches with the first batch, and its
    diversity is relative to the largest one there (at most 1).

    `split`: all anchors and candidates. `number`: the anchor's row among them. `measured`: the spreads to compare with."""
    part = measured.part
    settings = measured.settings
    matches = np.flatnonzero(part.rows(settings.modality) == number)
    position = int(matches[0]) if len(matches) else -1
    draw = draw_batches(part, settings)
    own = split.candidate_images == split.anchor_images[number]
    batch = None if draw is None else draw.batches[draw.batch_of[position] if position >= 0 else 0]
    candidates = _candidates(part, settings, draw, batch)  # an image may be among them more than once
    candidates = candidates[~own[candidates]]
    similarities = split.row(number, candidates)
    if position >= 0:
        own_spread = float(measured.values[position])
    else:
        row = similarities[None].astype(np.float64)
        own_spread = float(spread(row, NONE_EXCLUDED, settings.function, settings.temperature)[0])

    largest = (measured.values if batch is None else measured.values[batch]).max()
    raw, largest_raw = squash(np.array([own_spread, largest]), loss.epsilon).tolist()
    diversity = min(raw / largest_raw, 1.0)
    effective = loss.temperature * diversity
    return Anchor(
        modality=settings.modality,
        number=number,
        candidates=candidates,
        similarities=similarities,
        positives=split.row(number, np.flatnonzero(own)),
        spread=own_spread,
        raw=raw,
        diversity=diversity,
        temperature=effective,
        plain=negative_weights(similarities, temperature=loss.temperature, gamma=loss.gamma),
        scaled=negative_weights(similarities, temperature=effective, gamma=loss.gamma),
        loss=loss,
    )


def _candidates(
    part: SplitPart, settings: DiversitySettings, draw: Draw | None, batch: Array | None
) -> Array:
    """Return the split rows of an anchor's candidates, including its own; `batch`: the pairs of its batch, or None."""
    rows = part.rows("text" if settings.modality == "image" else "image")
    if draw is not None:
        return rows[(draw.pair_text if settings.modality == "image" else draw.pair_image)[batch]]
    return rows[draw_bank(part, settings)] if settings.candidates == "bank" else rows
