"""Deep Boosting Learning's losses of ONE query, from its lists of negatives in both branches."""

import math
from collections.abc import Sequence


def soft(distance: float, margin: float, largest: float) -> float:
    """Eq. 17, and γ1 of eq. 19."""
    return 2 * margin / (1 + math.exp((2 / margin) * (distance - largest))) - margin


def soft_rising(score: float, margin: float) -> float:
    """γ2 of eq. 19 with its sign put right."""
    return 2 * margin / (1 + math.exp(-(2 / margin) * (score + 1))) - margin


def hardest(target: Sequence[float], teacher: Sequence[float]) -> int | None:
    """Place of the negative with the largest S^t − S^a; the first of equals, None without negatives."""
    best = None
    for j in range(len(target)):
        if best is None or target[j] - teacher[j] > target[best] - teacher[best]:
            best = j
    return best


def _relative(
    t: float, a: float, positive: float, teacher_positive: float, margin: float, is_soft: bool
) -> float:
    gamma = soft(teacher_positive - a, margin, 2.0) if is_soft else margin
    return max(0.0, gamma + (teacher_positive - a) - (positive - t))


def _absolute(
    t: float, a: float, positive: float, teacher_positive: float, margin: float, split: float, is_soft: bool
) -> float:
    first, second = split * margin, margin - split * margin
    gamma1 = soft(teacher_positive, first, 1.0) if is_soft else first
    gamma2 = soft_rising(a, second) if is_soft else second
    return max(0.0, gamma1 + teacher_positive - positive) + max(0.0, gamma2 + t - a)


def loss(
    form: str,
    target: Sequence[float],
    teacher: Sequence[float],
    positive: float,
    teacher_positive: float,
    *,
    margin: float,
    split: float,
    is_soft: bool,
) -> float:
    """rs, rm, as or am (eq. 7-10, 18, 20)."""
    best = hardest(target, teacher)
    if best is None:
        return 0.0
    places = range(len(target)) if form in ("rs", "as") else [best]
    if form in ("rs", "rm"):
        terms = [
            _relative(target[j], teacher[j], positive, teacher_positive, margin, is_soft) for j in places
        ]
    else:
        terms = [
            _absolute(target[j], teacher[j], positive, teacher_positive, margin, split, is_soft)
            for j in places
        ]
    return math.fsum(terms)
