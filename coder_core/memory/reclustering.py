"""All pairs clustered at once, between two epochs, without the prototypes losing their numbers.

The on-line means follow the embeddings but never start over. A full k-means (faiss, spherical) finds better centroids,
in an arbitrary order; matching gives each the number of the old prototype it shares most pairs with, because row k of
the classifier has learned prototype k.
"""

from __future__ import annotations

import faiss
import numpy as np
from scipy.optimize import linear_sum_assignment

ITERATIONS = 10  # of each start
MOST_MATCHED_EXACTLY = 2048  # the Hungarian method takes seconds there, and grows with the cube


def cluster(vectors: np.ndarray, count: int, *, seed: int, start: np.ndarray | None = None) -> np.ndarray:
    """(K, D) float32 unit centroids of (pairs, D) unit `vectors`, by spherical k-means on all of them.

    Args:
        vectors: (pairs, D).
        count: K.
        seed: of the random start.
        start: (K, D) centroids to start from instead.
    """
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    means = faiss.Kmeans(
        vectors.shape[1], count, niter=ITERATIONS, spherical=True, seed=seed, min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),
    )  # fmt: skip
    means.train(vectors, init_centroids=start)
    return np.asarray(means.centroids, dtype=np.float32)


def nearest(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """(pairs,) int64: the centroid with the largest cosine."""
    index = faiss.IndexFlatIP(centroids.shape[1])
    index.add(np.ascontiguousarray(centroids, dtype=np.float32))
    return index.search(np.ascontiguousarray(vectors, dtype=np.float32), 1)[1][:, 0].astype(np.int64)


def fit(vectors: np.ndarray, centroids: np.ndarray) -> float:
    """Mean cosine of a pair to its centroid."""
    return float(np.einsum("nd,nd->n", vectors, centroids[nearest(vectors, centroids)]).mean())


def match(before: np.ndarray, after: np.ndarray, count: int) -> np.ndarray:
    """Which new cluster takes each old number, so that as many pairs as possible keep theirs.

    Up to 2,048 clusters the best matching there is (Hungarian method on the shared pairs); above, greedily by shared
    pairs, most first, and what is left over in order.

    Args:
        before, after: (pairs,) labels under the old and under the new centroids, from 0 to count - 1.
        count: K.

    Returns:
        (K,) int64: old number k goes to new cluster result[k]; every cluster once.
    """
    shared, times = np.unique(before.astype(np.int64) * count + after, return_counts=True)
    old, new = np.divmod(shared, count)
    if count <= MOST_MATCHED_EXACTLY:
        overlap = np.zeros((count, count), dtype=np.float32)
        overlap[old, new] = times
        return linear_sum_assignment(overlap, maximize=True)[1].astype(np.int64)
    found = np.full(count, -1, dtype=np.int64)
    free = np.ones(count, dtype=bool)
    for place in np.argsort(-times, kind="stable"):
        if found[old[place]] < 0 and free[new[place]]:
            found[old[place]] = new[place]
            free[new[place]] = False
    found[found < 0] = np.flatnonzero(free)
    return found


def recluster(vectors: np.ndarray, centroids: np.ndarray, *, seed: int) -> np.ndarray:
    """(K, D) new centroids of all pairs, numbered as the old ones.

    The better of two clusterings: a fresh start, and going on from the old centroids (which is never worse than they
    are).

    Args:
        vectors: (pairs, D) unit rows.
        centroids: (K, D) unit rows before.
        seed: of faiss.
    """
    count = len(centroids)
    fresh = cluster(vectors, count, seed=seed)
    found = max(fresh, cluster(vectors, count, seed=seed, start=centroids), key=lambda means: fit(vectors, means))
    return found[match(nearest(vectors, centroids), nearest(vectors, found), count)]
