"""Pool the local features of an image or a caption into one vector: mean and max (GPO: `gpo.py`)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from coder_core.model.encoders.gpo import LOWEST, GeneralisedPooling, pool_ranked
from coder_core.ops import padding_mask


class MeanPooling(nn.Module):
    """Mean over the positions that exist."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        by_channel = _fill_padded(features, lengths, 0.0).transpose(1, 2).contiguous()
        return by_channel.sum(-1) / lengths.unsqueeze(1).to(features.dtype)


class MaxPooling(nn.Module):
    """Largest value of every channel."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, D)."""
        return _fill_padded(features, lengths, LOWEST).amax(1)


class PooledByTower(nn.Module):
    """The tower pools: its one vector a sample."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, 1, D), (B,) -> (B, D)."""
        return features[:, 0]


class KeepAll(nn.Module):
    """No pooling: keep every region and every word, for a scorer that compares them one by one."""

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, L, D)."""
        return features


def pool_each(poolings: Sequence[nn.Module], features: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
    """The same features through several poolings, (B, L, D), (B,) -> (B, D) each. GPOs share one sort."""
    ranked = [pooling for pooling in poolings if isinstance(pooling, GeneralisedPooling)]
    if len(ranked) == len(poolings):
        return pool_ranked(ranked, features, lengths)
    return tuple(pooling(features, lengths) for pooling in poolings)


def _fill_padded(features: Tensor, lengths: Tensor, value: float) -> Tensor:
    return features.masked_fill(padding_mask(lengths, features.shape[1]).unsqueeze(-1), value)
