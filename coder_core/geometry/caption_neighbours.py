"""Find every caption's nearest captions in a text space, with faiss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coder_core.console.progress import Progress, silent

EXACT_BELOW = 50_000  # captions; an index buys nothing below (and costs recall above)
ROWS_AT_ONCE = 1024
HNSW_LINKS, HNSW_BUILD, HNSW_SEARCH = 32, 80, 512


def caption_neighbours(
    vectors: np.ndarray,
    image_of_text: np.ndarray,
    count: int,
    *,
    exact: bool | None = None,
    progress: Progress = silent,
) -> np.ndarray:
    """Find the nearest captions of other images, nearest first.

    A zero row, a caption without a known word, has no neighbours and is no neighbour.

    Args:
        vectors: (m, S) float32 unit rows.
        image_of_text: (m,) the image of every caption; it and its image's other captions are left out.
        count: N.
        exact: inner products with all captions, or HNSW; None takes HNSW from 50,000 captions on.
        progress: called with captions done and captions in all.

    Returns:
        (m, N) int32 rows; −1 where a caption has fewer than N.
    """
    neighbours = np.full((len(vectors), count), -1, np.int32)
    nonzero = np.flatnonzero(vectors.any(1))
    if not len(nonzero):
        return neighbours
    points, owner = np.ascontiguousarray(vectors[nonzero]), image_of_text[nonzero]
    most_own = int(np.unique(owner, return_counts=True)[1].max())
    wanted = min(count + most_own, len(points))
    exact = len(vectors) < EXACT_BELOW if exact is None else exact
    total = len(points) if exact else 2 * len(points)
    index = _index(points, exact, max(HNSW_SEARCH, 2 * wanted), lambda done: progress(done, total))
    for start in range(0, len(points), ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, len(points)))
        nearest = index.search(points[rows], wanted)[1]
        own = (nearest < 0) | (owner[nearest] == owner[rows, None])
        order = np.argsort(own, axis=1, kind="stable")[
            :, :count
        ]  # other images' captions first, in their order
        chosen = nonzero[np.take_along_axis(nearest, order, 1)]
        chosen[np.take_along_axis(own, order, 1)] = -1
        neighbours[nonzero[rows], : chosen.shape[1]] = chosen
        progress(total - len(points) + rows.stop, total)
    return neighbours


def _index(points: np.ndarray, exact: bool, search: int, report: Callable[[int], None]) -> Any:
    import faiss

    if exact:
        flat = faiss.IndexFlatIP(points.shape[1])
        flat.add(points)
        return flat
    index = faiss.IndexHNSWFlat(points.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = HNSW_BUILD, search
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # several threads link the graph in another order every time
    try:
        for start in range(0, len(points), ROWS_AT_ONCE):
            index.add(points[start : start + ROWS_AT_ONCE])
            report(min(start + ROWS_AT_ONCE, len(points)))
    finally:
        faiss.omp_set_num_threads(threads)
    return index
