"""t-SNE by scikit-learn: neighbours stay neighbours, distances between groups mean little. van der Maaten 2008."""

from __future__ import annotations

import contextlib

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.geometry.points import Array
from coder_core.geometry.printed_progress import PrintedProgress

MOST_POINTS = 6_000
ITERATIONS = 1_000
EXAGGERATION = 12.0  # scikit-learn's own, for a start from nothing
GENTLE_EXAGGERATION = 4.0  # for a start from another layout: 12 tears groups from the places they were given


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
        raise InputError(Fault("t-SNE", f"has {len(points):,} points", f"at most {MOST_POINTS:,}", way_out))
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
    printed = PrintedProgress(
        r"Iteration (\d+)", lambda done: progress(done, ITERATIONS, "t-SNE: moving the points")
    )
    with contextlib.redirect_stdout(printed):
        return np.asarray(model.fit_transform(points), dtype=np.float32)
