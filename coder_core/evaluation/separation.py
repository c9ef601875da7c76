"""Compare matching pairs with all others: the mean distance MD, and both distributions of similarities.

Diao et al. 2024 report MD in their tables and the distributions in their figures 6 and 7; section 2 of
docs/equations.md. Uses only NumPy, so that the app need not load torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coder_core.evaluation.sources import TILE_ELEMENTS, Array, Source, slices

PAIRS_AT_MOST = 20_000_000  # similarities to count; larger splits use a random part of the images
BINS = 120


@dataclass(frozen=True)
class Separation:
    """Two mean similarities over a whole split."""

    positive: float  # of matching pairs
    negative: float  # of all other pairs; NaN if there are none

    @property
    def mean_distance(self) -> float:
        """MD: the mean over matching pairs minus the mean over all others."""
        return self.positive - self.negative


@dataclass(frozen=True)
class Distributions:
    """Histograms of similarities."""

    # edges: (BINS + 1,) of the bins. positive, negative: (BINS,) counts of matching and of other pairs.
    edges: Array
    positive: Array
    negative: Array
    # images, of_images: number of images counted, and in the split; always with all captions
    images: int
    of_images: int


def separation(sources: Sequence[Source], own: Array) -> Separation:
    """Compute both means in float64 from sums of the embeddings, without a score matrix.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> means = separation([ScoreMatrix(np.array([[0.9, 0.2], [0.4, 0.7]]))], own=np.array([0.9, 0.7]))
    >>> round(means.positive, 2), round(means.negative, 2), round(means.mean_distance, 2)
    (0.8, 0.3, 0.5)

    Args:
        own: (P,) the scores of the matching pairs; of labels: `own_similarity`.
    """
    images, texts = sources[0].shape
    matching = float(own.sum(dtype=np.float64))
    rest = images * texts - len(own)
    total = sum(source.total() for source in sources) - matching
    return Separation(matching / len(own), total / rest if rest else float("nan"))


def own_similarity(sources: Sequence[Source], image_of_text: Array) -> Array:
    """Return (m,) float64 similarity of every caption to its image.

    >>> from coder_core.evaluation.sources import EmbeddingPair
    >>> own_similarity([EmbeddingPair(np.eye(2), np.array([[0.6, 0.8], [0.0, 1.0]]))], np.arange(2))
    array([0.6, 1. ])
    """
    own: Array = sum((source.own(image_of_text) for source in sources), np.zeros(len(image_of_text)))
    return own


def distributions(
    sources: Sequence[Source], image_of_text: Array, *, pairs: int = PAIRS_AT_MOST
) -> Distributions:
    """Count histograms of the similarities of matching and of other pairs, from −1 to 1, tile by tile.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> counts = distributions([ScoreMatrix(np.array([[0.9, 0.2], [0.4, 0.7]]))], np.arange(2))
    >>> [round(float(edge), 2) for edge in counts.edges[:-1][counts.positive > 0]]
    [0.7, 0.9]

    Args:
        pairs: most similarities to count; a larger split uses those of random images with all captions.
    """
    all_images = sources[0].shape[0]
    count_texts = len(image_of_text)
    count = min(all_images, max(1, pairs // count_texts))
    sampled = np.sort(np.random.default_rng(0).choice(all_images, count, replace=False))

    everything = np.zeros(BINS, dtype=np.int64)
    positive = np.zeros(BINS, dtype=np.int64)
    for part in slices(count, TILE_ELEMENTS // count_texts):
        images = sampled[part]
        tile = np.zeros((len(images), count_texts), dtype=np.float32)
        for source in sources:
            tile += source.rows(images)
        own = np.flatnonzero(np.isin(image_of_text, images))
        everything += _histogram(tile)
        positive += _histogram(tile[np.searchsorted(images, image_of_text[own]), own])

    edges = np.linspace(-1, 1, BINS + 1)
    return Distributions(edges, positive, everything - positive, count, all_images)


def _histogram(scores: Array) -> Array:
    bins = ((np.asarray(scores, dtype=np.float32) + np.float32(1)) * np.float32(BINS / 2)).astype(np.int16)
    return np.bincount(np.clip(bins, 0, BINS - 1).ravel(), minlength=BINS)
