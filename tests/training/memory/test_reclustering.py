"""A full clustering in between, and how its clusters get their old numbers back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from coder_core.training.memory import reclustering
from coder_core.training.memory.prototypes import Prototypes
from coder_core.training.memory.reclustering import (
    match_clusters,
    mean_cosine,
    nearest_centroids,
    recluster,
    spherical_kmeans,
)
from tests.training.memory.test_prototypes import planted


def test_matching_by_hand() -> None:
    """Old 0 shares two pairs with new 1 and one with new 0; old 1 shares two with new 1: 0→0, 1→1 keeps three pairs,
    0→1, 1→0 only two."""
    before = np.array([0, 0, 0, 1, 1])
    after = np.array([1, 1, 0, 1, 1])
    assert match_clusters(before, after, 2).tolist() == [0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_the_exact_matching_keeps_as_many_pairs_as_any(seed: int) -> None:
    random = np.random.default_rng(seed)
    before, after = random.integers(5, size=(2, 30))
    retained = int((match_clusters(before, after, 5)[before] == after).sum())
    best = max(int((np.array(order)[before] == after).sum()) for order in itertools.permutations(range(5)))
    assert retained == best


@pytest.mark.parametrize("exact", [True, False])
def test_a_renumbered_clustering_gets_its_numbers_back(exact: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not exact:
        monkeypatch.setattr(reclustering, "MOST_MATCHED_EXACTLY", 1)
    random = np.random.default_rng(1)
    before = random.integers(30, size=2000)
    order = random.permutation(40)  # ten clusters hold nobody
    actual = match_clusters(before, order[before], 40)
    assert sorted(actual) == list(range(40))
    assert (actual[before] == order[before]).all()


def test_numbers_stay_with_the_groups() -> None:
    """Ten planted groups, centroids a little off: the new ones are better and every pair keeps its number."""
    vectors = planted(500, 10, 16, seed=7, spread=0.1).numpy()
    rough = vectors[:10] + 0.05 * np.random.default_rng(0).normal(size=(10, 16)).astype(np.float32)
    rough /= np.linalg.norm(rough, axis=1, keepdims=True)
    before = nearest_centroids(vectors, rough)
    actual = recluster(vectors, rough, seed=3)
    assert np.linalg.norm(actual, axis=1) == pytest.approx(np.ones(10), abs=1e-5)
    assert (nearest_centroids(vectors, actual) == before).all()
    assert mean_cosine(vectors, actual) > mean_cosine(vectors, rough)


def test_clustering_is_the_same_for_the_same_seed() -> None:
    vectors = planted(300, 6, 8, seed=8).numpy()
    assert np.array_equal(spherical_kmeans(vectors, 6, seed=1), spherical_kmeans(vectors, 6, seed=1))


def test_adopting_another_clustering_counts_all_pairs() -> None:
    vectors = planted(90, 5, 8, seed=9)
    clusters = Prototypes(5, 8, pairs=90, pass_pairs=90)
    clusters.update(vectors, torch.arange(90))
    clusters.update(vectors, torch.arange(90))
    clusters.replace(
        torch.from_numpy(recluster(vectors.numpy(), clusters.centroids.numpy(), seed=0)), vectors
    )
    labels = nearest_centroids(vectors.numpy(), clusters.centroids.numpy())
    assert clusters.labels.tolist() == labels.tolist()
    assert clusters.members.tolist() == np.bincount(labels, minlength=5).tolist()
    assert clusters.weights.tolist() == clusters.members.tolist()
    for k in range(5):
        mean = vectors[labels == k].mean(0)
        assert float(clusters.resultants[k]) == pytest.approx(float(mean.norm()), abs=1e-5)
