"""Sums, lengths and shares over Python floats."""

import math
from collections.abc import Sequence

Vector = Sequence[float]


def dot(first: Vector, second: Vector) -> float:
    """Σ a·b."""
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def unit(vector: Vector) -> list[float]:
    """The vector at length one; zeros stay."""
    length = math.sqrt(dot(vector, vector))
    return [value / length for value in vector] if length > 0 else list(vector)


def softmax(values: Vector, temperature: float = 1.0) -> list[float]:
    """Shares of the exponentials of value / temperature."""
    top = max(values)
    powers = [math.exp((value - top) / temperature) for value in values]
    return [power / math.fsum(powers) for power in powers]
