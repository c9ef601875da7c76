"""How the local features of an image or a caption become one vector: GPO, mean or max.

GPO is the generalised pooling operator of Chen et al. 2021 (arXiv:2011.04305), CODER supplement eq. 9-11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from coder_core.cpu.gru import bidirectional_over, pack
from coder_core.cpu.products import products_for
from coder_core.ops import full_precision

BELOW_EVERYTHING = -1e4  # fills padded positions, so that they come first in an ascending sort; their weight is zero
CACHED = 1 << 15  # numbers worked on at a time: eight bytes each, they fit the core's own cache
VALUES_CACHED = 1 << 17  # the same where no positions are kept: four bytes each, and fewer calls
SMALL = 1 << 16  # batches with fewer numbers are worked on by one thread


class _RankWeightedSum(torch.autograd.Function):
    """sum_k weights[b, p, k] · (k-th smallest value of channel d). (B, L, D), (B,), (B, P, L) -> (B, P, D)."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        if features.device.type == "cpu" and features.dtype == torch.float32:
            sums, ranked, order = sum_by_sample(
                features.detach(), lengths, weights.detach(),
                keep_values=any(ctx.needs_input_grad), keep_order=ctx.needs_input_grad[0],
            )  # fmt: skip
        else:
            ranked, order = channels_first(features, lengths).sort(dim=-1)
            sums = torch.bmm(weights, ranked.mT)
        ctx.save_for_backward(order, ranked, weights)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, Tensor]:
        order, ranked, weights = ctx.saved_tensors
        for_weights = torch.bmm(gradient, ranked)
        if order is None:
            return None, None, for_weights
        if order.dtype == torch.int64:
            for_features = torch.empty_like(ranked).scatter_(-1, order, _for_ranked(gradient, weights))
            return for_features.transpose(1, 2).contiguous(), None, for_weights
        return unrank_by_sample(gradient, weights, order), None, for_weights


def _for_ranked(gradient: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the ranked values: (B, P, D), (B, P, L) -> (B, D, L)."""
    if gradient.shape[1] == 1:  # an outer product, which bmm takes longer for
        return gradient.mT * weights
    return torch.bmm(gradient.mT, weights)


def sum_by_sample(
    features: Tensor, lengths: Tensor, weights: Tensor, *, keep_values: bool, keep_order: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """What `_RankWeightedSum` computes, for (B, L, D) float32 on the CPU, and what its gradient needs.

    A float32 is widened to float64, whose last 29 bits are then free to carry its position through the sort: one
    vectorised sort of numbers (NumPy's; torch.sort is not) finds values and positions, and both come out exact. Each
    sample stays in the core's own cache from its transposing to its sum.

    Returns:
        (B, P, D) sums; (B, D, L) values, smallest first; their positions, as bytes or, beyond 256, as int32.
    """
    batch, longest, channels = features.shape
    features = features.contiguous()
    sums = features.new_empty(batch, weights.shape[1], channels)
    ranked = features.new_empty(batch, channels, longest) if keep_values else None
    position_type = torch.uint8 if longest <= 256 else torch.int32
    order = torch.empty(batch, channels, longest, dtype=position_type) if keep_order else None
    positions, last = torch.arange(longest), (1 << longest.bit_length()) - 1
    beyond = positions >= lengths[:, None, None]
    is_padded = bool(beyond.any())

    def rank(part: slice) -> None:
        turned = features[part].transpose(1, 2)
        values = features.new_empty(turned.shape) if ranked is None else ranked[part]
        values.squeeze(0).copy_(turned.squeeze(0))  # two axes are transposed block by block
        if is_padded:
            values.masked_fill_(beyond[part], BELOW_EVERYTHING)
        if order is None:
            values.numpy().sort(axis=-1)
        else:
            keys = values.double()
            bits = keys.view(torch.int64).bitwise_or_(positions)
            keys.numpy().sort(axis=-1)
            values.copy_(keys)
            order[part].copy_(bits.bitwise_and_(last))
        # A row times a matrix: the product with a column takes three times as long.
        torch.bmm(weights[part], values.mT, out=sums[part])

    _share(rank, batch, longest * channels, CACHED if keep_order else VALUES_CACHED)
    return sums, ranked, order


def unrank_by_sample(gradient: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    """The gradient of the features (B, L, D) from that of the sums (B, P, D), weights (B, P, L) and positions."""
    batch, channels, longest = order.shape
    for_features = gradient.new_empty(batch, longest, channels)

    def unrank(part: slice) -> None:
        for_ranked = _for_ranked(gradient[part], weights[part])
        turned = torch.empty_like(for_ranked).scatter_(-1, order[part].long(), for_ranked)
        for_features[part].squeeze(0).copy_(turned.transpose(1, 2).squeeze(0))

    _share(unrank, batch, longest * channels)
    return for_features


def _share(work: Callable[[slice], None], samples: int, numbers: int, cached: int = CACHED) -> None:
    """Call `work` on a few samples of so many numbers at a time, on as many threads as torch has, each alone."""
    size = max(1, cached // max(1, numbers))
    parts = [slice(start, start + size) for start in range(0, samples, size)]

    @torch.no_grad()  # a setting of the thread
    def several(own: list[slice]) -> None:
        for part in own:
            work(part)

    threads = torch.get_num_threads()
    if threads == 1 or samples * numbers < SMALL:
        several(parts)
        return
    torch.set_num_threads(1)  # what new threads begin with
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(several, [parts[k::threads] for k in range(threads)]))
    finally:
        torch.set_num_threads(threads)


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
        scores = (full_precision(self._read(codes, distinct)) * self.score.weight).sum(-1)
        beyond = torch.arange(longest, device=lengths.device) >= distinct.unsqueeze(1)
        scores = scores.masked_fill(beyond, BELOW_EVERYTHING)
        return torch.softmax(scores / self.temperature, dim=-1).masked_fill(beyond, 0.0)[which]

    def _read(self, codes: Tensor, lengths: Tensor) -> Tensor:
        """The codes as the GRU reads them up to each length, directions averaged: (L, K), (n,) -> (n, L, K)."""
        if codes.device.type == "cpu" and torch.is_grad_enabled():  # PyTorch's own is slow backward only, at this size
            packing = pack(lengths, len(codes))
            rows = torch.stack([packing.forward_words, packing.backward_words]) % len(codes)
            states = bidirectional_over(self.gru, 0, codes, rows, packing, average=True)
            return states.view(len(lengths), len(codes), -1)
        packed = nn.utils.rnn.pack_padded_sequence(
            codes.expand(len(lengths), -1, -1), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        with products_for(self.code_size):
            states = self.gru(packed)[0]
        hidden, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=len(codes))
        return (hidden[..., : self.code_size] + hidden[..., self.code_size :]) / 2

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        return _pool_ranked([self], features, lengths)[0]


def _pool_ranked(poolings: Sequence[GeneralisedPooling], features: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    if features.device.type == "cpu":  # where half precision is multiplied fast, but not sorted
        features = full_precision(features)
    with torch.autocast(features.device.type, enabled=False):  # the backward pass expects one type throughout
        found = [pooling.weights(lengths, features.shape[1]) for pooling in poolings]
        weights = torch.stack(found, 1).to(features.dtype)
        return _RankWeightedSum.apply(features, lengths, weights.flip(-1)).unbind(1)


def pool_each(poolings: Sequence[nn.Module], features: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """The same features through several poolings, (B, L, D), (B,) -> (B, D) each. GPOs rank them once together."""
    ranked = [pooling for pooling in poolings if isinstance(pooling, GeneralisedPooling)]
    if len(ranked) == len(poolings):
        return _pool_ranked(ranked, features, lengths)
    return tuple(pooling(features, lengths) for pooling in poolings)


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
