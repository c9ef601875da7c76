"""Pool the local features of a sample: GPO (Chen et al. 2021, arXiv:2011.04305; CODER supplement eq. 9-11), mean, max,
or several embeddings at once: PVSE (Song & Soleymani 2019, arXiv:1906.04402, section 3.1)."""

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from coder_core.model.encoders.recurrent import mean_states
from coder_core.ops import full_precision, padding_mask

LOWEST = -1e4  # value at padded positions, which then sort last and get no weight
CACHED = 1 << 15  # numbers ranked at a time: at eight bytes each they fit the core's own cache
CACHED_VALUES = 1 << 17  # the same without positions: four bytes each, and fewer calls
TEMPERATURE = 0.1  # of the softmax over ranks
SMALL = 1 << 16  # batches of fewer numbers use one thread


class GeneralisedPooling(nn.Module):
    """GPO: sorts every channel in descending order and sums it with learned weights θ that depend only on the length.

    θ = softmax(linear(BiGRU(position codes)) / 0.1). `code_size`: size of the position codes and of the GRU (32 in the
    paper).
    """

    def __init__(self, code_size: int = 32) -> None:
        super().__init__()
        self.code_size = code_size
        self.gru = nn.GRU(code_size, code_size, batch_first=True, bidirectional=True)
        self.score = nn.Linear(code_size, 1, bias=False)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Pool each sample: (B, L, D), (B,) lengths -> (B, D)."""
        return pool_each([self], features, lengths)[0]

    def weights(self, lengths: Tensor, longest: int) -> Tensor:
        """Return θ, (B, longest), zero from each length on, computed once per distinct length."""
        distinct, row = torch.unique(lengths, return_inverse=True)
        codes = position_codes(longest, self.code_size).to(self.score.weight)
        states = mean_states(self.gru, codes.expand(len(distinct), -1, -1), distinct)
        scores = (full_precision(states) * self.score.weight).sum(-1)
        padded = padding_mask(distinct, longest)
        scores = scores.masked_fill(padded, LOWEST)
        return torch.softmax(scores / TEMPERATURE, dim=-1).masked_fill(padded, 0.0)[row]


def position_codes(length: int, size: int) -> Tensor:
    """Return (length, size) sine and cosine codes of positions 0 … length-1. CODER supplement eq. 9."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(10000.0) / size))
    codes = torch.empty(length, size)
    codes[:, 0::2] = torch.sin(position * frequency)
    codes[:, 1::2] = torch.cos(position * frequency)
    return codes


def ranked_sum(features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    """Compute Σ_k weights[b, p, k] · (k-th largest value of channel d) over the first `lengths` positions: (B, L, D),
    (B,), (B, P, L) weights for P sums, zero from each length on -> (B, P, D)."""
    if features.device.type != "cpu" or features.dtype == torch.float64:
        return sorted_sum(features, lengths, weights)
    # On a CPU half precision becomes float32, which sorts faster.
    return _RankedSum.apply(features.float(), lengths, weights.float().flip(-1))


def sorted_sum(features: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
    """Compute `ranked_sum` in plain PyTorch."""
    padded = padding_mask(lengths, features.shape[1]).unsqueeze(-1)
    ranked = features.masked_fill(padded, LOWEST).sort(dim=1, descending=True).values
    return weights.to(features.dtype) @ ranked


class _RankedSum(torch.autograd.Function):
    """Σ_k weights[b, p, k] · (k-th SMALLEST value of channel d). (B, L, D), (B,), (B, P, L) -> (B, P, D).

    Values and positions come from one vectorised sort, each sample inside the core's own cache. Without it a training
    step takes 1.24 to 1.39 times as long (lab/cpu_tricks.md).
    """

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
    """Return sums (B, P, D) and, for the backward pass, sorted values (B, D, L) and their positions (uint8 or int32).

    A float32 converted to float64 leaves 29 bits free, which carry its position through the sort: one sort by NumPy
    (vectorised, unlike torch.sort) yields both values and positions exactly.
    """
    batch, longest, channels = features.shape
    features = features.contiguous()
    sums = features.new_empty(batch, weights.shape[1], channels)
    ranked = features.new_empty(batch, channels, longest) if keep_values else None
    order_type = torch.uint8 if longest <= 256 else torch.int32
    order = torch.empty(batch, channels, longest, dtype=order_type) if keep_order else None
    positions = torch.arange(longest)
    position_bits = (1 << longest.bit_length()) - 1
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
    """Return the features' gradient (B, L, D) from the sums' (B, P, D), weights (B, P, L) and positions (B, D, L)."""
    batch, channels, longest = order.shape
    to_features = gradient.new_empty(batch, longest, channels)

    def unrank(part: slice) -> None:
        slopes = gradient[part].mT
        rank_weights = weights[part]
        # With one row of weights this is an outer product, for which bmm is slower.
        to_ranked = slopes * rank_weights if slopes.shape[-1] == 1 else torch.bmm(slopes, rank_weights)
        by_channel = torch.empty_like(to_ranked).scatter_(-1, order[part].long(), to_ranked)
        to_features[part].squeeze(0).copy_(by_channel.transpose(1, 2).squeeze(0))

    _in_parts(unrank, batch, longest * channels, CACHED)
    return to_features


def _in_parts(work: Callable[[slice], None], samples: int, numbers: int, cached: int) -> None:
    """Call `work` for a few samples of `numbers` numbers at a time, on as many threads as torch uses."""
    size = max(1, cached // max(1, numbers))
    parts = [slice(start, start + size) for start in range(0, samples, size)]

    @torch.no_grad()  # this setting is per thread
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


class MeanPooling(nn.Module):
    """Mean over the positions without padding."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Pool each sample: (B, L, D), (B,) lengths -> (B, D)."""
        by_channel = _fill_padded(features, lengths, 0.0).transpose(1, 2).contiguous()
        return by_channel.sum(-1) / lengths.unsqueeze(1).to(features.dtype)


class MaxPooling(nn.Module):
    """Largest value of every channel."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Pool each sample: (B, L, D), (B,) lengths -> (B, D)."""
        return _fill_padded(features, lengths, LOWEST).amax(1)


class PooledByTower(nn.Module):
    """The one vector per sample of a tower that pools by itself."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Return the vector of each sample: (B, 1, D), (B,) -> (B, D)."""
        return features[:, 0]


class KeepAll(nn.Module):
    """No pooling: keep every region and every word, for a scorer that compares them one by one."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Return the features unchanged, (B, L, D)."""
        return features


def pool_each(poolings: Sequence[nn.Module], features: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """Pool the same features in several ways, (B, L, D), (B,) -> (B, D) each. GPOs share one sort."""
    ranked = [pooling for pooling in poolings if isinstance(pooling, GeneralisedPooling)]
    if len(ranked) < len(poolings):
        return tuple(pooling(features, lengths) for pooling in poolings)
    with torch.autocast(features.device.type, enabled=False):
        weights = torch.stack([pooling.weights(lengths, features.shape[1]) for pooling in ranked], 1)
        return ranked_sum(features, lengths, weights).unbind(1)


def _fill_padded(features: Tensor, lengths: Tensor, value: float) -> Tensor:
    return features.masked_fill(padding_mask(lengths, features.shape[1]).unsqueeze(-1), value)


class PVSEPooling(nn.Module):
    """K embeddings of a sample: each of K attention heads adds a residual from its local features to the pooled vector.

    A = softmax over the positions of w₂ tanh(w₁ x), and z_k = LayerNorm(pooled + sigmoid(W A_k x + b)), where `pooling`,
    (B, L, D), (B,) -> (B, D), computes `pooled`.
    """

    def __init__(self, pooling: nn.Module, dimension: int, count: int) -> None:
        super().__init__()
        self.pooling = pooling
        self.hidden = nn.Linear(dimension, dimension // 2, bias=False)
        self.heads = nn.Linear(dimension // 2, count, bias=False)
        self.residual = nn.Linear(dimension, dimension)
        self.norm = nn.LayerNorm(dimension)
        for layer in (self.hidden, self.heads, self.residual):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.residual.bias)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Return K embeddings of each sample: (B, L, D), (B,) -> (B, K, D), not normalised."""
        return self.with_residuals(features, lengths)[0]

    def with_residuals(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, K, D) embeddings, not normalised, and the (B, K, D) residuals that the heads add."""
        pooled = self.pooling(features, lengths)
        attended = self.attention(features, lengths).transpose(1, 2) @ features  # (B, K, D)
        residuals = torch.sigmoid(self.residual(attended))
        return self.norm(pooled.unsqueeze(1) + residuals), residuals

    def attention(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Return (B, L, K) weights; each head's weights sum to 1 over the positions without padding."""
        scores = self.heads(torch.tanh(self.hidden(features)))
        padded = padding_mask(lengths, features.shape[1]).unsqueeze(-1)
        return torch.softmax(scores.masked_fill(padded, float("-inf")), dim=1)
