"""Both branches of a sample as one vector, whose inner products are the scores of a run with a concept branch."""

from __future__ import annotations

import numpy as np


def in_one(instance: np.ndarray, concept: np.ndarray, beta: float) -> np.ndarray:
    """Both branches of k samples as one vector each, whose inner products are the mixture of CODER eq. 8.

    [√β · v^I, √(1 − β) · v^C] · [√β · w^I, √(1 − β) · w^C] = β · cos(v^I, w^I) + (1 − β) · cos(v^C, w^C).

    Args:
        instance: (k, D) unit rows.
        concept: (k, E) unit rows.
        beta: share of the instance branch, from 0 to 1.

    Returns:
        (k, D + E) float32 unit rows.
    """
    parts = [np.sqrt(beta) * np.asarray(instance), np.sqrt(1.0 - beta) * np.asarray(concept)]
    return np.concatenate(parts, axis=1, dtype=np.float32)
