"""Deep Boosting Learning: margins set by a second branch, the teacher, through its scores of the same pairs.

Diao et al. 2024, Deep Boosting Learning, arXiv:2404.18114, eq. 7-10 and 14-20. The paper calls the teacher "anchor
branch" and the trained branch "target branch": S^t are the scores of the target, S^a those of the teacher, which gets
no gradient. Each loss covers one direction; add both. With fixed margins RM ≤ AM and RS ≤ AS (eq. 11-13).

    target   a `Direction` of S^t: (Q, C) scores, (Q,) of the positives, (Q, C) negatives
    teacher  S^a of the same queries and candidates: (Q, C) scores, (Q,) of the positives
    margin   γ >= 0, by how much the target's distance should exceed the teacher's
    soft     shrink the margin where the teacher's scores leave less room for it
    result   (Q,) losses, 0 for a query without negatives
"""

from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.objectives.pairs import Direction, Teacher, check_branches
from coder_core.ops import full_precision

LARGEST_COSINE = 1.0  # d_y of eq. 19: a score is in [-d_y, d_y]
LARGEST_DISTANCE = 2.0  # d_x of eq. 17: the positive's score minus a negative's is in [-d_x, d_x]


def relative_sum(target: Direction, teacher: Teacher, *, margin: float = 0.2, soft: bool = False) -> Tensor:
    """Compute RS, Σ over the negatives of [γ + (S^a⁺ − S^a_ij) − (S^t⁺ − S^t_ij)]₊ (eq. 7; soft: eq. 17).

    In plain terms: the target's positive should lead every negative by γ more than the teacher's does.

    >>> scores, teacher = torch.tensor([[0.5, 0.6, 0.1]]), torch.tensor([[0.4, 0.3, 0.3]])
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True, True]]))
    >>> relative_sum(target, (teacher, teacher[:, 0]))
    tensor([0.4000])
    """
    hinge = _relative_hinge(_compare(target, teacher), margin, soft)
    return torch.where(target.negatives, hinge, 0.0).sum(dim=1)


def relative_max(target: Direction, teacher: Teacher, *, margin: float = 0.2, soft: bool = False) -> Tensor:
    """Compute RM: RS at only the negative with the largest S^t − S^a (eq. 8, 18).

    >>> scores, teacher = torch.tensor([[0.5, 0.6, 0.4]]), torch.tensor([[0.4, 0.3, 0.2]])
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True, True]]))
    >>> relative_max(target, (teacher, teacher[:, 0]))
    tensor([0.4000])
    """
    hardest, exists = _hardest(_compare(target, teacher), target.negatives)
    return torch.where(exists, _relative_hinge(hardest, margin, soft), 0.0).squeeze(1)


def absolute_sum(
    target: Direction, teacher: Teacher, *, margin: float = 0.2, split: float = 0.5, soft: bool = False
) -> Tensor:
    """Compute AS, Σ over the negatives of [γ₁ + S^a⁺ − S^t⁺]₊ + [γ₂ + S^t_ij − S^a_ij]₊ (eq. 9; soft: eq. 19).

    In plain terms: the target should score a positive γ₁ higher and a negative γ₂ lower than the teacher does. The
    positive's hinge is inside the sum, so it counts once per negative.

    Args:
        split: α in [0, 1]; γ₁ = α·γ for the positive, γ₂ = γ − α·γ for the negatives.

    >>> scores = torch.tensor([[0.5, 0.6, 0.2]])  # the target is its own teacher: γ₁ + γ₂ for each negative
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True, True]]))
    >>> absolute_sum(target, target[:2])
    tensor([0.4000])
    """
    hinges = _absolute_hinges(_compare(target, teacher), margin, split, soft)
    return torch.where(target.negatives, hinges, 0.0).sum(dim=1)


def absolute_max(
    target: Direction, teacher: Teacher, *, margin: float = 0.2, split: float = 0.5, soft: bool = False
) -> Tensor:
    """Compute AM: AS at only the negative of `relative_max`; the positive's hinge counts once (eq. 10, 20).

    >>> scores = torch.tensor([[0.5, 0.6, 0.2]])
    >>> target = Direction(scores, scores[:, 0], torch.tensor([[False, True, True]]))
    >>> absolute_max(target, target[:2])
    tensor([0.2000])
    """
    hardest, exists = _hardest(_compare(target, teacher), target.negatives)
    return torch.where(exists, _absolute_hinges(hardest, margin, split, soft), 0.0).squeeze(1)


class _Compared(NamedTuple):
    """Scores of target and teacher for the same pairs; the teacher's carry no gradient."""

    behind: Tensor  # (Q, 1) S^a⁺ − S^t⁺
    above: Tensor  # (Q, C) S^t − S^a
    teacher: Tensor  # (Q, C) S^a
    teacher_positive: Tensor  # (Q, 1) S^a⁺


def _compare(target: Direction, teacher: Teacher) -> _Compared:
    check_branches(target, teacher)
    scores, positive = (full_precision(values).detach() for values in teacher)
    behind = positive - full_precision(target.positive_scores)
    return _Compared(behind[:, None], full_precision(target.scores) - scores, scores, positive[:, None])


def _hardest(pairs: _Compared, negatives: Tensor) -> tuple[_Compared, Tensor]:
    """Return the column with the largest S^t − S^a of each query, and a (Q, 1) mask of queries with negatives.

    Without negatives S^t − S^a is -inf, where every hinge has zero gradient.
    """
    highest, column = torch.where(negatives, pairs.above, float("-inf")).max(dim=1, keepdim=True)
    return pairs._replace(above=highest, teacher=pairs.teacher.gather(1, column)), highest > float("-inf")


def _relative_hinge(pairs: _Compared, margin: float, soft: bool) -> Tensor:
    distances = pairs.teacher_positive - pairs.teacher
    least = soft_margin(distances, margin, LARGEST_DISTANCE) if soft else margin
    return torch.relu(least + pairs.behind + pairs.above)


def _absolute_hinges(pairs: _Compared, margin: float, split: float, soft: bool) -> Tensor:
    first = split * margin
    second = margin - split * margin
    pull = (soft_margin(pairs.teacher_positive, first, LARGEST_COSINE) if soft else first) + pairs.behind
    push = (soft_negative_margin(pairs.teacher, second) if soft else second) + pairs.above
    return torch.relu(pull) + torch.relu(push)


def soft_margin(distances: Tensor, margin: float, largest: float) -> Tensor:
    """Compute γ(x) = 2γ / (1 + exp((2/γ)(x − d))) − γ, which falls from γ to 0 at x = d (eq. 17; γ₁ of eq. 19).

    Args:
        distances: x, from the teacher's scores; any shape.
        margin: γ >= 0.
        largest: d, the largest possible distance.

    >>> soft_margin(torch.tensor([0.0, 1.8, 1.9]), margin=0.2, largest=LARGEST_DISTANCE)
    tensor([0.2000, 0.1523, 0.0924])
    """
    # The logistic function as a tanh, which never overflows: 2γ/(1 + e^u) − γ = −γ·tanh(u/2).
    return -margin * torch.tanh((distances - largest) / margin) if margin > 0 else torch.zeros_like(distances)


def soft_negative_margin(negatives: Tensor, margin: float) -> Tensor:
    """Compute γ₂(y) = 2γ₂ / (1 + exp(−(2/γ₂)(y + 1))) − γ₂, which rises from 0 at y = −1 to γ₂.

    Eq. 19 prints the exponent without its minus sign, which would make every margin negative except at y = −1.

    >>> soft_negative_margin(torch.tensor([-0.9, -0.8, 0.0]), margin=0.2)
    tensor([0.0924, 0.1523, 0.2000])
    """
    return soft_margin(-negatives, margin, LARGEST_COSINE)
