"""Offline clusters of pairs: planted groups are found, labels are the nearest centroids."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.geometry.kmeans import cluster_pairs, nearest_centroid
from coder_core.geometry.settings import ClusterSettings
from tests.geometry.test_layout import cloud


def test_planted_groups_are_found() -> None:
    points = cloud(30, groups=3)
    said: list[float] = []
    found = cluster_pairs(
        points.images,
        points.texts,
        np.repeat(np.arange(30), 2),
        ClusterSettings(3),
        progress=lambda done, total, phase: said.append(done / total),
    )
    for group in range(3):
        members = found.image_labels[np.arange(30) % 3 == group]
        assert len(set(members.tolist())) == 1
    assert len(set(found.image_labels.tolist())) == 3
    np.testing.assert_array_equal(np.repeat(found.image_labels, 2), found.text_labels)
    np.testing.assert_allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-5)
    assert said == sorted(said)


def test_labels_are_the_nearest_centroids_tile_by_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder_core.geometry.kmeans.TILE_ELEMENTS", 40)
    points = cloud()
    centroids = points.images[:7]
    np.testing.assert_array_equal(
        nearest_centroid(points.texts, centroids), (points.texts @ centroids.T).argmax(1)
    )


def test_more_clusters_than_pairs_is_refused() -> None:
    points = cloud(4)
    with pytest.raises(InputError, match="at most one for every pair"):
        cluster_pairs(points.images, points.texts, np.repeat(np.arange(4), 2), ClusterSettings(9))
    with pytest.raises(InputError, match="--clusters"):
        ClusterSettings(1)
