"""DIVERSITY, DISCREPANCY and the weights of complementary samples, sum by sum."""

import math

from tests.reference.arithmetic import dot, softmax


def diversity(neighbours):
    """Eq. 4 without Γ: all N² products of the neighbours."""
    return math.fsum(dot(a, b) for a in neighbours for b in neighbours) / len(neighbours) ** 2


def discrepancy(sample, neighbours_of_neighbours):
    """Eq. 2 without Γ."""
    return math.fsum(dot(other, sample) for other in neighbours_of_neighbours) / len(neighbours_of_neighbours)


def weights(images, texts, scale, modalities):
    """Eq. 3 or 6 for both modalities, then their combination, λ outside as well."""
    alpha_x = [scale * share for share in softmax(images)]
    alpha_y = [scale * share for share in softmax(texts)]
    if modalities in ("image", "text"):
        return alpha_x if modalities == "image" else alpha_y
    both = [
        abs(x - y) if modalities == "difference" else x + y for x, y in zip(alpha_x, alpha_y, strict=True)
    ]
    return [scale * share for share in softmax(both)]


def npairs_hinge(scores, ids, alpha, margin):
    """Eq. 1: weighted hinges of both directions over all negatives, over 2N²."""
    total, count = 0.0, len(scores)
    for i in range(count):
        for j in range(count):
            if ids[i] != ids[j]:
                total += alpha[i] * max(0.0, scores[i][j] - scores[i][i] + margin)
                total += alpha[i] * max(0.0, scores[j][i] - scores[i][i] + margin)
    return total / (2 * count**2)
