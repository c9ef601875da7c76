"""Local features of a sample: encode the regions of an image, pool the regions or words of a sample.

Regions: a linear layer plus an MLP (two layers, as in vse_infty). Poolings: GPO (Chen et al. 2021, arXiv:2011.04305; CODER
supplement eq. 9-11), mean, max, or several embeddings at once: PVSE (Song & Soleymani 2019, arXiv:1906.04402, section
3.1). Padding is ignored.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.model.device import factor_type
from coder_core.model.encoders.recurrent import mean_states
from coder_core.ops import full_precision, normalise, padding_mask, parallel
from coder_core.ops.vectors import on_host, to_device

LOWEST = -1e4  # value at padded positions, which then sort last and get no weight
TEMPERATURE = 0.1  # of the softmax over ranks


class RegionBatchNorm(nn.BatchNorm1d):
    """Batch normalisation of (N, H) rows with the statistics of all processes.

    In a single process it is `nn.BatchNorm1d`. PyTorch's SyncBatchNorm does the same but needs a GPU; this class works
    on any device, so that several processes give the results of one process with the whole batch.
    """

    def forward(self, rows: Tensor) -> Tensor:
        if not self.training or parallel.world_size() == 1:
            return super().forward(rows)
        from torch.distributed.nn.functional import all_reduce  # 0.1 s to import

        count = rows.new_tensor([rows.shape[0]], dtype=torch.float32)
        total = all_reduce(torch.cat([rows.float().sum(0), count]))
        count = total[-1].detach()
        mean = total[:-1] / count
        centred = rows.float() - mean
        variance = all_reduce(centred.square().sum(0)) / count
        assert self.running_mean is not None and self.running_var is not None  # noqa: PT018
        assert self.num_batches_tracked is not None and self.momentum is not None  # noqa: PT018
        with torch.no_grad():
            self.running_mean.lerp_(mean.detach(), self.momentum)
            self.running_var.lerp_(variance.detach() * (count / (count - 1)), self.momentum)
            self.num_batches_tracked += 1
        return (centred * torch.rsqrt(variance + self.eps) * self.weight + self.bias).to(rows.dtype)


class RegionEncoder(nn.Module):
    """(B, R, F) region features -> (B, R, D): a linear layer plus an MLP of `layers`, or none with 0. Hidden layers
    have D / 2 units and batch normalisation.

    `dropout` applies to the input features; `one_mask` drops the same ones in all regions of an image. `rms` first
    divides every region's features by their root mean square; a region of zeros stays zero.
    """

    def __init__(
        self,
        feature_size: int,
        dimension: int,
        *,
        layers: int = 2,
        dropout: float = 0.0,
        rms: bool = False,
        one_mask: bool = False,
    ) -> None:
        super().__init__()
        self.rms = rms
        self.one_mask = one_mask
        self.linear = nn.Linear(feature_size, dimension)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)
        self.dropout = nn.Dropout(dropout)

        self.mlp = nn.Sequential()
        width = feature_size
        for _ in range(layers - 1):
            self.mlp.extend([nn.Linear(width, dimension // 2), RegionBatchNorm(dimension // 2), nn.ReLU()])
            width = dimension // 2
        if layers > 0:
            self.mlp.append(nn.Linear(width, dimension))

    def forward(self, regions: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Encode regions, (B, R, F), (B,) lengths -> (B, R, D). Padding becomes zero and is left out of statistics."""
        if self.rms:
            regions = normalise(regions) * math.sqrt(regions.shape[-1])
        if self.one_mask and self.training and self.dropout.p:
            regions = regions * self.dropout(regions.new_ones(len(regions), 1, regions.shape[-1]))
        if lengths is None or int(on_host(lengths).min()) == regions.shape[1]:
            return self._encode(regions.flatten(0, 1)).view(*regions.shape[:2], -1)
        real = ~padding_mask(lengths, regions.shape[1])
        of_regions = (~padding_mask(on_host(lengths), regions.shape[1])).flatten().nonzero().flatten()
        rows = self._encode(regions.flatten(0, 1)[to_device(of_regions, regions.device)])
        return rows.new_zeros(*regions.shape[:2], rows.shape[-1]).masked_scatter(real[..., None], rows)

    def _encode(self, rows: Tensor) -> Tensor:
        """Encode regions without padding, (N, F) -> (N, D)."""
        rows = rows if self.one_mask else self.dropout(rows)
        rows = rows.to(factor_type(rows))  # once, for both layers that take them
        out: Tensor = self.linear(rows)
        if len(self.mlp) > 0:
            out = out + self.mlp(rows) if torch.is_grad_enabled() else out.add_(self.mlp(rows))
        return out


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
        """Return θ, (B, longest), zero from each length on, computed once per distinct length; on a GPU, where counting
        those would wait for it, once per possible length."""
        if lengths.device.type == "cpu":
            distinct, row = torch.unique(lengths, return_inverse=True)
        else:
            distinct = to_device(torch.arange(1, longest + 1), lengths.device)
            row = lengths - 1
        codes = to_device(position_codes(longest, self.code_size), lengths.device).to(self.score.weight)
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
    if features.device.type == "cpu" and features.dtype != torch.float64:
        features = features.float()  # NumPy has no bfloat16
    by_channel = features.transpose(1, 2).contiguous()
    padded = padding_mask(lengths, features.shape[1]).unsqueeze(1)
    by_channel = by_channel.masked_fill(padded, LOWEST)
    return torch.bmm(weights.to(features.dtype).flip(-1), _ascending(by_channel).mT)


def _ascending(rows: Tensor) -> Tensor:
    """Sort every row, differentiably. On a CPU NumPy sorts faster than PyTorch, which takes 1.1 to 1.2 times as long for a
    whole training step (lab/cpu_tricks.md); without a gradient the values are sorted alone."""
    if rows.device.type != "cpu":
        return rows.gather(-1, rows.detach().argsort(dim=-1))
    if torch.is_grad_enabled() and rows.requires_grad:
        positions = rows.detach().numpy().argsort(axis=-1)
        return rows.gather(-1, torch.from_numpy(positions))
    return torch.from_numpy(np.sort(rows.detach().numpy(), axis=-1))


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
