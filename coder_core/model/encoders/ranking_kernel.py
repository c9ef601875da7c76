"""GPO's ranked sum on a CPU: values and positions from one vectorised sort, each sample inside the core's own cache.

Without it a training step takes 1.24 to 1.39 times as long (lab/cpu_tricks.md).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LOWEST = -1e4  # fills padded positions, which then sort first; their weight is zero
CACHED = 1 << 15  # numbers processed at a time: eight bytes each, they fit the core's own cache
CACHED_VALUES = 1 << 17  # the same without positions: four bytes each, and fewer calls
SMALL = 1 << 16  # batches of fewer numbers take one thread


def ranked_sum(features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    """`gpo.ranked_sum` of float32 on a CPU; half precision becomes float32, which sorts faster."""
    sums: Tensor = _RankedSum.apply(features.float(), lengths, weights.float().flip(-1))
    return sums


class _RankedSum(torch.autograd.Function):
    """Σ_k weights[b, p, k] · (k-th SMALLEST value of channel d). (B, L, D), (B,), (B, P, L) -> (B, P, D)."""

    @staticmethod
    def forward(ctx: Any, features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        sums, ranked, order = _sum_by_sample(
            features.detach(),
            lengths,
            weights.detach(),
            keep_values=any(ctx.needs_input_grad),
            keep_order=ctx.needs_input_grad[0],
        )
        ctx.save_for_backward(order, ranked, weights)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, None, Tensor]:
        order, ranked, weights = ctx.saved_tensors
        to_features = None if order is None else _unrank_by_sample(gradient, weights, order)
        return to_features, None, torch.bmm(gradient, ranked)


def _sum_by_sample(
    features: Tensor, lengths: Tensor, weights: Tensor, *, keep_values: bool, keep_order: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Sums (B, P, D), and for the backward pass the sorted values (B, D, L) and their positions (uint8, or int32).

    A float32 widened to float64 leaves 29 bits free, which carry its position through the sort: one sort by NumPy
    (vectorised; torch.sort is not) yields values and positions, both exact.
    """
    batch, longest, channels = features.shape
    features = features.contiguous()
    sums = features.new_empty(batch, weights.shape[1], channels)
    ranked = features.new_empty(batch, channels, longest) if keep_values else None
    order_type = torch.uint8 if longest <= 256 else torch.int32
    order = torch.empty(batch, channels, longest, dtype=order_type) if keep_order else None
    positions, position_bits = torch.arange(longest), (1 << longest.bit_length()) - 1
    padded = positions >= lengths[:, None, None]
    is_padded = bool(padded.any())

    def rank(part: slice) -> None:
        by_channel = features[part].transpose(1, 2)
        values = features.new_empty(by_channel.shape) if ranked is None else ranked[part]
        values.squeeze(0).copy_(by_channel.squeeze(0))  # PyTorch transposes two axes block by block
        if is_padded:
            values.masked_fill_(padded[part], LOWEST)
        if order is None:
            values.numpy().sort(axis=-1)
        else:
            keys = values.double()
            bits = keys.view(torch.int64).bitwise_or_(positions)
            keys.numpy().sort(axis=-1)
            values.copy_(keys)
            order[part].copy_(bits.bitwise_and_(position_bits))
        # A row times a matrix takes a third of the time of a matrix times a column.
        torch.bmm(weights[part], values.mT, out=sums[part])

    _in_parts(rank, batch, longest * channels, CACHED if keep_order else CACHED_VALUES)
    return sums, ranked, order


def _unrank_by_sample(gradient: Tensor, weights: Tensor, order: Tensor) -> Tensor:
    """Gradient of the features (B, L, D) from that of the sums (B, P, D), weights (B, P, L) and positions (B, D, L)."""
    batch, channels, longest = order.shape
    to_features = gradient.new_empty(batch, longest, channels)

    def unrank(part: slice) -> None:
        slopes, rank_weights = gradient[part].mT, weights[part]
        # For one row of weights an outer product, which bmm takes longer for.
        to_ranked = slopes * rank_weights if slopes.shape[-1] == 1 else torch.bmm(slopes, rank_weights)
        by_channel = torch.empty_like(to_ranked).scatter_(-1, order[part].long(), to_ranked)
        to_features[part].squeeze(0).copy_(by_channel.transpose(1, 2).squeeze(0))

    _in_parts(unrank, batch, longest * channels, CACHED)
    return to_features


def _in_parts(work: Callable[[slice], None], samples: int, numbers: int, cached: int) -> None:
    """Call `work` for a few samples of `numbers` numbers at a time, on as many threads as torch has."""
    size = max(1, cached // max(1, numbers))
    parts = [slice(start, start + size) for start in range(0, samples, size)]

    @torch.no_grad()  # a setting of the thread
    def process(share: list[slice]) -> None:
        for part in share:
            work(part)

    threads = torch.get_num_threads()
    if threads == 1 or samples * numbers < SMALL:
        process(parts)
        return
    torch.set_num_threads(1)  # new threads start with this
    try:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(process, [parts[k::threads] for k in range(threads)]))
    finally:
        torch.set_num_threads(threads)
