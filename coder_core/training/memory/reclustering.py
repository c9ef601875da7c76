"""Re-cluster all pairs between two epochs, keeping the prototypes' numbers.

A full spherical k-means (faiss) finds better centroids than the on-line means, in arbitrary order. Each takes the
number of the old prototype it shares most pairs with, because row k of the classifier has learned prototype k.
"""

from __future__ import annotations

import numpy as np

ITERATIONS = 10  # of each start
MOST_MATCHED_EXACTLY = 2048  # the Hungarian method takes seconds there, and grows with the cube


def spherical_kmeans(
    vectors: np.ndarray, count: int, *, seed: int, start: np.ndarray | None = None
) -> np.ndarray:
    """(K, D) float32 unit centroids of (pairs, D) unit vectors, from a random start or from (K, D) centroids."""
    import faiss  # a quarter of a second to import

    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    means = faiss.Kmeans(
        vectors.shape[1],
        count,
        niter=ITERATIONS,
        spherical=True,
        seed=seed,
        min_points_per_centroid=1,
        max_points_per_centroid=len(vectors),
    )
    means.train(vectors, init_centroids=start)
    return np.asarray(means.centroids, dtype=np.float32)


def nearest_centroids(vectors: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """(pairs,) int64, the centroid with the largest cosine."""
    import faiss

    index = faiss.IndexFlatIP(centroids.shape[1])
    index.add(np.ascontiguousarray(centroids, dtype=np.float32))
    return index.search(np.ascontiguousarray(vectors, dtype=np.float32), 1)[1][:, 0].astype(np.int64)


def mean_cosine(vectors: np.ndarray, centroids: np.ndarray) -> float:
    """Mean cosine of a pair to its nearest centroid."""
    return float(np.einsum("nd,nd->n", vectors, centroids[nearest_centroids(vectors, centroids)]).mean())


def match_clusters(before: np.ndarray, after: np.ndarray, count: int) -> np.ndarray:
    """Give each old number to a new cluster, so that as many pairs as possible keep their number.

    Up to 2,048 clusters the optimal matching (Hungarian method); above, greedily by shared pairs.

    Args:
        before, after: (pairs,) labels under the old and under the new centroids, from 0 to count - 1.
        count: K.

    Returns:
        (K,) int64, a permutation: old number k goes to new cluster result[k].
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
    for overlap_index in np.argsort(-times, kind="stable"):
        k, cluster = old[overlap_index], new[overlap_index]
        if new_of_old[k] < 0 and is_free[cluster]:
            new_of_old[k] = cluster
            is_free[cluster] = False
    new_of_old[new_of_old < 0] = np.flatnonzero(is_free)
    return new_of_old


def recluster(vectors: np.ndarray, centroids: np.ndarray, *, seed: int) -> np.ndarray:
    """(K, D) new centroids of all pairs, numbered as the old ones: the better of a random start and the old centroids.

    Args:
        vectors: (pairs, D) unit rows.
        centroids: (K, D) old centroids, unit rows.
        seed: of faiss.
    """
    count = len(centroids)
    candidates = [spherical_kmeans(vectors, count, seed=seed, start=start) for start in (None, centroids)]
    best = max(candidates, key=lambda means: mean_cosine(vectors, means))
    return best[
        match_clusters(nearest_centroids(vectors, centroids), nearest_centroids(vectors, best), count)
    ]
