"""Lay one layout over another by the rotation, reflection, scale and shift that bring them closest (Procrustes)."""

from __future__ import annotations

import numpy as np
from scipy.spatial import procrustes

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
    centre = reference.mean(0, dtype=np.float64)
    size, layout_size = np.linalg.norm(reference - centre), np.ptp(layout, axis=0).max()
    if size == 0 or layout_size == 0:  # a single spot
        return (layout - layout.mean(0) + centre).astype(np.float32), float(size != layout_size)
    _, moved, disparity = procrustes(reference, layout)
    return (moved * size + centre).astype(np.float32), float(disparity)
