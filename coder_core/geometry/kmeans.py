"""Cluster image-caption pairs by spherical k-means (faiss), after training and independently of it.

As in CODER (eq. 7), a sample is one vector v + w for every caption with its image. Every image and every caption then
gets the label of its nearest centroid, which shows where the two modalities disagree.

faiss computes on the CPU. On another device PyTorch does the passes, from the first centroids that faiss draws; the
result is the same up to rounding unless a cluster loses all of its pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.geometry.points import TILE_ELEMENTS, Array, stratified
from coder_core.geometry.settings import ClusterSettings
from coder_core.geometry.text_space import unit_rows

if TYPE_CHECKING:
    from torch import Tensor

CPU = "cpu"
ITERATIONS = 25
MOST_PAIRS_A_CENTROID = 2_048  # with more pairs, a random part gives the centroids; all pairs get labels
SHORTEST_SUM = 1e-12  # a shorter one has no direction


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
    device: str = CPU,
    progress: Progress = silent,
) -> Clustering:
    """Cluster the pairs of a split and label every image and every caption. InputError: more clusters than
    pairs. `images`: (n, D) unit rows. `texts`: (m, D) unit rows. `image_of_text`: (m,). `device`: of the products."""
    if settings.clusters > len(texts):
        problem = f"is {settings.clusters:,} for {len(texts):,} image-caption pairs"
        raise InputError.at("--clusters", problem, "at most one per pair", "ask for fewer clusters")
    progress(0, 1, "adding embeddings of images and captions")
    drawn = stratified((len(texts),), MOST_PAIRS_A_CENTROID * settings.clusters, settings.seed)
    pairs = unit_rows(texts[drawn] + images[np.asarray(image_of_text)[drawn]])
    if device == CPU:
        model = faiss_kmeans(pairs, settings.clusters, iterations=1, seed=settings.seed, plus_plus=True)
        for done in range(ITERATIONS):  # one at a time: faiss reports progress only at the end
            model.train(pairs, init_centroids=model.centroids)
            progress(done + 1, ITERATIONS + 1, f"k-means, pass {done + 1} of {ITERATIONS}")
        means = np.array(model.centroids)
    else:
        start = first_centroids(pairs, settings.clusters, seed=settings.seed, plus_plus=True)
        means = device_kmeans(pairs, start, ITERATIONS, device)
    centroids = unit_rows(means)
    image_labels = nearest_centroid(images, centroids, device)
    text_labels = nearest_centroid(texts, centroids, device)
    return Clustering(centroids, image_labels, text_labels)


def faiss_kmeans(rows: Array, count: int, *, iterations: int, seed: int, plus_plus: bool = False) -> Any:
    """Return faiss's spherical k-means for (n, D) unit rows, all of which it uses, with `count` centroids; its `train`
    runs `iterations`. `plus_plus` starts from k-means++ instead of random rows."""
    import faiss  # a quarter of a second to import

    options = {"init_method": faiss.ClusteringInitMethod_KMEANS_PLUS_PLUS} if plus_plus else {}
    options |= {"min_points_per_centroid": 1, "max_points_per_centroid": len(rows)}
    return faiss.Kmeans(rows.shape[1], count, niter=iterations, spherical=True, seed=seed, **options)


def first_centroids(rows: Array, count: int, *, seed: int, plus_plus: bool = False) -> Array:
    """Return the (K, D) centroids from which `faiss_kmeans` starts."""
    model = faiss_kmeans(rows, count, iterations=0, seed=seed, plus_plus=plus_plus)
    model.train(rows)
    return np.array(model.centroids)


def device_kmeans(rows: Array, centroids: Array, passes: int, device: str) -> Array:
    """Return (K, D) centroids after passes of spherical k-means over (n, D) unit rows, which fit on the device."""
    import torch  # a second to import

    rows_there = torch.from_numpy(rows).to(device)
    means = torch.from_numpy(centroids).to(device)
    for _ in range(passes):
        means = kmeans_pass(rows_there, means)
    return means.cpu().numpy()


def kmeans_pass(rows: Tensor, centroids: Tensor) -> Tensor:
    """Return (K, D) centroids: each is the direction of the sum of its nearest rows, (n, D). A cluster without rows
    takes over the row that is farthest from its centroid, the next such cluster the second farthest, and so on."""
    import torch

    parts = rows.split(max(1, TILE_ELEMENTS // len(centroids)))
    nearest = [(part @ centroids.T).max(1) for part in parts]
    cosines = torch.cat([best.values for best in nearest])
    labels = torch.cat([best.indices for best in nearest])
    sums = torch.zeros_like(centroids).index_add_(0, labels, rows)
    empty = (labels.bincount(minlength=len(centroids)) == 0).nonzero().flatten()
    sums[empty] = rows[cosines.topk(len(empty), largest=False).indices]
    return sums / sums.norm(dim=1, keepdim=True).clamp_min(SHORTEST_SUM)


def nearest_centroid(samples: Array, centroids: Array, device: str = CPU) -> Array:
    """Return (Q,) int32, the centroid with the largest cosine to each of (Q, D) samples."""
    if device != CPU:
        return _device_labels(samples, centroids, device)
    labels = np.empty(len(samples), dtype=np.int32)
    step = max(1, TILE_ELEMENTS // len(centroids))
    for start in range(0, len(samples), step):
        labels[start : start + step] = (np.asarray(samples[start : start + step]) @ centroids.T).argmax(1)
    return labels


def _device_labels(samples: Array, centroids: Array, device: str) -> Array:
    """Return the same, computed by PyTorch on a device."""
    import torch

    columns = torch.from_numpy(centroids).to(device).T
    step = max(1, TILE_ELEMENTS // len(centroids))
    labels = []
    for start in range(0, len(samples), step):
        part = torch.from_numpy(np.array(samples[start : start + step])).to(device)
        labels.append((part @ columns).argmax(1).cpu().numpy())
    return np.concatenate(labels).astype(np.int32)
