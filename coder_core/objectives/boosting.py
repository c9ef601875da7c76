"""Deep Boosting Learning: margins set by what a second branch, the teacher, scores the same pairs.

Diao et al. 2024, Deep Boosting Learning, arXiv:2404.18114, eq. 7-10 and 14-20. The paper calls the teacher "anchor
branch" and what is trained "target branch": S^t are the scores of the target, S^a those of the teacher, which gets no
gradient. One direction; call a form for both and add. With fixed margins RM ≤ AM and RS ≤ AS (eq. 11-13).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.ops import full_precision

LARGEST_COSINE = 1.0
"""d_y of eq. 19: a score lies in [-d_y, d_y]."""
LARGEST_DISTANCE = 2.0
"""d_x of eq. 17: the positive's score less a negative's lies in [-d_x, d_x]."""


def relative_sum(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    margin: float = 0.2,
    soft: bool = False,
) -> Tensor:
    """RS, Σ over the negatives of [γ + (S^a⁺ − S^a_ij) − (S^t⁺ − S^t_ij)]₊ (eq. 7).

    In plain terms: a positive should lead every negative by γ more than it does for the teacher.

    Args:
        scores: (Q, C) S^t.
        positive_scores: (Q,) S^t of each query's positive.
        negatives: (Q, C) bool; a query without any loses nothing.
        teacher_scores: (Q, C) S^a of the same queries and candidates.
        teacher_positive_scores: (Q,) S^a of each query's positive.
        margin: γ >= 0, by how much the target's distance should exceed the teacher's.
        soft: shrink γ where the teacher's distance nears its largest possible value (eq. 17).

    Returns:
        (Q,) losses.

    >>> target, teacher = torch.tensor([[0.5, 0.6, 0.1]]), torch.tensor([[0.4, 0.3, 0.3]])
    >>> relative_sum(target, target[:, 0], torch.tensor([[False, True, True]]), teacher, teacher[:, 0])
    tensor([0.4000])
    """
    pairs = _compare(scores, positive_scores, teacher_scores, teacher_positive_scores)
    return torch.where(negatives, _relative_hinge(pairs, margin, soft), 0.0).sum(dim=1)


def relative_max(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    margin: float = 0.2,
    soft: bool = False,
) -> Tensor:
    """RM, the same at the one negative with the largest S^t − S^a (eq. 8, 18). Arguments as for `relative_sum`.

    >>> target, teacher = torch.tensor([[0.5, 0.6, 0.4]]), torch.tensor([[0.4, 0.3, 0.2]])
    >>> relative_max(target, target[:, 0], torch.tensor([[False, True, True]]), teacher, teacher[:, 0])
    tensor([0.4000])
    """
    pairs = _compare(scores, positive_scores, teacher_scores, teacher_positive_scores)
    hardest, exists = _hardest(pairs, negatives)
    return torch.where(exists, _relative_hinge(hardest, margin, soft), 0.0).squeeze(1)


def absolute_sum(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    margin: float = 0.2,
    split: float = 0.5,
    soft: bool = False,
) -> Tensor:
    """AS, Σ over the negatives of [γ₁ + S^a⁺ − S^t⁺]₊ + [γ₂ + S^t_ij − S^a_ij]₊ (eq. 9).

    In plain terms: a positive should score γ₁ more, a negative γ₂ less than for the teacher. The positive's hinge
    stands inside the sum: it counts once for every negative. Other arguments as for `relative_sum`.

    Args:
        margin: γ >= 0, which γ₁ and γ₂ share.
        split: α in [0, 1]; γ₁ = α·γ of the positive, γ₂ = γ − α·γ of the negatives.
        soft: shrink γ₁ where the teacher's positive nears 1 and γ₂ where its negative nears −1 (eq. 19).

    >>> scores = torch.tensor([[0.5, 0.6, 0.2]])  # the target is its own teacher: γ₁ + γ₂ for each negative
    >>> absolute_sum(scores, scores[:, 0], torch.tensor([[False, True, True]]), scores, scores[:, 0])
    tensor([0.4000])
    """
    pairs = _compare(scores, positive_scores, teacher_scores, teacher_positive_scores)
    return torch.where(negatives, _absolute_hinges(pairs, margin, split, soft), 0.0).sum(dim=1)


def absolute_max(
    scores: Tensor,
    positive_scores: Tensor,
    negatives: Tensor,
    teacher_scores: Tensor,
    teacher_positive_scores: Tensor,
    *,
    margin: float = 0.2,
    split: float = 0.5,
    soft: bool = False,
) -> Tensor:
    """AM, the same with the one negative of `relative_max`; the positive's hinge counts once (eq. 10, 20). Arguments as
    for `absolute_sum`.

    >>> scores = torch.tensor([[0.5, 0.6, 0.2]])
    >>> absolute_max(scores, scores[:, 0], torch.tensor([[False, True, True]]), scores, scores[:, 0])
    tensor([0.2000])
    """
    pairs = _compare(scores, positive_scores, teacher_scores, teacher_positive_scores)
    hardest, exists = _hardest(pairs, negatives)
    return torch.where(exists, _absolute_hinges(hardest, margin, split, soft), 0.0).squeeze(1)


class _Compared(NamedTuple):
    """Target and teacher on the same pairs; the teacher's scores carry no gradient."""

    behind: Tensor
    """(Q, 1) S^a⁺ − S^t⁺."""
    above: Tensor
    """(Q, C) S^t − S^a."""
    teacher: Tensor
    """(Q, C) S^a."""
    teacher_positive: Tensor
    """(Q, 1) S^a⁺."""


def _compare(
    scores: Tensor, positive_scores: Tensor, teacher_scores: Tensor, teacher_positive_scores: Tensor
) -> _Compared:
    teacher, teacher_positive = (
        full_precision(teacher_scores).detach(),
        full_precision(teacher_positive_scores).detach(),
    )
    behind = teacher_positive - full_precision(positive_scores)
    return _Compared(behind[:, None], full_precision(scores) - teacher, teacher, teacher_positive[:, None])


def _hardest(pairs: _Compared, negatives: Tensor) -> tuple[_Compared, Tensor]:
    """The one column where S^t − S^a is largest, and whether a query has a negative (Q, 1).

    Without one S^t − S^a is -inf, at which every hinge is flat.
    """
    highest, column = torch.where(negatives, pairs.above, float("-inf")).max(dim=1, keepdim=True)
    return pairs._replace(above=highest, teacher=pairs.teacher.gather(1, column)), highest > float("-inf")


def _relative_hinge(pairs: _Compared, margin: float, soft: bool) -> Tensor:
    distances = pairs.teacher_positive - pairs.teacher
    return torch.relu(
        (soft_margin(distances, margin, LARGEST_DISTANCE) if soft else margin) + pairs.behind + pairs.above
    )


def _absolute_hinges(pairs: _Compared, margin: float, split: float, soft: bool) -> Tensor:
    first, second = split * margin, margin - split * margin
    pull = torch.relu(
        (soft_margin(pairs.teacher_positive, first, LARGEST_COSINE) if soft else first) + pairs.behind
    )
    push = torch.relu((soft_negative_margin(pairs.teacher, second) if soft else second) + pairs.above)
    return pull + push


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
