"""Mean and log-sum of the entries of a row that a mask lets through."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.ops.vectors import full_precision


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Mean over the last axis of the entries where `mask` is true; 0 where a row has none.

    Masked entries may hold anything, NaN included: neither the value nor the gradient sees them.

    >>> masked_mean(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([2.])
    """
    values = torch.where(mask, full_precision(values), 0.0)
    return values.sum(-1) / mask.sum(-1).clamp_min(1)


def log1p_sum_exp(values: Tensor, mask: Tensor) -> Tensor:
    """log(1 + Σ exp(x)) over the entries of the last axis where `mask` is true, for x of any size.

    Args:
        values: (Q, C).
        mask: (Q, C) bool; a row without any true entry gives log 1 = 0.

    Returns:
        (Q,), computed as logsumexp([0, x]).

    >>> log1p_sum_exp(torch.zeros(1, 2), torch.tensor([[True, False]]))  # log(1 + 1)
    tensor([0.6931])
    """
    exponents = torch.where(mask, full_precision(values), float("-inf"))
    return torch.logsumexp(
        torch.cat([exponents.new_zeros(*exponents.shape[:-1], 1), exponents], dim=-1), dim=-1
    )
