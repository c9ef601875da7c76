"""UMAP by cosine distance. McInnes et al. 2018, arXiv:1802.03426."""

from __future__ import annotations

import warnings

import numpy as np

from coder_core.console.progress import Progress, silent, within
from coder_core.geometry.neighbours import nearest, nearest_of
from coder_core.geometry.points import Array
from coder_core.geometry.printed_progress import PrintedProgress

COMPILING = "compiling UMAP: numba takes up to a minute the first time"
GENTLE = 0.5  # learning rate from another layout's start: at 1 whole groups leave the places they were given
_NEIGHBOURS, _COMPILED = 0.15, 0.4  # share of the work after which these phases are over


def umap(
    points: Array,
    *,
    neighbours: int,
    min_distance: float,
    seed: int,
    init: Array | None = None,
    progress: Progress = silent,
) -> Array:
    """A UMAP layout from exact neighbours.

    Args:
        points: (N, D) float32 unit rows, N ≥ 4. neighbours: < N.
        init: (N, 2) layout to start from; None starts from the spectral one.

    Returns:
        (N, 2) float32.
    """
    rows, distances = nearest(points, neighbours, progress=within(progress, 0.0, _NEIGHBOURS))
    progress(_NEIGHBOURS, 1, COMPILING)
    with warnings.catch_warnings():
        # UMAP warns of what is intended: one thread because of the seed, no search index beside the neighbours,
        # a random start where the neighbour graph falls into pieces.
        warnings.simplefilter("ignore")
        from umap import UMAP

        fitting = within(progress, _COMPILED, 1.0)
        printed = PrintedProgress(
            r"(\d+)/([1-9]\d*)", lambda epoch, epochs: fitting(epoch, epochs, "UMAP: moving the points")
        )
        model = UMAP(
            n_neighbors=neighbours,
            min_dist=min_distance,
            metric="cosine",
            random_state=seed,
            n_jobs=1,
            learning_rate=1.0 if init is None else GENTLE,
            init="spectral" if init is None else np.asarray(init, dtype=np.float32),
            precomputed_knn=(rows, distances, None),
            force_approximation_algorithm=True,
            tqdm_kwds={"file": printed, "bar_format": "{n}/{total}\n", "disable": False, "mininterval": 0.3},
        )
        return np.asarray(model.fit_transform(points), dtype=np.float32)


def place_by_neighbours(
    queries: Array, points: Array, layout: Array, neighbours: int, *, progress: Progress = silent
) -> Array:
    """Place points that were not fitted at the mean of their nearest fitted ones, weighted by 1 / distance.

    UMAP's own `transform` starts there. Args: queries (Q, D), points (N, D) unit rows, layout (N, 2).
    """
    rows, distances = nearest_of(queries, points, neighbours, progress=progress)
    weights = 1.0 / np.maximum(distances, 1e-6)
    weights /= weights.sum(1, keepdims=True)
    return np.einsum("qk,qkd->qd", weights, layout[rows]).astype(np.float32)
