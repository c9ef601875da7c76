"""DIVERSITY, DISCREPANCY and the weights of complementary samples, in loops."""

import math
from statistics import fmean, pstdev

from tests.reference.arithmetic import dot, softmax


def diversity(neighbours):
    """Eq. 4 without Γ: all N² products of the neighbours."""
    return math.fsum(dot(a, b) for a in neighbours for b in neighbours) / len(neighbours) ** 2


def discrepancy(sample, neighbours_of_neighbours):
    """Eq. 2 without Γ."""
    return math.fsum(dot(other, sample) for other in neighbours_of_neighbours) / len(neighbours_of_neighbours)


def weights(images, texts, scale, modalities):
    """Eq. 3 or 6 for both modalities, then their combination, scaled by λ as well."""
    alpha_x = [scale * share for share in softmax(images)]
    alpha_y = [scale * share for share in softmax(texts)]
    if modalities in ("image", "text"):
        return alpha_x if modalities == "image" else alpha_y
    pairs = zip(alpha_x, alpha_y, strict=True)
    both = [abs(x - y) if modalities == "difference" else x + y for x, y in pairs]
    return [scale * share for share in softmax(both)]


def batch_weights(kind, images, texts, near, pairs, *, shares=(1.0, 1.0), gamma=-1, scale, modalities):
    """Weights of `pairs` as one batch, from all embeddings and neighbours; neighbours of neighbours may repeat."""
    raw = {"diversity": [], "discrepancy": []}
    for side in (images, texts):
        raw["diversity"].append([diversity([side[j] for j in row]) for row in near])
        again = [[k for j in row for k in near[j]] for row in near]
        apart = [discrepancy(side[p], [side[k] for k in row]) for p, row in enumerate(again)]
        raw["discrepancy"].append(apart)
    share = {name: float(name == kind) for name in raw}
    if kind == "combined":
        share = dict(zip(raw, shares, strict=True))
    if kind == "combined-stats":
        every = {name: [value for side in sides for value in side] for name, sides in raw.items()}
        share = {name: fmean(values) * pstdev(values) for name, values in every.items()}
    sides = (
        [sum(gamma * share[name] * raw[name][side][p] for name in raw) for p in pairs] for side in (0, 1)
    )
    return weights(*sides, scale, modalities)


def npairs_hinge(scores, ids, alpha, margin):
    """Eq. 1: weighted hinges of both directions over all negatives, over 2N²."""
    total = 0.0
    count = len(scores)
    for i in range(count):
        for j in range(count):
            if ids[i] != ids[j]:
                total += alpha[i] * max(0.0, scores[i][j] - scores[i][i] + margin)
                total += alpha[i] * max(0.0, scores[j][i] - scores[i][i] + margin)
    return total / (2 * count**2)
