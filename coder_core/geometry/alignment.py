"""Turn, mirror and shift one layout so that it lies closest to another, at the same size (Procrustes)."""

from __future__ import annotations

import numpy as np
from scipy.spatial import procrustes

from coder_core.geometry.points import Array


def onto(layout: Array, reference: Array) -> tuple[Array, float]:
    """Turn, mirror and shift `layout` onto `reference`, at the reference's size. Gower 1975, orthogonal Procrustes.

    Procrustes' own best scale is below 1 wherever the two differ, and 0 where they have nothing in common: a run would
    look the more crowded the less it agrees with the other. So the root mean square distance from the centre is made
    equal instead, and only the disparity is measured at the best scale.

    Args:
        layout: (N, 2). reference: (N, 2), the same samples in the same order.

    Returns:
        (N, 2) float32, and the disparity: the share of the reference's variance that is left between the two at the
        best scale, from 0 (the same picture) to 1 (nothing in common).

    Raises:
        ValueError: the two hold different numbers of points.
    """
    if layout.shape != reference.shape:
        raise ValueError(
            f"layouts of {len(layout):,} and {len(reference):,} points cannot be laid over each other"
        )
    centre = reference.mean(0, dtype=np.float64)
    size, layout_size = np.linalg.norm(reference - centre), np.ptp(layout, axis=0).max()
    if size == 0 or layout_size == 0:  # a single spot
        return (layout - layout.mean(0) + centre).astype(np.float32), float(size != layout_size)
    _, moved, disparity = procrustes(reference, layout)
    shrunk = np.linalg.norm(moved)  # `procrustes` gives the reference length 1
    if shrunk > 0:
        moved = moved / shrunk
    return (moved * size + centre).astype(np.float32), float(disparity)
