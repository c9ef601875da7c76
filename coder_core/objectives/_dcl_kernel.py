"""Standard deviation and log-sum of `diversity.py` and `diversity_contrastive.py`, in few passes over the scores.

A bank of 4096 makes the score matrix large, and each mask, `where` and concatenation costs a pass over it. So the few
entries that are not negatives are a list, both sums are taken in place, and the backward pass keeps nothing but the
softmax weights.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from coder_core.objectives.pairs import AllExcept


def standard_deviation(scores: Tensor, negatives: AllExcept) -> Tensor:
    """sqrt(E[(S − E[S])²]) over each row's negatives; 0, with a zero gradient, for a row without any.

    Args:
        scores: (Q, C) float32 or float64, finite everywhere.
        negatives: all entries but these.

    Returns:
        (Q,).
    """
    count = negatives.counts(scores).clamp_min(1).to(scores.dtype)
    total = scores.sum(dim=1).index_add(0, negatives.rows, scores[negatives], alpha=-1)
    centred = scores - (total / count)[:, None]
    centred[negatives] = 0.0
    return torch.linalg.vector_norm(centred, dim=1) / count.sqrt()


def log1p_sum_exp_scaled(scores: Tensor, scale: Tensor, shift: Tensor, negatives: AllExcept) -> Tensor:
    """log(1 + Σ_j exp(S_ij · scale_i − shift_i)) over each row's negatives.

    Args:
        scores: (Q, C) float32 or float64, finite everywhere.
        scale: (Q,) >= 0.
        shift: (Q,).
        negatives: all entries but these.

    Returns:
        (Q,), differentiable once in scores, scale and shift.
    """
    return _ScaledLogSum.apply(scores, scale, shift, *negatives)


class _ScaledLogSum(torch.autograd.Function):
    """Keeps one matrix, exp(x_ij − highest_i), whose rows times 1/total_i are the softmax weights."""

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, scale: Tensor, shift: Tensor, rows: Tensor, columns: Tensor
    ) -> Tensor:
        powers = scores * scale[:, None]
        powers[rows, columns] = float("-inf")
        # x = scores · scale − shift; the 1 in the sum is exp(0), so 0 takes part in the maximum.
        highest = (powers.amax(dim=1) - shift).clamp_min(0)
        powers.sub_((shift + highest)[:, None]).exp_()
        of_negatives = powers.sum(dim=1)
        total = of_negatives + torch.exp(-highest)
        weighted_scores = None
        if ctx.needs_input_grad[1]:
            weighted_scores = torch.where(powers > 0, powers * scores, 0.0).sum(dim=1)
        ctx.save_for_backward(powers, scale, total, of_negatives, weighted_scores)
        return highest + total.log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        powers, scale, total, of_negatives, weighted_scores = ctx.saved_tensors
        share = grad / total
        to_scores = powers * (share * scale)[:, None] if ctx.needs_input_grad[0] else None
        to_scale = share * weighted_scores if ctx.needs_input_grad[1] else None
        to_shift = -share * of_negatives if ctx.needs_input_grad[2] else None
        return to_scores, to_scale, to_shift, None, None
