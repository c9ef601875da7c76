"""UMAP (McInnes et al. 2018, arXiv:1802.03426) and t-SNE (van der Maaten 2008) by cosine distance, from exact neighbours."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Callable

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.progress import Progress, silent, within
from coder_core.geometry.points import TILE_ELEMENTS, Array

COMPILING = "compiling UMAP: numba takes up to a minute the first time"
GENTLE = 0.5  # learning rate from another layout's start: at 1 whole groups leave the places they were given
_NEIGHBOURS, _COMPILED = 0.15, 0.4  # share of the work after which these phases are over
MOST_POINTS = 6_000
ITERATIONS = 1_000
EXAGGERATION = 12.0  # scikit-learn's own, for a start from nothing
GENTLE_EXAGGERATION = 4.0  # for a start from another layout: 12 tears groups from the places they were given


def nearest(queries: Array, points: Array, count: int, *, progress: Progress = silent) -> tuple[Array, Array]:
    """Find the nearest points of every query by cosine; where queries are the points, each comes first itself, at 0.

    Args:
        queries: (Q, D), points: (N, D) float32 unit rows. count: ≤ N.

    Returns:
        (Q, count) int32 rows and (Q, count) float32 cosine distances 1 − cos ≥ 0, nearest first.
    """
    rows = np.empty((len(queries), count), dtype=np.int32)
    distances = np.empty((len(queries), count), dtype=np.float32)
    step = max(1, TILE_ELEMENTS // max(len(points), 1))
    for start in range(0, len(queries), step):
        scores = np.asarray(queries[start : start + step] @ points.T)
        if queries is points:  # a duplicate must not come before the point itself
            queried = np.arange(len(scores))
            scores[queried, start + queried] = np.inf
        best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        best_scores = np.take_along_axis(scores, best, 1)
        order = np.argsort(-best_scores, axis=1, kind="stable")
        rows[start : start + step] = np.take_along_axis(best, order, 1)
        distances[start : start + step] = np.clip(1.0 - np.take_along_axis(best_scores, order, 1), 0.0, 2.0)
        progress(start + len(scores), len(queries), "looking for every point's nearest neighbours")
    return rows, distances


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
    rows, distances = nearest(points, points, neighbours, progress=within(progress, 0.0, _NEIGHBOURS))
    progress(_NEIGHBOURS, 1, COMPILING)
    with warnings.catch_warnings():
        # UMAP warns of what is intended: one thread because of the seed, no search index beside the neighbours,
        # a random start where the neighbour graph falls into pieces.
        warnings.simplefilter("ignore")
        from umap import UMAP

        fitting, phase = within(progress, _COMPILED, 1.0), "UMAP: moving the points"
        printed = PrintedProgress(r"(\d+)/([1-9]\d*)", lambda done, epochs: fitting(done, epochs, phase))
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


def place_by_neighbours(queries: Array, points: Array, layout: Array, neighbours: int) -> Array:
    """Place points that were not fitted at the mean of their nearest fitted ones, weighted by 1 / distance.

    UMAP's own `transform` starts there. Args: queries (Q, D), points (N, D) unit rows, layout (N, 2).
    """
    rows, distances = nearest(queries, points, neighbours)
    weights = 1.0 / np.maximum(distances, 1e-6)
    weights /= weights.sum(1, keepdims=True)
    return np.einsum("qk,qkd->qd", weights, layout[rows]).astype(np.float32)


def usable_perplexity(perplexity: float, points: int) -> float:
    """At most a third of the other points: beyond, the neighbourhoods are the whole cloud; from n on it is an error."""
    return max(1.0, min(perplexity, (points - 1) / 3))


def tsne(
    points: Array, *, perplexity: float, seed: int, init: Array | None = None, progress: Progress = silent
) -> Array:
    """A t-SNE layout by cosine distance.

    Args:
        points: (N, D) float32, N ≤ 6,000. perplexity: see `usable_perplexity`.
        init: (N, 2) finished layout to start from, at its own size; None starts from the principal plane.

    Returns:
        (N, 2) float32.

    Raises:
        InputError: more points than scikit-learn's t-SNE handles in reasonable time.
    """
    if len(points) > MOST_POINTS:
        way_out = "take UMAP or PCA, which take any number"
        raise InputError.at("t-SNE", f"has {len(points):,} points", f"at most {MOST_POINTS:,}", way_out)
    from sklearn.manifold import TSNE  # a second to import

    start = "pca" if init is None else np.asarray(init - np.mean(init, axis=0), dtype=np.float32)
    model = TSNE(
        metric="cosine",
        perplexity=perplexity,
        init=start,
        random_state=seed,
        max_iter=ITERATIONS,
        verbose=2,
        n_jobs=1,
        early_exaggeration=EXAGGERATION if init is None else GENTLE_EXAGGERATION,
    )
    progress(0, 1, "t-SNE: looking for neighbours")
    phase = "t-SNE: moving the points"
    printed = PrintedProgress(r"Iteration (\d+)", lambda done: progress(done, ITERATIONS, phase))
    with contextlib.redirect_stdout(printed):
        return np.asarray(model.fit_transform(points), dtype=np.float32)


class PrintedProgress(io.TextIOBase):
    """A stream that finds numbers in what is printed to it and reports them.

    Args:
        pattern: of a progress message, its numbers in groups.
        report: called with these numbers.
    """

    def __init__(self, pattern: str, report: Callable[..., None]) -> None:
        self._pattern, self._report = re.compile(pattern), report

    def write(self, text: str) -> int:
        match = self._pattern.search(text)
        if match:
            self._report(*map(int, match.groups()))
        return len(text)
