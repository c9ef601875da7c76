"""The mixture with β: instance and concept branch in one score, β · cos_I + (1 − β) · cos_C. CODER eq. 8.

Here as one vector a sample; `evaluation.sources.mixture` ranks it from both branches, which weigh β and 1 − β.
"""

from __future__ import annotations

import numpy as np


def mixed_embeddings(instance: np.ndarray, concept: np.ndarray, beta: float) -> np.ndarray:
    """Both branches of k samples as one vector each, whose inner products are the score of CODER eq. 8.

    [√β · v^I, √(1 − β) · v^C] · [√β · w^I, √(1 − β) · w^C] = β · cos(v^I, w^I) + (1 − β) · cos(v^C, w^C).

    Args:
        instance: (k, D) unit rows.
        concept: (k, E) unit rows.
        beta: share of the instance branch, from 0 to 1.

    Returns:
        (k, D + E) float32 unit rows.

    >>> image = mixed_embeddings(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), beta=0.9)
    >>> caption = mixed_embeddings(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0]]), beta=0.9)
    >>> round(float(image[0] @ caption[0]), 4)  # cosines 1 and 0
    0.9
    """
    parts = [np.sqrt(beta) * np.asarray(instance), np.sqrt(1.0 - beta) * np.asarray(concept)]
    return np.concatenate(parts, axis=1, dtype=np.float32)
