"""Imitation of another branch: losses of ONE query, from its scores in both branches, the positive first."""

import math
from itertools import permutations

from tests.reference.arithmetic import softmax


def divergence(first, second):
    """KL(first ‖ second)."""
    return math.fsum(p * math.log(p / q) for p, q in zip(first, second, strict=True))


def chance(order, scores, temperature):
    """Probability of an order: each place is drawn by softmax from the items that are left."""
    probability = 1.0
    for position in range(len(order)):
        left = [math.exp(scores[item] / temperature) for item in order[position:]]
        probability *= left[0] / math.fsum(left)
    return probability


def dr(target, teacher, temperature, length):
    """KL divergence over all orders of the positive and the `length` − 1 negatives that the teacher scores highest."""
    best = sorted(range(1, len(teacher)), key=lambda j: -teacher[j])[: length - 1]
    of_student, of_teacher = ([scores[0], *(scores[j] for j in best)] for scores in (target, teacher))
    orders = list(permutations(range(len(of_student))))
    branches = of_teacher, of_student
    return divergence(*([chance(order, scores, temperature) for order in orders] for scores in branches))


def rkd(target, teacher):
    """Mean Huber loss between both branches' distances, each divided by its branch's mean distance."""

    def relations(scores):
        distances = [1 - score for score in scores]
        mean = math.fsum(distances) / len(distances)
        return [distance / mean for distance in distances]

    terms = []
    for learned, taught in zip(relations(target), relations(teacher), strict=True):
        apart = abs(learned - taught)
        terms.append(apart**2 / 2 if apart <= 1 else apart - 0.5)
    return math.fsum(terms) / len(terms)


def dml(target, teacher, temperature):
    """KL(P^a ‖ P^t)."""
    return divergence(softmax(teacher, temperature), softmax(target, temperature))


def dino(target, teacher, temperature, teacher_temperature):
    """−Σ P^a log P^t."""
    both = zip(softmax(teacher, teacher_temperature), softmax(target, temperature), strict=True)
    return -math.fsum(p * math.log(q) for p, q in both)


def dino_reversed(target, teacher, temperature, teacher_temperature):
    """KL(P^t ‖ P^a)."""
    return divergence(softmax(target, temperature), softmax(teacher, teacher_temperature))
