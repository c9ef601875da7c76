"""Signed distances of the demo's shapes: negative inside, positive outside, in pixels.

The formulas are those of Inigo Quilez, "2D distance functions" (iquilezles.org/articles/distfunctions2d).
"""

from __future__ import annotations

from functools import lru_cache

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
        return np.hypot(u, v) - np.float32(0.92 * radius)
    if shape == "ring":
        return np.abs(np.hypot(u, v) - np.float32(0.72 * radius)) - np.float32(0.22 * radius)
    if shape == "moon":
        inside = np.hypot(u + 0.08 * radius, v) - np.float32(0.94 * radius)
        bite = np.hypot(u - 0.42 * radius, v + 0.16 * radius) - np.float32(0.74 * radius)
        return np.maximum(inside, -bite)
    if shape == "flower":
        return _flower(u / radius, v / radius) * np.float32(radius)
    if shape == "heart":
        return _heart(u / radius, v / radius) * np.float32(radius)
    rounding = 0.06 * radius
    return _polygon(_corners(shape), u / radius, v / radius) * np.float32(radius) - np.float32(rounding)


@lru_cache(maxsize=16)
def _corners(shape: str) -> Corners:
    """Corners in units of the radius, going round."""
    if shape == "square":
        return ((-0.74, -0.74), (0.74, -0.74), (0.74, 0.74), (-0.74, 0.74))
    if shape == "diamond":
        return ((0, -0.98), (0.66, 0), (0, 0.98), (-0.66, 0))
    if shape == "cross":
        a, b = 0.26, 0.88
        return (
            (-a, -b),
            (a, -b),
            (a, -a),
            (b, -a),
            (b, a),
            (a, a),
            (a, b),
            (-a, b),
            (-a, a),
            (-b, a),
            (-b, -a),
            (-a, -a),
        )
    counts = {"triangle": (3, 1.0), "hexagon": (6, 1.0), "star": (10, 0.44)}
    count, inner = counts[shape]
    angles = [2 * np.pi * corner / count - np.pi / 2 for corner in range(count)]
    lengths = [0.96 if corner % 2 == 0 else 0.96 * inner for corner in range(count)]
    lift = 0.16 if shape == "triangle" else 0.0  # a triangle's weight is below its centre
    return tuple(
        (float(length * np.cos(angle)), float(length * np.sin(angle)) + lift)
        for length, angle in zip(lengths, angles, strict=True)
    )


def _polygon(corners: Corners, u: Field, v: Field) -> Field:
    nearest = np.full(np.broadcast_shapes(u.shape, v.shape), np.inf, np.float32)
    outside = np.ones(nearest.shape, bool)
    previous = corners[-1]
    for corner in corners:
        edge_u, edge_v = previous[0] - corner[0], previous[1] - corner[1]
        from_u, from_v = u - np.float32(corner[0]), v - np.float32(corner[1])
        along = np.clip((from_u * edge_u + from_v * edge_v) / (edge_u**2 + edge_v**2), 0, 1)
        np.minimum(nearest, (from_u - edge_u * along) ** 2 + (from_v - edge_v * along) ** 2, out=nearest)
        # a ray to one side crosses this edge: inside and outside change places
        crossing = (v >= corner[1]) != (v >= previous[1])
        left = from_u * edge_v < edge_u * from_v
        outside ^= crossing & (left == (edge_v > 0))
        previous = corner
    return np.where(outside, 1, -1) * np.sqrt(nearest)


def _flower(u: Field, v: Field) -> Field:
    """Six round petals about a disc, with a hole for an eye."""
    petals = np.full(np.broadcast_shapes(u.shape, v.shape), np.inf, np.float32)
    for petal in range(6):
        angle = np.pi * petal / 3
        np.minimum(
            petals, np.hypot(u - np.float32(0.6 * np.cos(angle)), v - np.float32(0.6 * np.sin(angle))), out=petals
        )
    centre = np.hypot(u, v)
    whole = np.minimum(petals - np.float32(0.34), centre - np.float32(0.55))
    return np.maximum(whole, np.float32(0.2) - centre)


def _heart(u: Field, v: Field) -> Field:
    scale = np.float32(1.62)
    x, y = np.abs(u) / scale, (np.float32(0.84) - v) / scale
    lobe = np.hypot(x - np.float32(0.25), y - np.float32(0.75)) - np.float32(np.sqrt(2) / 4)
    half = np.maximum(x + y, 0) / 2
    tip = np.sqrt(np.minimum(x**2 + (y - 1) ** 2, (x - half) ** 2 + (y - half) ** 2)) * np.sign(x - y)
    return np.where(x + y > 1, lobe, tip) * scale
