"""How far matching pairs stand from the others: the mean distance MD, and both distributions of similarities.

Diao et al. 2024 report MD in their tables and the distributions in their figures 6 and 7; section 2 of
docs/equations.md. NumPy alone, so that the app can ask without loading torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coder_core.evaluation.scores import MatrixSource

Array = np.ndarray
# Images (n, D), texts (m, D), weight; or a matrix of scores: a score is Σ weight · ⟨image, text⟩.
Pairing = tuple[Array, Array, float] | MatrixSource

TILE_ELEMENTS = 4_194_304
PAIRS_AT_MOST = 20_000_000  # similarities counted exactly; of larger splits a random part of the images
BINS = 120


@dataclass(frozen=True)
class Separation:
    """Two mean similarities over a whole split.

    Args:
        positive: of matching pairs. negative: of all other pairs; NaN where there are none.
    """

    positive: float
    negative: float

    @property
    def mean_distance(self) -> float:
        """MD: the mean over matching pairs minus the mean over all others."""
        return self.positive - self.negative


@dataclass(frozen=True)
class Distributions:
    """How often each similarity occurs.

    Args:
        edges: (BINS + 1,) of the bins. positive, negative: (BINS,) counts of matching and of other pairs.
        images, of_images: how many images the counts are over, and how many there are; always with all captions.
    """

    edges: Array
    positive: Array
    negative: Array
    images: int
    of_images: int


def separation(pairings: Sequence[Pairing], image_of_text: Array, own: Array | None = None) -> Separation:
    """Both means, in float64, from the sums of the embeddings: Σ_ij ⟨v_i, w_j⟩ = ⟨Σ v_i, Σ w_j⟩, so no matrix is made.

    Two images and two captions with scores [[.9, .2], [.4, .7]]: (.9 + .7) / 2 − (.2 + .4) / 2 = 0.5.

    Args:
        pairings: one model's embeddings or scores, or several that are mixed (the concept branch, an ensemble).
        image_of_text: (m,) the image each caption belongs to.
        own: (m,) the score of every caption with its image, where it is known already.
    """
    everything = sum(_sum(one) for one in pairings)
    own = own_similarity(pairings, image_of_text) if own is None else own
    matching = float(own.sum(dtype=np.float64))
    others = _images(pairings) * len(own) - len(own)
    negative = (everything - matching) / others if others else float("nan")
    return Separation(matching / len(own), negative)


def own_similarity(pairings: Sequence[Pairing], image_of_text: Array) -> Array:
    """(m,) float64 similarity of every caption to its image."""
    found = np.zeros(len(image_of_text))
    for one in pairings:
        if isinstance(one, MatrixSource):
            found += one.own(image_of_text)
            continue
        v, w, weight = one
        rows = max(1, TILE_ELEMENTS // v.shape[1])
        for start in range(0, len(w), rows):
            part = slice(start, start + rows)
            found[part] += weight * np.einsum("md,md->m", v[image_of_text[part]], w[part], dtype=np.float64)
    return found


def distributions(
    pairings: Sequence[Pairing], image_of_text: Array, *, pairs: int = PAIRS_AT_MOST, seed: int = 0
) -> Distributions:
    """Histograms of the similarities of matching and of other pairs, over −1 to 1, tile by tile.

    Args:
        pairings: as for `separation`.
        image_of_text: (m,).
        pairs: at most so many similarities are looked at; beyond, those of random images to all captions.
        seed: of that draw.
    """
    count_images, count_texts = _images(pairings), len(image_of_text)
    count = min(count_images, max(1, pairs // count_texts))
    chosen = np.arange(count_images)
    if count < count_images:
        chosen = np.sort(np.random.default_rng(seed).choice(count_images, count, replace=False))
    everything, positive = np.zeros(BINS, dtype=np.int64), np.zeros(BINS, dtype=np.int64)
    step = max(1, TILE_ELEMENTS // count_texts)
    for start in range(0, count, step):
        rows = chosen[start : start + step]
        tile = np.zeros((len(rows), count_texts), dtype=np.float32)
        for one in pairings:
            tile += one.rows(rows) if isinstance(one, MatrixSource) else np.float32(one[2]) * (one[0][rows] @ one[1].T)
        own = np.flatnonzero(np.isin(image_of_text, rows))
        everything += _counted(tile)
        positive += _counted(tile[np.searchsorted(rows, image_of_text[own]), own])
    edges = np.linspace(-1, 1, BINS + 1)
    return Distributions(edges, positive, everything - positive, count, count_images)


def _images(pairings: Sequence[Pairing]) -> int:
    first = pairings[0]
    return len(first.scores if isinstance(first, MatrixSource) else first[0])


def _sum(one: Pairing) -> float:
    """Of all weighted scores."""
    if not isinstance(one, MatrixSource):
        return one[2] * float(total(one[0]) @ total(one[1]))
    return one.weight * float(total(one.scores).sum())


def total(rows: Array) -> Array:
    """(D,) float64 sum of all rows."""
    found = np.zeros(rows.shape[1])
    step = max(1, TILE_ELEMENTS // rows.shape[1])
    for start in range(0, len(rows), step):
        found += rows[start : start + step].sum(0, dtype=np.float64)
    return found


def _counted(scores: Array) -> Array:
    place = ((np.asarray(scores, dtype=np.float32) + np.float32(1)) * np.float32(BINS / 2)).astype(np.int16)
    return np.bincount(np.clip(place, 0, BINS - 1).ravel(), minlength=BINS)
