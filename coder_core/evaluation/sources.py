"""Sources of scores: pairs of embeddings, or a matrix; several are summed, like CODER's two branches (eq. 8).

Uses only NumPy, so that the app need not load torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

Array = np.ndarray
TILE_ELEMENTS = 4_194_304  # 16 MiB of float32: the largest piece of a similarity matrix in memory


@dataclass(frozen=True)
class EmbeddingPair:
    """Image and text embeddings; their share of a score is weight · ⟨image, text⟩.

    >>> pair = EmbeddingPair(np.eye(2), np.array([[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]))
    >>> pair.shape
    (2, 3)
    >>> pair.own(np.array([0, 0, 1]))
    array([0.6, 1. , 1. ])
    """

    image: Any  # (n, D) image embeddings, NumPy or torch, unit rows for cosine scores
    text: Any  # (m, D) text embeddings
    weight: float = 1.0  # share in the sum

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers n of images and m of captions."""
        return len(self.image), len(self.text)

    def part(self, images: slice | Array, texts: Array) -> EmbeddingPair:
        """Select some images and some captions."""
        return replace(self, image=self.image[images], text=self.text[texts])

    def own(self, image_of_text: Array) -> Array:
        """Return (m,) float64 weighted score of every caption with its image."""
        v = np.asarray(self.image)
        w = np.asarray(self.text)
        scores = np.empty(len(w))
        for rows in slices(len(w), TILE_ELEMENTS // v.shape[1]):
            scores[rows] = np.vecdot(v[image_of_text[rows]], w[rows], dtype=np.float64)
        return self.weight * scores

    def rows(self, images: Array) -> Array:
        """Return (k, m) float32 weighted scores of some images."""
        product: Array = np.asarray(self.image)[images] @ np.asarray(self.text).T
        return np.float32(self.weight) * product

    def total(self) -> float:
        """Return the sum of all weighted scores, Σ_ij ⟨v_i, w_j⟩ = ⟨Σ v_i, Σ w_j⟩, without the score matrix."""
        return self.weight * float(column_sums(self.image) @ column_sums(self.text))


@dataclass(frozen=True)
class ScoreMatrix:
    """Scores of every image with every caption, where a score is not an inner product; its share is weight · score.

    >>> ScoreMatrix(np.array([[0.9, 0.2], [0.4, 0.7]]), weight=0.5).own(np.array([0, 1]))
    array([0.45, 0.35])
    """

    scores: Array  # (n, m) floats, perhaps memory-mapped
    weight: float = 1.0  # share in the sum

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers n of images and m of captions."""
        return self.scores.shape

    def part(self, images: slice | Array, texts: Array) -> ScoreMatrix:
        """Select some images and some captions."""
        return replace(self, scores=np.asarray(self.scores[images])[:, texts])

    def own(self, image_of_text: Array) -> Array:
        """Return (m,) float64 weighted score of every caption with its image."""
        return self.weight * np.asarray(self.scores[image_of_text, np.arange(len(image_of_text))], np.float64)

    def rows(self, images: Array) -> Array:
        """Return (k, m) float32 weighted scores of some images."""
        return np.float32(self.weight) * np.asarray(self.scores[images], np.float32)

    def total(self) -> float:
        """Return the sum of all weighted scores."""
        return self.weight * float(column_sums(self.scores).sum())


Source = EmbeddingPair | ScoreMatrix


def slices(count: int, size: int) -> Iterator[slice]:
    """Cut `count` rows into parts of at most `size` (at least 1).

    >>> [[part.start, part.stop] for part in slices(5, 2)]
    [[0, 2], [2, 4], [4, 5]]
    """
    size = max(1, size)
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def column_sums(matrix: Any) -> Array:
    """Return (D,) float64 sums over the rows of (N, D), read in tiles.

    >>> column_sums(np.eye(2))
    array([1., 1.])
    """
    rows = np.asarray(matrix.cpu() if hasattr(matrix, "cpu") else matrix)
    sums = np.zeros(rows.shape[1])
    for part in slices(len(rows), TILE_ELEMENTS // rows.shape[1]):
        sums += rows[part].sum(0, dtype=np.float64)
    return sums


def mixture(
    image: Any, text: Any, second: tuple[Any, Any] | None = None, weight: float = 0.9
) -> list[Source]:
    """Return the sources of one model: a pair of embeddings, or β · first + (1 − β) · second (the concept branch), CODER
    eq. 8.

    >>> [source.weight for source in mixture(np.eye(2), np.eye(2), second=(np.eye(2), np.eye(2)), weight=0.75)]
    [0.75, 0.25]
    """
    if second is None:
        return [EmbeddingPair(image, text)]
    return [EmbeddingPair(image, text, weight), EmbeddingPair(second[0], second[1], 1.0 - weight)]


def mixed_embeddings(instance: np.ndarray, concept: np.ndarray, beta: float) -> np.ndarray:
    """Join both branches of k samples, (k, D) and (k, E) unit rows, into (k, D + E) float32 unit rows, whose inner
    products are the scores of CODER eq. 8. `beta` is the weight of the instance branch.

    [√β · v^I, √(1 − β) · v^C] · [√β · w^I, √(1 − β) · w^C] = β · cos(v^I, w^I) + (1 − β) · cos(v^C, w^C).

    >>> image = mixed_embeddings(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), beta=0.9)
    >>> caption = mixed_embeddings(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), beta=0.9)
    >>> round(float(image[0] @ caption[0]), 4)  # cosines 1 and 0
    0.9
    """
    parts = [np.sqrt(beta) * np.asarray(instance), np.sqrt(1.0 - beta) * np.asarray(concept)]
    return np.concatenate(parts, axis=1, dtype=np.float32)
