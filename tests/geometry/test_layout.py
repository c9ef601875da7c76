"""Layouts and clusters: PCA against NumPy, exact neighbours, alignment, clamping, and what cannot be laid out."""

from typing import get_args

import numpy as np
import pytest

from coder_core.geometry import kmeans, landmarks
from coder_core.geometry import layout as layouts
from coder_core.geometry import points as clouds
from coder_core.geometry.landmarks import place_others, surviving_neighbours
from coder_core.geometry.layout import (
    MEASURED,
    STARTING,
    lay_out,
    layout_seconds,
    nearest,
    nearly_nearest,
    onto,
)
from coder_core.geometry.points import Points
from coder_core.geometry.settings import ClusterSettings, LayoutSettings, Method
from tests.support.precomp_folders import assert_refused
from tests.support.run_folders import unit

TILE = "TILE_ELEMENTS"


def cloud(images=30, groups=3, width=12, seed=0):
    """Return points in distant groups; every image has two captions near it."""
    rng = np.random.default_rng(seed)
    centres = 4 * rng.normal(size=(groups, width))
    v = centres[np.arange(images) % groups] + 0.5 * rng.normal(size=(images, width))
    return Points(unit(v), unit(np.repeat(v, 2, axis=0) + 0.2 * rng.normal(size=(2 * images, width))))


def together(points):
    return np.concatenate([points.images, points.texts])


def settings(method, **values):
    return LayoutSettings(method, neighbours=8, perplexity=10, **values)


def share_with_their_group(plane):
    """Return the share of the points of `cloud` that are nearest to their own group's centre."""
    image = np.arange(len(plane) // 3)
    group = np.concatenate([image, np.repeat(image, 2)]) % 3
    centres = np.stack([plane[group == number].mean(0) for number in range(3)])
    return float((np.linalg.norm(plane[:, None] - centres[None], axis=2).argmin(1) == group).mean())


def test_the_principal_plane_matches_an_svd(monkeypatch):
    points = cloud()
    monkeypatch.setattr(clouds, TILE, 7 * points.width)  # several tiles, the last ones short
    plane, shares = layouts.principal_plane(points)
    centred = together(points).astype(np.float64)
    centred -= centred.mean(0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    expected = centred @ right[:2].T
    expected *= np.sign((expected * plane).sum(0))
    np.testing.assert_allclose(plane, expected, atol=1e-5)
    np.testing.assert_allclose(shares, singular[:2] ** 2 / (singular**2).sum(), atol=1e-6)
    line = np.array([[1.0], [-1.0]], np.float32)  # one dimension
    plane, shares = layouts.principal_plane(Points(line, line))
    np.testing.assert_allclose(plane, [[1, 0], [-1, 0], [1, 0], [-1, 0]], atol=1e-6)
    assert shares == (1.0, 0.0)


def test_nearest_neighbours_match_the_full_matrix_and_place_new_points(monkeypatch):
    rows = together(cloud())
    rows[5] = rows[3]  # a duplicate, which must not come before the point itself
    monkeypatch.setattr(layouts, TILE, 11 * len(rows))
    neighbours, distances = nearest(rows, rows, 6)
    assert (neighbours[:, 0] == np.arange(len(rows))).all()
    everything = np.clip(1 - rows.astype(np.float64) @ rows.T, 0, 2)
    np.fill_diagonal(everything, 0)
    np.testing.assert_allclose(distances, np.sort(everything, 1)[:, :6], atol=1e-6)
    assert not distances[:, 0].any()
    _, apart = nearest(rows[:4], rows[10:], 3)
    np.testing.assert_allclose(apart, np.sort(1 - rows[:4] @ rows[10:].T, 1)[:, :3], atol=1e-6)


def test_points_are_placed_among_their_nearest_landmarks_and_a_second_call_continues(monkeypatch):
    rows = unit(np.array([[1, 0], [0, 1], [-1, 0], [1, 0.01], [1, 1]]))
    plane = np.array([[0, 0], [10, 0], [20, 0]], dtype=np.float32)
    monkeypatch.setattr(landmarks, "PLACED_BY", 2)
    placed = place_others(Points(rows, rows[:0]), np.arange(3), plane)
    np.testing.assert_array_equal(placed[:3], plane)
    assert placed[3, 0] < 1
    assert placed[4, 0] == pytest.approx(5, abs=1e-4)
    monkeypatch.setattr(landmarks, "PART", 2)
    kept = {}
    computed = []

    def keep(name, arrays):
        if name not in kept:
            computed.append(name)
            if len(computed) == 3:
                raise KeyboardInterrupt
            kept[name] = arrays()
        return kept[name]

    with pytest.raises(KeyboardInterrupt):
        place_others(Points(rows, rows[:0]), np.arange(3), plane, keep=keep)
    np.testing.assert_array_equal(
        place_others(Points(rows, rows[:0]), np.arange(3), plane, keep=keep), placed
    )
    assert computed == ["placed-0", "placed-2", "placed-4", "placed-4"]


def test_inverted_lists_find_nearly_all_nearest_landmarks(monkeypatch):
    points = cloud(4_000, groups=40)
    fitted = np.sort(np.random.default_rng(0).choice(len(points), 6_000, replace=False))
    plane = points.take(fitted)[:, :2]
    placed = place_others(points, fitted, plane)
    monkeypatch.setattr(landmarks, "EXACT_BELOW", 10_000)
    exact = place_others(points, fitted, plane)
    same = np.isclose(placed, exact, atol=1e-6).all(1)
    others = np.setdiff1d(np.arange(len(points)), fitted)
    assert same[others].mean() > 0.95


def test_surviving_neighbours_match_a_count_over_all_pairs(monkeypatch):
    points = cloud(40)
    rows = together(points)
    monkeypatch.setattr(landmarks, TILE, 37 * len(rows))
    plane = np.random.default_rng(1).normal(size=(120, 2)).astype(np.float32) + 3 * rows[:, :2]
    fitted = np.arange(0, 120, 3)
    cosines = rows @ rows.T
    distances = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    np.fill_diagonal(cosines, -np.inf)
    np.fill_diagonal(distances, np.inf)
    near = np.argsort(-cosines, axis=1)[:, :15]
    seen = np.argsort(distances, axis=1)[:, :15]
    shares = np.array([len({*a} & {*b}) / 15 for a, b in zip(near.tolist(), seen.tolist(), strict=True)])
    others = np.setdiff1d(np.arange(120), fitted)
    found = surviving_neighbours(points, plane, fitted, seed=0)
    assert found == pytest.approx((shares[fitted].mean(), shares[others].mean()))
    assert surviving_neighbours(points, plane, np.arange(120), seed=0) == (pytest.approx(shares.mean()), None)


def test_alignment_undoes_a_rotation_a_reflection_a_scale_and_a_shift():
    rng = np.random.default_rng(0)
    reference = rng.normal(size=(40, 2))
    turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]]) @ np.diag([1.0, -1.0])
    moved, disparity = onto(3.0 * reference @ turn + [5.0, -2.0], reference)
    np.testing.assert_allclose(moved, reference, atol=1e-5)
    assert disparity == pytest.approx(0.0, abs=1e-9)
    assert onto(rng.normal(size=(4000, 2)), rng.normal(size=(4000, 2)))[1] > 0.95
    reference = rng.normal(size=(400, 2))  # a layout keeps the size of the other, however much they differ
    for share in (0.1, 1.0, 8.0):
        moved, disparity = onto(reference + share * rng.normal(size=(400, 2)), reference)
        assert moved.std() == pytest.approx(reference.std(), rel=1e-3)
        assert disparity == pytest.approx(share**2 / (1 + share**2), abs=0.1)
    spot = np.ones((5, 2))
    spread = np.arange(10.0).reshape(5, 2)
    moved, disparity = onto(spot, spread)
    np.testing.assert_allclose(moved, np.tile(spread.mean(0), (5, 1)))
    assert disparity == 1.0
    with pytest.raises(ValueError, match="of 5 and 3 points"):
        onto(spot, spread[:3])


@pytest.mark.parametrize("method", get_args(Method))
def test_a_layout_keeps_groups_aligns_to_another_and_estimates_its_time(method, monkeypatch):
    """The second run is the same joint space in other coordinates: every cosine is the same."""
    times = [layout_seconds(method, points) for points in (1, 120, 121, 1_000, 6_000, 40_000)]
    assert times == sorted(times)
    assert times[1] == pytest.approx(STARTING + MEASURED[method][120])
    monkeypatch.setattr(layouts, "ITERATIONS", 500)
    points = cloud(60)
    seen = []
    first = lay_out(points, settings(method), progress=lambda done, n, phase: seen.append((done / n, phase)))
    assert (first.plane.shape, first.plane.dtype, first.disparity) == ((180, 2), np.float32, None)
    assert share_with_their_group(first.plane) > 0.9
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    turn = np.linalg.qr(np.random.default_rng(5).normal(size=(12, 12)))[0].astype(np.float32)
    turned = Points(points.images @ turn, points.texts @ turn)
    assert lay_out(turned, settings(method), reference=first.plane).disparity < 0.12
    if method != "pca":
        monkeypatch.setitem(layouts.LANDMARKS, method, 60)
        layout = lay_out(points, settings(method))
        assert any("60 of 180 points" in note for note in layout.notes)
        assert "of landmarks' and" in layout.notes[-1]
        assert share_with_their_group(layout.plane) > 0.95
        monkeypatch.setitem(layouts.LANDMARKS, method, 50_000)

    if method == "umap":
        np.testing.assert_array_equal(first.plane, lay_out(points, settings(method)).plane)
        assert any("numba" in phase for _, phase in seen)
        assert any(0.4 < share < 1 for share in shares)
        assert "15 neighbours were lowered to 11" in lay_out(cloud(4), LayoutSettings("umap")).notes[0]


def test_layouts_of_one_modality_and_of_both_without_their_gap():
    points = cloud()
    gap = np.zeros(points.width, np.float32)
    gap[0] = 3.0
    apart = Points(unit(points.images + gap), unit(points.texts - gap))
    kinds = ("both", "images", "centred")
    both, images, centred = (lay_out(apart, settings("pca", modalities=kind)).plane for kind in kinds)
    assert (len(both), len(images), len(centred)) == (90, 30, 90)
    alone = lay_out(Points(apart.images, apart.texts[:0]), settings("pca"))
    np.testing.assert_allclose(images, alone.plane, atol=1e-4)
    for plane, is_apart in ((both, True), (centred, False)):
        gap = np.linalg.norm(plane[:30].mean(0) - plane[30:].mean(0)) / plane.std()
        assert (gap > 0.3) == is_apart
    points = points.only("centred")
    rows = np.concatenate([tile for _, tile in points.tiles()])
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(rows, points.take(np.arange(len(points))))
    spot = Points(np.ones((2, 3), np.float32), np.eye(3, dtype=np.float32)).only("centred")
    assert not spot.take(np.array([0, 1])).any()


def test_impossible_layouts_are_refused_and_large_perplexities_lowered(monkeypatch):
    same = Points(np.ones((4, 3), np.float32), np.ones((8, 3), np.float32))
    few = Points(same.images[:1], same.texts[:2])
    none = Points(same.images, same.texts[:0])
    captions = LayoutSettings("pca", modalities="captions")
    refused = [(same, LayoutSettings("umap"), "collapsed"), (none, captions, "at least 1")]
    refused += [(few, LayoutSettings("tsne"), r"at least 4. Use PCA")]
    for points, choice, fact in refused:
        assert_refused(fact, lay_out, points, choice)
    planes = [lay_out(points, LayoutSettings("pca")).plane for points in (same, few)]
    assert not planes[0].any()
    assert planes[1].shape == (3, 2)
    wrong = {"method": "mds", "neighbours": 1, "min_distance": 2.0, "perplexity": float("nan"), "seed": -1}
    for name, value in wrong.items():
        assert_refused(f"--{name.replace('_', '-')}", LayoutSettings, **{name: value})
    assert layouts.usable_perplexity(30, 12) == pytest.approx(11 / 3)
    monkeypatch.setattr(layouts, "ITERATIONS", 250)
    assert "perplexity 30 " in lay_out(cloud(4), LayoutSettings("tsne")).notes[0]


def test_a_stratified_draw_is_random_proportional_and_complete():
    drawn = clouds.stratified((100, 500), 60, seed=1)
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    assert (len(drawn), (drawn < 100).sum()) == (60, 10)
    assert drawn[:2].tolist() != [0, 1]  # not the first ones
    assert clouds.stratified((1, 10_000), 50, seed=0)[0] == 0  # the small stratum is not left out
    np.testing.assert_array_equal(clouds.stratified((3, 4), 7, seed=0), np.arange(7))


def test_planted_groups_are_clustered_and_more_clusters_than_pairs_refused(monkeypatch):
    points = cloud()
    owner = np.repeat(np.arange(30), 2)
    seen = []
    arguments = points.images, points.texts, owner
    clusters = kmeans.cluster_pairs(*arguments, ClusterSettings(3), progress=lambda *now: seen.append(now))
    labels = clusters.image_labels.reshape(10, 3)  # image i is of group i % 3
    assert (labels == labels[0]).all()
    assert len(set(labels[0].tolist())) == 3
    np.testing.assert_array_equal(clusters.image_labels[owner], clusters.text_labels)
    np.testing.assert_allclose(np.linalg.norm(clusters.centroids, axis=1), 1, atol=1e-5)
    assert (np.diff([done / total for done, total, _ in seen]) >= 0).all()
    for count, fact in ((61, "--clusters: is 61 for 60"), (1, "--clusters")):
        assert_refused(fact, lambda n: kmeans.cluster_pairs(*arguments, ClusterSettings(n)), count)
    monkeypatch.setattr(kmeans, TILE, 40)
    expected = (points.texts @ points.images[:7].T).argmax(1)
    np.testing.assert_array_equal(kmeans.nearest_centroid(points.texts, points.images[:7]), expected)


def test_neighbours_of_many_points_are_nearly_the_nearest():
    random = np.random.default_rng(0)
    centres = random.normal(size=(100, 24))
    rows = np.repeat(centres, 60, axis=0) + random.normal(size=(6_000, 24))
    points = np.float32(rows / np.linalg.norm(rows, axis=1, keepdims=True))
    points[1] = points[0]  # each of two equal points comes first in its own list
    expected, of_expected = nearest(points, points, 15)
    found, distances = nearly_nearest(points, points, 15)
    np.testing.assert_array_equal(found[:, 0], np.arange(len(points)))
    assert not distances[:, 0].any()
    assert (np.diff(distances, axis=1) >= 0).all()
    own = np.einsum("nd,nkd->nk", points, points[found])
    np.testing.assert_allclose(distances[:, 1:], 1 - own[:, 1:], atol=1e-5)
    shared = [len(np.intersect1d(one, other)) for one, other in zip(expected, found, strict=True)]
    assert np.mean(shared) > 0.9 * 15
    assert of_expected.shape == distances.shape
