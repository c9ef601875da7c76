"""Compare captions in a text space independent of any model: similarity to other images' captions, nearest captions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.geometry.text_space import TfidfSpace, fit_tfidf

SPACE_SIZE = 256  # components of the TF-IDF space
LIKE = 0.5
"""Cosine from which a caption is taken to fit another image. Of Flickr8k's dev captions 59% are this similar to another
caption of their own image, and 0.6% to one of a random other image; the median caption fits four other images."""
TILE_ELEMENTS = 8_388_608  # 32 MiB of float32
EXACT_BELOW = 50_000  # captions; below, an index saves no time (above, it costs recall)
ROWS_AT_ONCE = 1024
TIE_DECIMALS = 6  # of cosines that count as equal
MORE_FOR_TIES = 32  # candidates beyond the needed ones, among which ties are put in order
HNSW_LINKS = 32
HNSW_BUILD = 80
HNSW_SEARCH = 512


def caption_space(captions: Sequence[str], size: int = SPACE_SIZE) -> TfidfSpace | None:
    """Fit a TF-IDF space of `size` components to these captions; None if they share no words."""
    try:
        return fit_tfidf(captions, size)
    except InputError:
        return None


def caption_vectors(captions: Sequence[str]) -> np.ndarray | None:
    """Encode captions as (m, S) float32 unit rows of a TF-IDF space fitted to them; None if they share no words."""
    space = caption_space(captions)
    return None if space is None else space.encode(captions)


def largest_cosine(vectors: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return (P,) the largest cosine between a caption of `first` (P, a) and one of `second` (P, b); −1 if either has no
    caption. Captions are rows of `vectors` (m, S), padded with −1."""
    cosines = np.einsum("pad,pbd->pab", vectors[first], vectors[second])
    missing = (first < 0)[:, :, None] | (second < 0)[:, None, :]
    return np.asarray(np.where(missing, -1, cosines).max((1, 2)))


def fitting_images(vectors: np.ndarray, image_of_text: np.ndarray, likeness: float = LIKE) -> np.ndarray:
    """Count the OTHER images with a caption at least this similar to each caption: (m,) int64, tile by tile.

    The count estimates how ambiguous a caption is. It compares words, not pictures: "a dog" is similar to few
    long captions, though it fits every dog. `vectors`: (m, S) unit rows. `image_of_text`: (m,). `likeness`: a
    cosine.
    """
    order = np.argsort(image_of_text, kind="stable")
    owner, starts = np.unique(image_of_text[order], return_index=True)
    ordered = np.ascontiguousarray(vectors[order].T)
    counts = np.zeros(len(vectors), np.int64)
    step = max(1, TILE_ELEMENTS // max(len(vectors), 1))
    for start in range(0, len(vectors), step):
        rows = slice(start, start + step)
        nearest = np.maximum.reduceat(vectors[rows] @ ordered, starts, axis=1)  # (rows, images with captions)
        fits = nearest >= likeness
        counts[rows] = (fits & (owner != image_of_text[rows, None])).sum(1)
    return counts


def caption_neighbours(
    vectors: np.ndarray, image_of_text: np.ndarray, count: int, *, progress: Progress = silent
) -> np.ndarray:
    """Find the `count` nearest captions of other images among (m, S) float32 unit rows, exactly or, from 50,000 captions
    on, by HNSW. Return (m, count) int32 rows, nearest first; −1 where a caption has fewer.

    A zero row, a caption without a known word, has no neighbours and is not a neighbour.
    """
    neighbours = np.full((len(vectors), count), -1, np.int32)
    nonzero = np.flatnonzero(vectors.any(1))
    if not len(nonzero):
        return neighbours

    points = np.ascontiguousarray(vectors[nonzero])
    owner = image_of_text[nonzero]
    most_of_one_image = int(np.unique(owner, return_counts=True)[1].max())
    candidates = min(count + most_of_one_image + MORE_FOR_TIES, len(points))
    exact = len(vectors) < EXACT_BELOW
    total = len(points) if exact else 2 * len(points)
    index = _index(points, exact, max(HNSW_SEARCH, 2 * candidates), lambda done: progress(done, total))
    for start in range(0, len(points), ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, len(points)))
        nearest = _ties_in_order(points, rows, index.search(points[rows], candidates)[1])
        same_image = (nearest < 0) | (owner[nearest] == owner[rows, None])
        order = np.argsort(same_image, axis=1, kind="stable")[:, :count]  # those of other images first
        best = nonzero[np.take_along_axis(nearest, order, 1)]
        best[np.take_along_axis(same_image, order, 1)] = -1
        neighbours[nonzero[rows], : best.shape[1]] = best
        progress(total - len(points) + rows.stop, total)

    return neighbours


def _ties_in_order(points: np.ndarray, rows: slice, nearest: np.ndarray) -> np.ndarray:
    """Sort the nearest points (rows, candidates) by cosine, equal cosines by their number; −1, for none, stays last.

    The index breaks ties by rounding, which differs between processors; captions of the same words tie often.
    """
    cosines = np.einsum("rd,rcd->rc", points[rows], points[nearest], dtype=np.float64)
    rounded = np.where(nearest < 0, -np.inf, np.round(cosines, TIE_DECIMALS))
    order = np.lexsort((nearest, -rounded), axis=1)
    return np.take_along_axis(nearest, order, axis=1)


def _index(points: np.ndarray, exact: bool, search: int, report: Callable[[int], None]) -> Any:
    import faiss

    if exact:
        flat = faiss.IndexFlatIP(points.shape[1])
        flat.add(points)
        return flat
    index = faiss.IndexHNSWFlat(points.shape[1], HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = HNSW_BUILD
    index.hnsw.efSearch = search
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)  # with several threads the graph differs from run to run
    try:
        for start in range(0, len(points), ROWS_AT_ONCE):
            index.add(points[start : start + ROWS_AT_ONCE])
            report(min(start + ROWS_AT_ONCE, len(points)))
    finally:
        faiss.omp_set_num_threads(threads)
    return index
