"""Sums, lengths and shares over Python floats."""

import math
from collections.abc import Sequence

Vector = Sequence[float]


def dot(first, second):
    """Σ a·b."""
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def unit(vector):
    """The vector at length one; zeros stay."""
    length = math.sqrt(dot(vector, vector))
    return [value / length for value in vector] if length > 0 else list(vector)


def softmax(values, temperature=1.0):
    """Shares of the exponentials of value / temperature."""
    top = max(values)
    powers = [math.exp((value - top) / temperature) for value in values]
    return [power / math.fsum(powers) for power in powers]
