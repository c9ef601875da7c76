"""Inner products, unit vectors and softmax over Python floats."""

import math


def dot(first, second):
    """Σ a·b."""
    return math.fsum(a * b for a, b in zip(first, second, strict=True))


def unit(vector):
    """Scale a vector to length one; a zero vector stays zero."""
    length = math.sqrt(dot(vector, vector))
    return [value / length for value in vector] if length > 0 else list(vector)


def softmax(values, temperature=1.0):
    """softmax(values / temperature)."""
    top = max(values)
    powers = [math.exp((value - top) / temperature) for value in values]
    return [power / math.fsum(powers) for power in powers]
