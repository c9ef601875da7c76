"""Cluster image-caption pairs by spherical k-means (faiss), after training and independently of it.

As in CODER (eq. 7), a sample is one vector v + w for every caption with its image. Every image and every caption then
gets the label of its nearest centroid, which shows where the two modalities disagree.
"""

from typing import Any, NamedTuple

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.geometry.points import TILE_ELEMENTS, Array, stratified
from coder_core.geometry.settings import ClusterSettings
from coder_core.geometry.text_space import unit_rows

ITERATIONS = 25
MOST_PAIRS_A_CENTROID = 2_048  # with more pairs, a random part gives the centroids; all pairs get labels


class Clustering(NamedTuple):
    """K clusters of a split."""

    centroids: Array  # (K, D) float32 unit rows
    image_labels: Array  # (n,) int32, the nearest centroid
    text_labels: Array  # (m,) int32, likewise


def cluster_pairs(
    images: Array,
    texts: Array,
    image_of_text: Array,
    settings: ClusterSettings,
    *,
    progress: Progress = silent,
) -> Clustering:
    """Cluster the pairs of a split and label every image and every caption. InputError: more clusters than
    pairs. `images`: (n, D) unit rows. `texts`: (m, D) unit rows. `image_of_text`: (m,)."""
    if settings.clusters > len(texts):
        problem = f"is {settings.clusters:,} for {len(texts):,} image-caption pairs"
        raise InputError.at("--clusters", problem, "at most one per pair", "ask for fewer clusters")
    progress(0, 1, "adding embeddings of images and captions")
    drawn = stratified((len(texts),), MOST_PAIRS_A_CENTROID * settings.clusters, settings.seed)
    pairs = unit_rows(texts[drawn] + images[np.asarray(image_of_text)[drawn]])
    model = faiss_kmeans(pairs, settings.clusters, iterations=1, seed=settings.seed, plus_plus=True)
    for done in range(ITERATIONS):  # one at a time: faiss reports progress only at the end
        model.train(pairs, init_centroids=model.centroids)
        progress(done + 1, ITERATIONS + 1, f"k-means, pass {done + 1} of {ITERATIONS}")
    centroids = unit_rows(np.array(model.centroids))
    return Clustering(centroids, nearest_centroid(images, centroids), nearest_centroid(texts, centroids))


def faiss_kmeans(rows: Array, count: int, *, iterations: int, seed: int, plus_plus: bool = False) -> Any:
    """Return faiss's spherical k-means for (n, D) unit rows, all of which it uses, with `count` centroids; its `train`
    runs `iterations`. `plus_plus` starts from k-means++ instead of random rows."""
    import faiss  # a quarter of a second to import

    options = {"init_method": faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS} if plus_plus else {}
    options |= {"min_points_per_centroid": 1, "max_points_per_centroid": len(rows)}
    return faiss.Kmeans(rows.shape[1], count, niter=iterations, spherical=True, seed=seed, **options)


def nearest_centroid(samples: Array, centroids: Array) -> Array:
    """Return (Q,) int32, the centroid with the largest cosine to each of (Q, D) samples."""
    labels = np.empty(len(samples), dtype=np.int32)
    step = max(1, TILE_ELEMENTS // len(centroids))
    for start in range(0, len(samples), step):
        labels[start : start + step] = (np.asarray(samples[start : start + step]) @ centroids.T).argmax(1)
    return labels
