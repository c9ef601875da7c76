"""Deep Boosting Learning: losses of ONE query, from the scores of its negatives in both branches."""

import math


def soft(distance, margin, largest):
    """Soft margin of eq. 17, and γ1 of eq. 19."""
    return 2 * margin / (1 + math.exp((2 / margin) * (distance - largest))) - margin


def soft_rising(score, margin):
    """Soft margin γ2 of eq. 19, with the sign corrected."""
    return 2 * margin / (1 + math.exp(-(2 / margin) * (score + 1))) - margin


def loss(form, target, teacher, positive, teacher_positive, *, margin, split, is_soft):
    """rs, rm, as or am (eq. 7-10, 18, 20); rm and am take the (first) negative with the largest S^t − S^a."""

    def relative(t, a):
        gamma = soft(teacher_positive - a, margin, 2.0) if is_soft else margin
        return max(0.0, gamma + (teacher_positive - a) - (positive - t))

    def absolute(t, a):
        first = split * margin
        second = margin - split * margin
        gamma1 = soft(teacher_positive, first, 1.0) if is_soft else first
        gamma2 = soft_rising(a, second) if is_soft else second
        return max(0.0, gamma1 + teacher_positive - positive) + max(0.0, gamma2 + t - a)

    pairs = list(zip(target, teacher, strict=True))
    if pairs and form in ("rm", "am"):
        pairs = [max(pairs, key=lambda pair: pair[0] - pair[1])]
    hinge = relative if form in ("rs", "rm") else absolute
    return math.fsum(hinge(t, a) for t, a in pairs)
