"""The modality gap: how far images and texts lie apart in their joint space."""

from __future__ import annotations

import numpy as np


def modality_gap(images: np.ndarray, texts: np.ndarray) -> float:
    """Distance between the mean image and the mean text. Liang et al. 2022, "Mind the gap", section 2.

    >>> round(modality_gap(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0], [0.6, 0.8]])), 4)
    1.1402

    Args:
        images: (n, D) unit rows. texts: (m, D) unit rows.
    """
    return float(np.linalg.norm(images.mean(0, dtype=np.float64) - texts.mean(0, dtype=np.float64)))
