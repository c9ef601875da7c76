"""The total loss of a step and its parts, for logging and error reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor


@dataclass
class Losses:
    """The total loss of a step and its parts.

    Args:
        total: the loss to run backward from.
        per_pair: (B,) each pair's share of the total, to name a sample that is not finite.
        parts: each term's mean over this process's anchors, before its weight.
        diversity: (2 · B,) of this process's anchors, both modalities; None without diversity.
    """

    total: Tensor
    per_pair: Tensor
    parts: dict[str, Tensor] = field(default_factory=dict)
    diversity: Tensor | None = None

    def plus(self, name: str, per_pair: Tensor, weight: float) -> Losses:
        """Add one term: (B,) a value for each pair, averaged, times its weight."""
        term = Losses(weight * per_pair.mean(), weight * per_pair.detach(), {name: per_pair.mean().detach()})
        return self._add(term, term.parts)

    def plus_branch(self, name: str, other: Losses) -> Losses:
        """Add the losses of another branch; its parts are named after it."""
        return self._add(other, {f"{name} {part}": value for part, value in other.parts.items()})

    def _add(self, other: Losses, parts: dict[str, Tensor]) -> Losses:
        return Losses(
            self.total + other.total, self.per_pair + other.per_pair, {**self.parts, **parts}, self.diversity
        )
