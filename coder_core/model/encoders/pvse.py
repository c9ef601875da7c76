"""Several embeddings of one sample. Song & Soleymani 2019 (PVSE, arXiv:1906.04402), section 3.1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from coder_core.ops import padding_mask


class PVSEPooling(nn.Module):
    """K embeddings of a sample: what K attention heads select of its local features, as residuals of the pooled vector.

    A = softmax over the positions of w₂ tanh(w₁ x), and z_k = LayerNorm(pooled + sigmoid(W A_k x + b)).

    Args:
        pooling: (B, L, D), (B,) -> (B, D), the vector all heads add to.
        dimension: D.
        count: K.
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
        """(B, L, D), (B,) -> (B, K, D), not normalised."""
        return self.with_residuals(features, lengths)[0]

    def with_residuals(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, L, D), (B,) -> (B, K, D) embeddings, not normalised, and (B, K, D) what each head adds."""
        pooled = self.pooling(features, lengths)
        attended = self.attention(features, lengths).transpose(1, 2) @ features  # (B, K, D)
        residuals = torch.sigmoid(self.residual(attended))
        return self.norm(pooled.unsqueeze(1) + residuals), residuals

    def attention(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, L, D), (B,) -> (B, L, K) weights; a head's weights sum to 1 over the positions that exist."""
        scores = self.heads(torch.tanh(self.hidden(features)))
        padded = padding_mask(lengths, features.shape[1]).unsqueeze(-1)
        return torch.softmax(scores.masked_fill(padded, float("-inf")), dim=1)
