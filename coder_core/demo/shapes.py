"""Signed distances of the demo's shapes: negative inside, positive outside, in pixels.

The formulas are those of Inigo Quilez, "2D distance functions" (iquilezles.org/articles/distfunctions2d).
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]
Corners = tuple[tuple[float, float], ...]


def signed_distance(shape: str, u: Field, v: Field, radius: float) -> Field:
    """Distance of every point to the outline.

    Args:
        shape: one of `scenes.SHAPES`.
        u, v: (h, w) pixels right of and below the centre.
        radius: pixels; the shape about fills the circle of this radius.

    Returns:
        (h, w) float32.
    """
    if shape == "circle":
        return length(u, v) - np.float32(0.92 * radius)
    if shape == "ring":
        return np.abs(length(u, v) - np.float32(0.72 * radius)) - np.float32(0.22 * radius)
    curved = {"moon": _moon, "flower": _flower, "heart": _heart}
    if shape in curved:
        return curved[shape](u / radius, v / radius) * np.float32(radius)
    rounding = 0.06 * radius
    return _polygon(_corners(shape), u / radius, v / radius) * np.float32(radius) - np.float32(rounding)


def length(a: Field, b: Field) -> Field:
    """Length of the vector (a, b); np.hypot guards against overflow, which costs three times as much."""
    return np.sqrt(a * a + b * b)


@cache
def _corners(shape: str) -> Corners:
    """Corners of the right half, from the top of the axis to its bottom, in units of the radius."""
    if shape == "square":
        return ((0, -0.74), (0.74, -0.74), (0.74, 0.74), (0, 0.74))
    if shape == "diamond":
        return ((0, -0.98), (0.66, 0), (0, 0.98))
    if shape == "cross":
        a, b = 0.26, 0.88
        return ((0, -b), (a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b), (0, b))
    if shape == "triangle":  # its weight is below its centre: lifted by a sixth
        return ((0, -0.8), (0.83, 0.64), (0, 0.64))
    count, inner = {"hexagon": (6, 1.0), "star": (10, 0.44)}[shape]
    angles = [2 * np.pi * corner / count for corner in range(count // 2 + 1)]
    lengths = [0.96 if corner % 2 == 0 else 0.96 * inner for corner in range(count // 2 + 1)]
    return tuple(
        (float(reach * np.sin(angle)), float(-reach * np.cos(angle)))
        for reach, angle in zip(lengths, angles, strict=True)
    )


def _polygon(corners: Corners, u: Field, v: Field) -> Field:
    """A polygon that is its own mirror image in the upright axis: half the edges will do."""
    u = np.abs(u)
    nearest = np.full(u.shape, np.inf, np.float32)
    outside = np.ones(u.shape, bool)
    for start, end in pairwise(corners):
        edge_u, edge_v = end[0] - start[0], end[1] - start[1]
        from_u, from_v = u - np.float32(start[0]), v - np.float32(start[1])
        along = np.clip((from_u * edge_u + from_v * edge_v) / (edge_u**2 + edge_v**2), 0, 1)
        off_u, off_v = from_u - edge_u * along, from_v - edge_v * along
        np.minimum(nearest, off_u * off_u + off_v * off_v, out=nearest)
        # the edge crosses the point's ray to the right: inside and outside change places
        crosses = (v < start[1]) != (v < end[1])
        outside ^= crosses & ((from_u * edge_v < edge_u * from_v) == (edge_v > 0))
    return np.where(outside, np.float32(1), np.float32(-1)) * np.sqrt(nearest)


def _moon(u: Field, v: Field) -> Field:
    """A disc with a disc bitten off, its horns turned up a little."""
    disc, bite, apart = 0.92, 0.76, 0.5
    x, y = (
        np.float32(0.94) * u - np.float32(0.34) * v + np.float32(0.1),
        np.float32(0.94) * v + np.float32(0.34) * u,
    )
    y = np.abs(y)
    horn_x = (disc**2 - bite**2 + apart**2) / (2 * apart)
    horn_y = float(np.sqrt(disc**2 - horn_x**2))
    past_horn = x * horn_y - y * horn_x > apart * np.maximum(horn_y - y, 0)
    body = np.maximum(length(x, y) - np.float32(disc), np.float32(bite) - length(x - np.float32(apart), y))
    return np.where(past_horn, length(x - np.float32(horn_x), y - np.float32(horn_y)), body)


def _flower(u: Field, v: Field) -> Field:
    """Six round petals about a disc, with a hole for an eye."""
    petals = np.full(np.broadcast_shapes(u.shape, v.shape), np.inf, np.float32)
    for petal in range(6):
        angle = np.pi * petal / 3
        across, down = u - np.float32(0.6 * np.cos(angle)), v - np.float32(0.6 * np.sin(angle))
        np.minimum(petals, length(across, down), out=petals)
    centre = length(u, v)
    whole = np.minimum(petals - np.float32(0.34), centre - np.float32(0.55))
    return np.maximum(whole, np.float32(0.2) - centre)


def _heart(u: Field, v: Field) -> Field:
    scale = 1.62
    x, y = np.abs(u / scale), np.float32(0.84 / scale) - v / scale
    lobe = length(x - np.float32(0.25), y - np.float32(0.75)) - np.float32(np.sqrt(2) / 4)
    half = np.maximum(x + y, 0) / 2
    tip = np.sqrt(np.minimum(x**2 + (y - 1) ** 2, (x - half) ** 2 + (y - half) ** 2)) * np.sign(x - y)
    return np.where(x + y > 1, lobe, tip) * np.float32(scale)
