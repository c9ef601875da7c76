"""CMPM, cross-modal projection matching. One direction; call it for both and add."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.objectives.mutual_learning import LEFT_OUT
from coder_core.ops import full_precision

SMALLEST_SHARE = 1e-8  # ε of eq. 4, the share of a pair that does not match


def projection_matching(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, *, temperature: float = 0.1
) -> Tensor:
    """Σ_j p_ij log(p_ij / (q_ij + ε)): the predicted shares against the true ones. Zhang and Lu 2018, ECCV, eq. 2-5.

    p_i is the softmax of x_iᵀ z_j over the candidates, q_ij is 1 for the partner and 0 for a negative. The paper leaves
    x_i as long as it comes out and normalises z_j alone, so that the length learns how sharp the softmax is. Scores
    know no lengths: they are divided by a temperature. Other captions of the same image, matches in the paper,
    are left out as everywhere here.

    Relations: `cooperation.reversed_self_distillation` with the truth as the other branch; `info_nce` is the same
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
    """
    if not temperature > 0:
        raise ValueError(f"temperature must be > 0, got {temperature}")
    others = torch.where(negatives, full_precision(scores) / temperature, LEFT_OUT)
    logits = torch.cat([(full_precision(positive_scores) / temperature)[:, None], others], dim=1)
    found = torch.log_softmax(logits, dim=1)
    truth = torch.zeros_like(found)
    truth[:, 0] = 1
    return (found.exp() * (found - torch.log(truth + SMALLEST_SHARE))).sum(dim=1)
