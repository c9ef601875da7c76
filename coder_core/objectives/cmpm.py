"""CMPM, cross-modal projection matching. One direction; call it for both and add."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.objectives.pairs import log_shares

SMALLEST_SHARE = 1e-8
"""ε of eq. 4, the share of a pair that does not match."""


def projection_matching(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, temperature: float | Tensor = 0.1
) -> Tensor:
    """Σ_j p_ij log(p_ij / (q_ij + ε)): the predicted shares against the true ones. Zhang and Lu 2018, ECCV, eq. 2-5.

    p_i is the softmax of x_iᵀ z_j over the candidates, q_ij is 1 for the partner and 0 for a negative. The paper leaves
    x_i as long as it comes out and normalises z_j alone, so that the length learns how sharp the softmax is. Scores
    know no lengths: they are divided by a temperature. Other captions of the same image, matches in the paper,
    are left out as everywhere here.

    Relations: `distillation.reversed_self_distillation` with the truth as its teacher; `info_nce` is the same
    divergence the other way round, which does not punish a wrong candidate once its share is small.

    Args:
        scores: (Q, C) similarities.
        positive_scores: (Q,) similarity of each query to its positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        temperature: > 0; smaller is sharper.

    Returns:
        (Q,) losses.

    Raises:
        ValueError: temperature is not positive.

    >>> scores = torch.tensor([[0.9, 0.1], [0.1, 0.9]])  # both positives in column 0; the second query is wrong
    >>> projection_matching(scores, scores[:, 0], torch.tensor([[False, True]] * 2))
    tensor([3.1592e-03, 1.8411e+01])
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    predicted = log_shares(scores, positive_scores, negatives, temperature)
    truth = torch.zeros_like(predicted)
    truth[:, 0] = 1
    return (predicted.exp() * (predicted - torch.log(truth + SMALLEST_SHARE))).sum(dim=1)
