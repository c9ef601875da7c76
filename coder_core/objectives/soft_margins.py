"""Soft margins of Deep Boosting Learning shrink where the teacher leaves little room. Diao et al. 2024, eq. 17, 19.

A margin carries no gradient where its distances carry none.
"""

from __future__ import annotations

import torch
from torch import Tensor

LARGEST_COSINE = 1.0
"""d_y of eq. 19: a score lies in [-d_y, d_y]."""
LARGEST_DISTANCE = 2.0
"""d_x of eq. 17: the positive's score less a negative's lies in [-d_x, d_x]."""


def soft_margin(distances: Tensor, margin: float, largest: float) -> Tensor:
    """γ(x) = 2γ / (1 + exp((2/γ)(x − d))) − γ, falling from γ to 0 at x = d (eq. 17; γ₁ of eq. 19).

    Args:
        distances: x, of the teacher's scores; any shape.
        margin: γ >= 0.
        largest: d, the value no distance exceeds.

    >>> soft_margin(torch.tensor([0.0, 1.8, 1.9]), margin=0.2, largest=LARGEST_DISTANCE)
    tensor([0.2000, 0.1523, 0.0924])
    """
    # The logistic function as a tanh: 2γ/(1 + e^u) − γ = −γ·tanh(u/2), which no u overflows.
    return -margin * torch.tanh((distances - largest) / margin) if margin > 0 else torch.zeros_like(distances)


def soft_negative_margin(negatives: Tensor, margin: float) -> Tensor:
    """γ₂(y) = 2γ₂ / (1 + exp(−(2/γ₂)(y + 1))) − γ₂, rising from 0 at y = −1 to γ₂.

    Eq. 19 prints the exponent without its minus sign, which would make every margin but that at −1 negative.

    >>> soft_negative_margin(torch.tensor([-0.9, -0.8, 0.0]), margin=0.2)
    tensor([0.0924, 0.1523, 0.2000])
    """
    return soft_margin(-negatives, margin, LARGEST_COSINE)
