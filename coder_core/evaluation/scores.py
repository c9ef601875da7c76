"""Scores already computed, image by caption: what stands in for embeddings where a score is no inner product."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class MatrixSource:
    """Scores of every image with every caption; its share of a mixed score is weight · score.

    Args:
        scores: (n, m) floats, perhaps memory-mapped.
        weight: share in the sum.
    """

    scores: np.ndarray
    weight: float = 1.0

    def own(self, image_of_text: np.ndarray) -> np.ndarray:
        """(m,) float64 weighted score of every caption with its image."""
        return self.weight * np.asarray(self.scores[image_of_text, np.arange(len(image_of_text))], np.float64)

    def rows(self, rows: np.ndarray | slice) -> np.ndarray:
        """(k, m) float32 weighted scores of some images."""
        return np.float32(self.weight) * np.asarray(self.scores[rows], np.float32)
