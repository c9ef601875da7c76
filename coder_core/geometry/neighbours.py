"""Exact nearest neighbours by cosine, one tile of the similarity matrix at a time."""

from __future__ import annotations

import numpy as np

from coder_core.console.progress import Progress, silent
from coder_core.geometry.points import TILE_ELEMENTS, Array


def nearest(points: Array, count: int, *, progress: Progress = silent) -> tuple[Array, Array]:
    """Every point's nearest points, itself first at distance 0.

    Args:
        points: (N, D) float32 unit rows. count: ≤ N.

    Returns:
        (N, count) int32 rows and (N, count) float32 cosine distances 1 − cos ≥ 0, nearest first.
    """
    return _nearest(points, points, count, progress, own=True)


def nearest_of(
    queries: Array, points: Array, count: int, *, progress: Progress = silent
) -> tuple[Array, Array]:
    """As `nearest`, for queries that are not among the points."""
    return _nearest(queries, points, count, progress, own=False)


def _nearest(queries: Array, points: Array, count: int, progress: Progress, own: bool) -> tuple[Array, Array]:
    rows = np.empty((len(queries), count), dtype=np.int32)
    distances = np.empty((len(queries), count), dtype=np.float32)
    step = max(1, TILE_ELEMENTS // max(len(points), 1))
    for start in range(0, len(queries), step):
        scores = np.asarray(queries[start : start + step] @ points.T)
        here = np.arange(len(scores))
        if own:  # a duplicate must not come before the point itself
            scores[here, start + here] = np.inf
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        best_scores = np.take_along_axis(scores, best, 1)
        order = np.argsort(-best_scores, axis=1, kind="stable")
        rows[start : start + step] = np.take_along_axis(best, order, 1)
        distances[start : start + step] = np.clip(1.0 - np.take_along_axis(best_scores, order, 1), 0.0, 2.0)
        progress(start + len(scores), len(queries), "looking for every point's nearest neighbours")
    return rows, distances
