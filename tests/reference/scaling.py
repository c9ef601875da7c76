"""CODER eq. 3 and 4 for one direction of a matrix, as loops in float64."""

import math

import numpy as np


def scaled(s, negative, *, temperature, gamma, epsilon):
    """Return diversity (Q,), exponents with and without it, and shares of the loss; the last three (Q, C), else NaN."""
    q, c = s.shape
    raw = []
    for i in range(q):
        values = [s[i, j] for j in range(c) if negative[i, j]]
        mean = sum(values) / len(values)
        raw.append(1 + math.exp(-epsilon / math.sqrt(sum((x - mean) ** 2 for x in values) / len(values))))
    diversity = np.array([x / max(raw) for x in raw])
    exponent, plain, share = (np.full((q, c), np.nan) for _ in range(3))
    for i in range(q):
        total = 1.0
        for j in range(c):
            if negative[i, j]:
                plain[i, j] = (s[i, j] - gamma) / temperature
                exponent[i, j] = (s[i, j] - gamma) / (temperature * diversity[i])
                total += math.exp(exponent[i, j])
        for j in range(c):
            if negative[i, j]:
                share[i, j] = math.exp(exponent[i, j]) / total
    return diversity, exponent, plain, share
