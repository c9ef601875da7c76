"""The plane in which a cloud of points varies most (PCA), from one pass over its tiles."""

from __future__ import annotations

import numpy as np

from coder_core.geometry.points import Array, Points


def principal_plane(points: Points) -> tuple[Array, tuple[float, float]]:
    """Coordinates on the first two principal axes, and the share of the variance each one holds.

    The covariance (D, D) of any number of points: products of tiles in float32, summed in float64. An axis points to
    where its largest loading is positive, so that the same data always give the same picture.

    Returns:
        (N, 2) float32 and two shares of the total variance.
    """
    count, width = len(points), points.width
    mean = np.zeros(width)
    for _, tile in points.tiles():
        mean += tile.sum(0, dtype=np.float64)
    mean /= max(count, 1)
    scatter = np.zeros((width, width))
    for _, tile in points.tiles():
        centred = tile - mean.astype(np.float32)
        scatter += centred.T @ centred
    values, vectors = np.linalg.eigh(scatter)
    axes = np.zeros((width, 2))
    axes[:, : min(2, width)] = vectors[:, ::-1][:, :2]
    axes *= np.where(axes[np.abs(axes).argmax(0), [0, 1]] < 0, -1.0, 1.0)
    plane = np.empty((count, 2), dtype=np.float32)
    for rows, tile in points.tiles():
        plane[rows] = (tile - mean.astype(np.float32)) @ axes.astype(np.float32)
    total = float(np.maximum(values, 0).sum())
    largest = [*np.maximum(values, 0)[::-1][:2], 0.0]
    shares = [float(value) / total if total > 0 else 0.0 for value in largest]
    return plane, (shares[0], shares[1])
