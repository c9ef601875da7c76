"""What a step's losses come to: the total, and what of it is shown and blamed."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Losses:
    """What a step came to.

    Args:
        total: the loss to run backward from.
        parts: each term's mean over this process's anchors, before its weight.
        per_pair: (B,) each pair's share of the total, to name a sample that is not finite.
        diversity: (2 · B,) of this process's anchors, both modalities; None without diversity.
    """

    total: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)
    per_pair: Tensor | None = None
    diversity: Tensor | None = None

    def beside(self, name: str, other: Losses) -> Losses:
        """With the losses of another branch, shown under its name."""
        shown = {**self.parts, **{f"{name} {part}": value for part, value in other.parts.items()}}
        ours, theirs = self.per_pair, other.per_pair
        per_pair = ours if theirs is None else (theirs if ours is None else ours + theirs)
        return Losses(self.total + other.total, shown, per_pair, self.diversity)

    def plus(self, name: str, per_pair: Tensor, weight: float) -> Losses:
        """With one more term: (B,) a value for each pair, averaged, times its weight."""
        shown = {**self.parts, name: per_pair.mean().detach()}
        before = self.per_pair if self.per_pair is not None else torch.zeros_like(per_pair)
        total = self.total + weight * per_pair.mean()
        return Losses(total, shown, before + weight * per_pair.detach(), self.diversity)
