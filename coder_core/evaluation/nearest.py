"""Find most of the nearest rows of many queries without all of their products.

All products of n queries and n rows are quadratic. Above `COMPARED_PAIRS` of them, an index of faiss proposes the rows: it
sorts them into 4√n lists by their nearest centroid, and compares a query with the centroids and with the rows of the
lists nearest to it, some 65,536 rows. So a query costs 65,536 + 4√n products of rows, 69,536 instead of a million. The
products themselves are those of the whole rows: a row that is found has its own score, and one that is missed scores
lower than most. The index holds a copy of the rows. Uses only NumPy and faiss, so that the app need not load torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from coder_core.evaluation.sources import Array, EmbeddingPair, Source, slices

COMPARED_PAIRS = (
    40_000_000_000  # 200,000 × 200,000; up to here computing all products takes no longer than the index
)
COMPARED = 65_536  # rows that a query is compared with
LISTS = 4  # lists for every √n
DRAWN = 40  # rows for every list that its centroid is computed from
ITERATIONS = 6  # of k-means
SEARCHED = 4_096  # queries at once
BY_INDEX = (
    "more than 4·10¹⁰ pairs: an index proposed the most similar ones, and may have missed a few. It finds about 99% of the ten "
    "nearest among 500,000 captions or images, 96% among a million and 90% among two million"
)
"""What a message says where an index replaced the comparison of all pairs. The shares were measured on Flickr8k's dev
split, where a query was compared with as large a part of the captions."""


def too_many(queries: int, rows: int) -> bool:
    """True if not all products of queries and rows are computed.

    >>> too_many(200_000, 200_000), too_many(200_001, 200_000)
    (False, True)
    """
    return queries * rows > COMPARED_PAIRS


class NearestRows:
    """Index of (n, D) rows that finds most of those with the largest inner products with a query.

    >>> NearestRows(np.eye(3)).search(np.array([[0.5, 0.0, 1.0]]), 2)[1]
    array([[2, 0]])
    """

    def __init__(self, rows: Array) -> None:
        import faiss  # half a second to import

        count, width = rows.shape
        flat = faiss.IndexFlatIP(width)
        if count <= COMPARED:
            self._index: Any = flat
        else:
            lists = round(LISTS * count**0.5)
            self._index = faiss.IndexIVFFlat(flat, width, lists, faiss.METRIC_INNER_PRODUCT)
            self._index.nprobe = max(1, round(COMPARED * lists / count))
            self._index.cp.spherical = True
            self._index.cp.niter = ITERATIONS
            self._index.cp.min_points_per_centroid = 1
            self._index.cp.max_points_per_centroid = DRAWN
            drawn = np.random.default_rng(0).choice(count, min(count, DRAWN * lists), replace=False)
            self._index.train(_float32(rows[np.sort(drawn)]))
        for part in slices(count, COMPARED):
            self._index.add(_float32(rows[part]))

    def search(self, queries: Array, count: int) -> tuple[Array, Array]:
        """Return (Q, count) float32 inner products, the largest first, and (Q, count) int64 numbers of their rows; −∞ and
        −1 where fewer rows were found."""
        products, numbers = self._index.search(_float32(queries), count)
        products[numbers < 0] = -np.inf
        return products, numbers

    def blocks(self, queries: Array, count: int) -> Iterator[tuple[slice, Array, Array]]:
        """Yield the results of some queries at a time, after their rows."""
        for part in slices(len(queries), SEARCHED):
            yield part, *self.search(queries[part], count)


def _float32(rows: Any) -> Array:
    return np.ascontiguousarray(rows, np.float32)


def joined(sources: Sequence[EmbeddingPair]) -> tuple[Array, Array]:
    """Return (n, D) and (m, D): rows whose inner products are the sums of the sources' scores.

    >>> images, texts = joined([EmbeddingPair(np.eye(2), np.eye(2)), EmbeddingPair(np.ones((2, 1)), np.ones((2, 1)), 0.5)])
    >>> images @ texts.T
    array([[1.5, 0.5],
           [0.5, 1.5]])
    """
    images = [_weighed(_numpy(pair.image), pair.weight) for pair in sources]
    texts = [_numpy(pair.text) for pair in sources]
    if len(sources) == 1:
        return images[0], texts[0]
    return np.concatenate(images, axis=1), np.concatenate(texts, axis=1)


def _weighed(rows: Array, weight: float) -> Array:
    return rows if weight == 1 else rows * np.asarray(weight, rows.dtype)


def _numpy(rows: Any) -> Array:
    return np.asarray(rows.cpu() if hasattr(rows, "cpu") else rows)


def of_embeddings(sources: Sequence[Source]) -> list[EmbeddingPair]:
    """Return sources that are all embeddings. ValueError: one is a matrix of scores.

    >>> len(of_embeddings([EmbeddingPair(np.eye(2), np.eye(2))]))
    1
    """
    pairs = [source for source in sources if isinstance(source, EmbeddingPair)]
    if len(pairs) < len(sources):
        raise ValueError("a matrix of scores has no rows to search")
    return pairs
