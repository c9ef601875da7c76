"""Imitating another branch: losses of ONE query from its lists, the positive first, in both branches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import permutations


def shares(scores: Sequence[float], temperature: float) -> list[float]:
    """Softmax."""
    powers = [math.exp(score / temperature) for score in scores]
    return [power / math.fsum(powers) for power in powers]


def divergence(first: Sequence[float], second: Sequence[float]) -> float:
    """KL(first ‖ second)."""
    return math.fsum(p * math.log(p / q) for p, q in zip(first, second, strict=True))


def chance(order: Sequence[int], scores: Sequence[float], temperature: float) -> float:
    """Probability of an order: each place is chosen among those that are left."""
    found = 1.0
    for place in range(len(order)):
        left = [math.exp(scores[item] / temperature) for item in order[place:]]
        found *= left[0] / math.fsum(left)
    return found


def dr(target: Sequence[float], anchor: Sequence[float], temperature: float, length: int) -> float:
    """KL over all orders of the positive and the negatives the anchor scores highest."""
    best = sorted(range(1, len(anchor)), key=lambda j: -anchor[j])[: length - 1]
    list_t, list_a = ([scores[0], *(scores[j] for j in best)] for scores in (target, anchor))
    orders = list(permutations(range(len(list_t))))
    return divergence(
        [chance(order, list_a, temperature) for order in orders],
        [chance(order, list_t, temperature) for order in orders],
    )


def rkd(target: Sequence[float], anchor: Sequence[float]) -> float:
    """Mean Huber loss of the distances ÷ their mean."""

    def relations(scores: Sequence[float]) -> list[float]:
        distances = [1 - score for score in scores]
        mean = math.fsum(distances) / len(distances)
        return [distance / mean for distance in distances]

    terms = []
    for ours, theirs in zip(relations(target), relations(anchor), strict=True):
        apart = abs(ours - theirs)
        terms.append(apart**2 / 2 if apart <= 1 else apart - 0.5)
    return math.fsum(terms) / len(terms)


def dml(target: Sequence[float], anchor: Sequence[float], temperature: float) -> float:
    """KL(P^a ‖ P^t)."""
    return divergence(shares(anchor, temperature), shares(target, temperature))


def dino(target: Sequence[float], anchor: Sequence[float], temperature: float, anchor_temperature: float) -> float:
    """−Σ P^a log P^t."""
    both = zip(shares(anchor, anchor_temperature), shares(target, temperature), strict=True)
    return -math.fsum(p * math.log(q) for p, q in both)


def dino_reversed(
    target: Sequence[float], anchor: Sequence[float], temperature: float, anchor_temperature: float
) -> float:
    """KL(P^t ‖ P^a)."""
    return divergence(shares(target, temperature), shares(anchor, anchor_temperature))
