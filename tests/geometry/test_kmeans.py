"""Offline clusters of pairs: planted groups are found, labels are the nearest centroids."""

from __future__ import annotations

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.geometry.kmeans import cluster_pairs, nearest_centroid
from coder_core.geometry.settings import ClusterSettings
from tests.geometry.test_layout import cloud


def test_planted_groups_are_found() -> None:
    points, owner, shares = cloud(), np.repeat(np.arange(30), 2), list[float]()
    clusters = cluster_pairs(
        *(points.images, points.texts, owner, ClusterSettings(3)),
        progress=lambda done, total, phase: shares.append(done / total),
    )
    labels = [set(clusters.image_labels[np.arange(30) % 3 == group].tolist()) for group in range(3)]
    assert [len(group) for group in labels] == [1, 1, 1]
    assert len(set.union(*labels)) == 3
    np.testing.assert_array_equal(clusters.image_labels[owner], clusters.text_labels)
    np.testing.assert_allclose(np.linalg.norm(clusters.centroids, axis=1), 1, atol=1e-5)
    assert shares == sorted(shares)


def test_labels_are_the_nearest_centroids_tile_by_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coder_core.geometry.kmeans.TILE_ELEMENTS", 40)
    points = cloud()
    expected = (points.texts @ points.images[:7].T).argmax(1)
    np.testing.assert_array_equal(nearest_centroid(points.texts, points.images[:7]), expected)


def test_more_clusters_than_pairs_is_refused() -> None:
    points = cloud(4)
    with pytest.raises(InputError, match="--clusters: is 9 for 8"):
        cluster_pairs(points.images, points.texts, np.repeat(np.arange(4), 2), ClusterSettings(9))
    with pytest.raises(InputError, match="--clusters"):
        ClusterSettings(1)
