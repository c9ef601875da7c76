"""How the local features of an image or a caption become one vector: GPO, mean or max.

GPO is the generalised pooling operator of Chen et al. 2021 (arXiv:2011.04305), CODER supplement eq. 9-11.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from coder_core.encoders.gru import bidirectional_over, pack
from coder_core.ops import full_precision

BELOW_EVERYTHING = -1e4  # fills padded positions, so that they come first in an ascending sort; their weight is zero
SMALL = 1 << 16  # arrays with fewer numbers are sorted by one thread


def sort_rows(array: np.ndarray) -> None:
    """Sort the last axis in place with NumPy (vectorised, torch.sort is not), on as many threads as torch has."""
    count = torch.get_num_threads()
    if count == 1 or array.size < SMALL:
        array.sort(axis=-1)
        return
    with ThreadPoolExecutor(count) as threads:  # NumPy lets go of the interpreter lock while it sorts
        list(threads.map(lambda part: part.sort(axis=-1), np.array_split(array, count)))


def rank_ascending(features: Tensor, lengths: Tensor, *, with_order: bool) -> tuple[Tensor, Tensor | None]:
    """(B, L, D) -> every channel's values (B, D, L), smallest first, and the positions they came from.

    On a CPU a float32 is widened to float64, whose last 29 bits are then free to carry its position through the sort:
    one vectorised sort of numbers finds values and positions, and both come out exact.
    """
    if features.device.type != "cpu" or features.dtype != torch.float32:
        return channels_first(features, lengths).sort(dim=-1)
    batch, longest, channels = features.shape
    keys = features.new_empty(batch, channels, longest, dtype=torch.float64 if with_order else torch.float32)
    keys.copy_(features.detach().transpose(1, 2))
    _fill_beyond(keys, lengths, BELOW_EVERYTHING)
    if not with_order:
        sort_rows(keys.numpy())
        return keys, None
    bits = keys.view(torch.int64)
    bits.bitwise_or_(torch.arange(longest))
    sort_rows(keys.numpy())
    return keys.float(), bits.bitwise_and_((1 << longest.bit_length()) - 1)


class _RankWeightedSum(torch.autograd.Function):
    """sum_k weights[b, k] · (k-th smallest value of channel d). (B, L, D), (B,), (B, L) -> (B, D)."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        ranked, order = rank_ascending(features, lengths, with_order=ctx.needs_input_grad[0])
        ctx.save_for_backward(order, ranked, weights)
        return torch.bmm(ranked, weights.unsqueeze(-1)).squeeze(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, Tensor]:
        order, ranked, weights = ctx.saved_tensors
        for_weights = torch.bmm(gradient.unsqueeze(1), ranked).squeeze(1)
        if order is None:
            return None, None, for_weights
        for_ranked = gradient.unsqueeze(-1) * weights.unsqueeze(1)
        for_features = torch.empty_like(ranked).scatter_(-1, order, for_ranked)
        return for_features.transpose(1, 2).contiguous(), None, for_weights


def position_codes(length: int, size: int) -> Tensor:
    """(length, size) sine and cosine codes of positions 0 … length-1. CODER supplement eq. 9."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(10000.0) / size))
    codes = torch.empty(length, size)
    codes[:, 0::2] = torch.sin(position * frequency)
    codes[:, 1::2] = torch.cos(position * frequency)
    return codes


class GeneralisedPooling(nn.Module):
    """GPO: every channel is sorted in descending order and summed with learned weights that depend on the length only.

    Args:
        code_size: size of the position codes and of the GRU (32 in the paper).
        temperature: of the softmax that makes the weights (0.1).
    """

    def __init__(self, code_size: int = 32, temperature: float = 0.1) -> None:
        super().__init__()
        self.code_size = code_size
        self.temperature = temperature
        self.gru = nn.GRU(code_size, code_size, batch_first=True, bidirectional=True)
        self.score = nn.Linear(code_size, 1, bias=False)

    def weights(self, lengths: Tensor, longest: int) -> Tensor:
        """(B, longest) weights of the ranks; zero from each length on. Computed once per distinct length."""
        distinct, which = torch.unique(lengths, return_inverse=True)
        codes = position_codes(longest, self.code_size).to(self.score.weight)
        scores = full_precision(self.score(self._read(codes, distinct)).squeeze(-1))
        beyond = torch.arange(longest, device=lengths.device) >= distinct.unsqueeze(1)
        scores = scores.masked_fill(beyond, BELOW_EVERYTHING)
        return torch.softmax(scores / self.temperature, dim=-1).masked_fill(beyond, 0.0)[which]

    def _read(self, codes: Tensor, lengths: Tensor) -> Tensor:
        """The codes as the GRU reads them up to each length, directions averaged: (L, K), (n,) -> (n, L, K)."""
        if codes.device.type == "cpu":
            packing = pack(lengths, len(codes))
            rows = torch.stack([packing.forward_words, packing.backward_words]) % len(codes)
            states = bidirectional_over(self.gru, 0, codes, rows, packing, average=True)
            return states.view(len(lengths), len(codes), -1)
        packed = nn.utils.rnn.pack_padded_sequence(
            codes.expand(len(lengths), -1, -1), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=len(codes))
        return (hidden[..., : self.code_size] + hidden[..., self.code_size :]) / 2

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        weights = self.weights(lengths, features.shape[1]).to(features.dtype)
        with torch.autocast(features.device.type, enabled=False):  # the backward pass expects one type throughout
            return _RankWeightedSum.apply(features, lengths, weights.flip(1))


def _fill_beyond(turned: Tensor, lengths: Tensor, fill: float) -> None:
    """Fill (B, D, L) in place from each length on."""
    beyond = torch.arange(turned.shape[-1], device=lengths.device) >= lengths.unsqueeze(1)
    if bool(beyond.any()):
        turned.masked_fill_(beyond.unsqueeze(1), fill)


def channels_first(features: Tensor, lengths: Tensor, fill: float = BELOW_EVERYTHING) -> Tensor:
    """(B, L, D) -> contiguous (B, D, L) with positions from each length on filled."""
    turned = features.transpose(1, 2)
    if bool((lengths < features.shape[1]).any()):
        beyond = torch.arange(features.shape[1], device=lengths.device) >= lengths.unsqueeze(1)
        return turned.masked_fill(beyond.unsqueeze(1), fill).contiguous()
    return turned.contiguous()


class MeanPooling(nn.Module):
    """Mean over the positions that exist."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        return channels_first(features, lengths, 0.0).sum(-1) / lengths.unsqueeze(1).to(features.dtype)


class MaxPooling(nn.Module):
    """Largest value of every channel."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        return channels_first(features, lengths).amax(-1)
