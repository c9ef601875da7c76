"""Laying one layout over another: the rotation, reflection, scale and shift that bring them closest (Procrustes)."""

from __future__ import annotations

import numpy as np

from coder_core.geometry.points import Array


def onto(layout: Array, reference: Array) -> tuple[Array, float]:
    """Move `layout` onto `reference` without bending it. Gower 1975, orthogonal Procrustes with scale.

    Args:
        layout: (N, 2). reference: (N, 2), the same samples in the same order.

    Returns:
        (N, 2) float32, and the disparity: the share of the reference's variance that is left between the two, from 0
        (the same picture) to 1 (nothing in common).

    Raises:
        ValueError: the two hold different numbers of points.
    """
    if layout.shape != reference.shape:
        raise ValueError(f"layouts of {len(layout):,} and {len(reference):,} points cannot be laid over each other")
    a, b = np.asarray(layout, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    centre_a, centre_b = a.mean(0), b.mean(0)
    a, b = a - centre_a, b - centre_b
    size_a, size_b = float((a**2).sum()), float((b**2).sum())
    if size_a == 0 or size_b == 0:
        return (a + centre_b).astype(np.float32), 0.0 if size_a == size_b else 1.0
    left, stretch, right = np.linalg.svd(a.T @ b)
    moved = a @ (left @ right) * (stretch.sum() / size_a)
    disparity = max(0.0, 1.0 - float(stretch.sum()) ** 2 / (size_a * size_b))
    return (moved + centre_b).astype(np.float32), disparity
