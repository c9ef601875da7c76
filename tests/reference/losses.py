"""Plain losses of ONE anchor, from the scores of its negatives and of its positive."""

import math

from tests.reference.arithmetic import softmax


def triplet_sum(negative_scores, positive, margin):
    """Σ [margin + S_ij − S⁺]₊."""
    return math.fsum(max(0.0, margin + score - positive) for score in negative_scores)


def triplet_hardest(negative_scores, positive, margin):
    """[margin + S_ij − S⁺]₊ of the highest-scoring negative."""
    return max((max(0.0, margin + score - positive) for score in negative_scores), default=0.0)


def info_nce(negative_scores, positive, temperature):
    """−log of the positive's softmax probability."""
    return -math.log(softmax([positive, *negative_scores], temperature)[0])


def pairwise_sigmoid(negative_scores, positive, scale, bias):
    """−log of the probability that the positive is a match and no negative is."""
    match = [1 / (1 + math.exp(-(scale * score + bias))) for score in (positive, *negative_scores)]
    return -math.log(match[0]) - math.fsum(math.log(1 - probability) for probability in match[1:])


def diversity_contrastive(
    negative_scores,
    positive,
    *,
    diversity=1.0,
    temperature=0.1,
    margin=0.3,
    positive_scale="one",
    positive_clamp="clamp",
):
    """μ·log(1 + Σ exp((S_ij − γ) / (μ·div))) − log(1 + S⁺); the switches change the last term."""
    powers = math.fsum(math.exp((score - margin) / (temperature * diversity)) for score in negative_scores)
    floor = -1 + 1e-4 if positive_clamp == "clamp" else 0.0
    pull = math.log(1 + max(positive, floor))
    scale = temperature if positive_scale == "temperature" else 1.0
    return temperature * math.log(1 + powers) - scale * pull


def projection_matching(negative_scores, positive, temperature):
    """CMPM: Σ p log(p / (q + ε)) over the positive and the negatives."""
    shares = softmax([positive, *negative_scores], temperature)
    return math.fsum(p * math.log(p / ((position == 0) + 1e-8)) for position, p in enumerate(shares))


def polynomial_hardest(negative_scores, positive, margin):
    """Polynomial loss of the hardest negative, with the coefficients of the authors' program."""
    near = [score for score in negative_scores if score + margin > positive]
    if not near or positive >= 1 - 1e-5:
        return 0.0
    hardest = max(near)
    pull = 0.2 * positive**2 - 0.7 * positive + 0.5
    push = 0.9 * hardest**2 - 0.4 * hardest + 0.03
    return max(0.0, pull) + max(0.0, push)
