"""GPO, the generalised pooling operator of Chen et al. 2021 (arXiv:2011.04305). CODER supplement eq. 9-11."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from coder_core.model.encoders import ranking_kernel
from coder_core.model.encoders.recurrent import mean_states
from coder_core.ops import full_precision, padding_mask

LOWEST = -1e4  # at padded positions, which then sort last and get no weight


class GeneralisedPooling(nn.Module):
    """Sort every channel in descending order and sum it with learned weights θ that depend on the length only.

    θ = softmax(linear(BiGRU(position codes)) / temperature).

    Args:
        code_size: size of the position codes and of the GRU (32 in the paper).
        temperature: of the softmax (0.1).
    """

    def __init__(self, code_size: int = 32, temperature: float = 0.1) -> None:
        super().__init__()
        self.code_size = code_size
        self.temperature = temperature
        self.gru = nn.GRU(code_size, code_size, batch_first=True, bidirectional=True)
        self.score = nn.Linear(code_size, 1, bias=False)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        return pool_ranked([self], features, lengths)[0]

    def weights(self, lengths: Tensor, longest: int) -> Tensor:
        """θ, (B, longest), zero from each length on. Computed once per distinct length."""
        distinct, row = torch.unique(lengths, return_inverse=True)
        codes = position_codes(longest, self.code_size).to(self.score.weight)
        states = mean_states(self.gru, codes.expand(len(distinct), -1, -1), distinct)
        scores = (full_precision(states) * self.score.weight).sum(-1)
        padded = padding_mask(distinct, longest)
        scores = scores.masked_fill(padded, LOWEST)
        return torch.softmax(scores / self.temperature, dim=-1).masked_fill(padded, 0.0)[row]


def position_codes(length: int, size: int) -> Tensor:
    """(length, size) sine and cosine codes of positions 0 … length-1. CODER supplement eq. 9."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(10000.0) / size))
    codes = torch.empty(length, size)
    codes[:, 0::2] = torch.sin(position * frequency)
    codes[:, 1::2] = torch.cos(position * frequency)
    return codes


def pool_ranked(
    poolings: Sequence[GeneralisedPooling], features: Tensor, lengths: Tensor
) -> tuple[Tensor, ...]:
    """(B, L, D), (B,) -> (B, D) for each of several GPOs over the same features, which are sorted once."""
    with torch.autocast(features.device.type, enabled=False):
        weights = torch.stack([pooling.weights(lengths, features.shape[1]) for pooling in poolings], 1)
        return ranked_sum(features, lengths, weights).unbind(1)


def ranked_sum(features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    """Σ_k weights[b, p, k] · (k-th largest value of channel d) over the first `lengths` positions.

    Args:
        features: (B, L, D).
        lengths: (B,).
        weights: (B, P, L) for P sums, zero from each length on.

    Returns:
        (B, P, D).
    """
    if features.device.type == "cpu" and features.dtype != torch.float64:
        return ranking_kernel.ranked_sum(features, lengths, weights)
    return sorted_sum(features, lengths, weights)


def sorted_sum(features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    """`ranked_sum` in plain PyTorch."""
    padded = padding_mask(lengths, features.shape[1]).unsqueeze(-1)
    ranked = features.masked_fill(padded, LOWEST).sort(dim=1, descending=True).values
    return weights.to(features.dtype) @ ranked
