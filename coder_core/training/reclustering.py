"""Clustering of all pairs between two epochs, with the prototypes' numbers kept. docs/equations.md 1.6."""

import numpy as np

from coder_core.geometry.kmeans import faiss_kmeans, nearest_centroid

ITERATIONS = 10  # of each start
MOST_MATCHED_EXACTLY = 2048  # the Hungarian method takes seconds there, and grows with the cube


def recluster(vectors: np.ndarray, centroids: np.ndarray, *, seed: int) -> np.ndarray:
    """Return (K, D) new centroids of all pairs with the old numbers: the better of a random start and the old ones.

    Args:
        vectors: (pairs, D) unit rows.
        centroids: (K, D) old centroids, unit rows.
        seed: of faiss.
    """
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    candidates = []
    for start in (None, centroids):
        model = faiss_kmeans(vectors, len(centroids), iterations=ITERATIONS, seed=seed)
        model.train(vectors, init_centroids=start)
        candidates.append(np.asarray(model.centroids, dtype=np.float32))
    best = max(candidates, key=lambda means: mean_cosine(vectors, means))
    before, after = nearest_centroid(vectors, centroids), nearest_centroid(vectors, best)
    return best[match_clusters(before, after, len(centroids))]


def mean_cosine(vectors: np.ndarray, centroids: np.ndarray) -> float:
    """Return the mean cosine of a pair to its nearest centroid."""
    return float(np.einsum("nd,nd->n", vectors, centroids[nearest_centroid(vectors, centroids)]).mean())


def match_clusters(before: np.ndarray, after: np.ndarray, count: int) -> np.ndarray:
    """Give each old number to a new cluster, so that as many pairs as possible keep their number.

    `before` and `after` are the (pairs,) labels under K old and new centroids. Up to 2,048 clusters the matching is
    optimal (Hungarian method); above, greedy by shared pairs. Returns (K,) int64, a permutation: old number k goes to
    new cluster result[k].
    """
    shared, times = np.unique(before.astype(np.int64) * count + after, return_counts=True)
    old, new = np.divmod(shared, count)
    if count <= MOST_MATCHED_EXACTLY:
        from scipy.optimize import linear_sum_assignment

        overlap = np.zeros((count, count), dtype=np.float32)
        overlap[old, new] = times
        return linear_sum_assignment(overlap, maximize=True)[1].astype(np.int64)
    new_of_old = np.full(count, -1, dtype=np.int64)
    is_free = np.ones(count, dtype=bool)
    for row in np.argsort(-times, kind="stable"):
        if new_of_old[old[row]] < 0 and is_free[new[row]]:
            new_of_old[old[row]] = new[row]
            is_free[new[row]] = False
    new_of_old[new_of_old < 0] = np.flatnonzero(is_free)
    return new_of_old
