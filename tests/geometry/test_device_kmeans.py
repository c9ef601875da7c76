"""k-means on another device: the passes of PyTorch against those of faiss, from the same first centroids."""

import numpy as np
import pytest
import torch

from coder_core import cluster, evaluate
from coder_core.geometry import kmeans
from coder_core.geometry.settings import ClusterSettings
from coder_core.training.parts.prototypes import mean_cosine, recluster
from tests.support.run_folders import synthetic, unit, write_embeddings

BY_PYTORCH = "cpu:0"  # the CPU, by the way of another device
CLUSTERS = 12


@pytest.fixture(scope="module")
def embedded():
    """Images in overlapping groups of unequal sizes, with two captions each."""
    random = np.random.default_rng(0)
    group = np.minimum(random.geometric(0.12, 1_500), 20)
    centres = random.standard_normal((21, 24))
    images = unit(centres[group] + 0.6 * random.standard_normal((1_500, 24)))
    owner = np.repeat(np.arange(1_500), 2)
    return images, unit(images[owner] + 0.1 * random.standard_normal((3_000, 24))), owner


def by_faiss(rows, centroids, passes):
    model = kmeans.faiss_kmeans(rows, len(centroids), iterations=passes, seed=0)
    model.train(rows, init_centroids=centroids)
    return np.array(model.centroids)


def test_a_pass_equals_that_of_faiss(embedded, monkeypatch):
    rows = embedded[1]
    start = kmeans.first_centroids(rows, CLUSTERS, seed=3, plus_plus=True)
    for passes in (1, 5):
        actual = kmeans.device_kmeans(rows, start, passes, BY_PYTORCH)
        np.testing.assert_allclose(actual, by_faiss(rows, start, passes), atol=1e-5)
    monkeypatch.setattr(kmeans, "TILE_ELEMENTS", 100 * CLUSTERS)  # several tiles, the last one short
    np.testing.assert_allclose(kmeans.device_kmeans(rows, start, 5, BY_PYTORCH), actual, atol=1e-5)


def test_first_centroids_are_those_of_faiss(embedded):
    """A run of several iterations in one call, which starts by itself, equals one from these centroids."""
    rows = embedded[1]
    for plus_plus in (False, True):
        alone = kmeans.faiss_kmeans(rows, CLUSTERS, iterations=4, seed=5, plus_plus=plus_plus)
        alone.train(rows)
        start = kmeans.first_centroids(rows, CLUSTERS, seed=5, plus_plus=plus_plus)
        np.testing.assert_allclose(by_faiss(rows, start, 4), alone.centroids, atol=1e-5)


def test_an_empty_cluster_takes_over_the_row_that_is_served_worst():
    angles = np.radians([0, 10, 40, 100, 170], dtype=np.float32)
    rows = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], 1))
    centroids = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, -1.0]])
    moved = kmeans.kmeans_pass(rows, centroids)
    # Rows 0 to 2 belong to the first centroid, 3 and 4 to the second; 4 is farthest from its own, then 2
    torch.testing.assert_close(moved[2:], rows[[4, 2]])
    assert torch.atan2(moved[1, 1], moved[1, 0]).rad2deg().item() == pytest.approx(135, abs=1e-3)
    torch.testing.assert_close(moved.norm(dim=1), torch.ones(4))


def test_pairs_get_the_clusters_of_the_cpu(embedded):
    expected = kmeans.cluster_pairs(*embedded, ClusterSettings(CLUSTERS))
    actual = kmeans.cluster_pairs(*embedded, ClusterSettings(CLUSTERS), device=BY_PYTORCH)
    np.testing.assert_allclose(actual.centroids, expected.centroids, atol=1e-4)
    for name in ("image_labels", "text_labels"):
        ours = getattr(actual, name)
        assert ours.dtype == np.int32
        assert (ours == getattr(expected, name)).mean() > 0.999


def test_prototypes_are_clustered_anew_as_on_the_cpu(embedded):
    rows = embedded[1]
    old = kmeans.first_centroids(rows, CLUSTERS, seed=1)
    actual = recluster(rows, old, seed=2, device=BY_PYTORCH)
    expected = recluster(rows, old, seed=2)
    np.testing.assert_allclose(actual, expected, atol=1e-4)
    assert mean_cosine(rows, actual, BY_PYTORCH) == pytest.approx(mean_cosine(rows, expected), abs=1e-6)


def test_the_command_takes_a_device_as_evaluate_does(tmp_path, capsys):
    write_embeddings(tmp_path / "run", *synthetic(12, noise=1.0, per_image=2))
    printed = []
    for command in (cluster.main, evaluate.main):
        assert command([str(tmp_path / "run"), "--device=toaster"]) == 1
        printed.append(capsys.readouterr().err)
    assert "--device: is 'toaster'" in printed[0]
    assert printed[0] == printed[1]
    assert cluster.main([str(tmp_path / "run"), "--clusters=3", f"--device={BY_PYTORCH}"]) == 0
    assert "3 clusters of 24 pairs" in capsys.readouterr().out
