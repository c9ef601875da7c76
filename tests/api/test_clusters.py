"""Tables and typical words of clusters, on data small enough to read; layouts of the joint space."""

import math

import numpy as np
import pytest

from coder_core.api import clusters as api
from coder_core.api import joint_space, open_run
from coder_core.api.clusters import Clusters, ClusterSettings
from coder_core.api.joint_space import LayoutSettings, principal_layout, stored_layout
from coder_core.api.sampling import draw_sample
from coder_core.runs.derived.compute import make_clusters, make_layouts
from tests.support.run_folders import flip, write_prototypes, write_run


@pytest.fixture(scope="module")
def offline(run):
    assert api.offline_clusters(run, "dev", ClusterSettings(4)).state == "missing"
    assert api.prototypes(run, "dev") is None
    folder, _ = make_clusters(run.path, "dev", ClusterSettings(4))
    stored = api.offline_clusters(run, "dev", ClusterSettings(4))
    assert (stored.state, stored.name) == ("there", folder.name)
    return stored.value


def test_pairs_belong_to_their_nearest_centroid_and_are_counted_once(run, offline):
    owner = run.image_of_text("dev")
    v, w = (np.asarray(x, dtype=np.float64) for x in run.embeddings("dev"))
    for j in (0, 7, 149):
        pair = w[j] + v[owner[j]]
        cosines = offline.centroids @ (pair / np.linalg.norm(pair))
        assert offline.pairs[j] == cosines.argmax()
        assert offline.cosines[j] == pytest.approx(cosines.max(), abs=1e-5)
    table = api.cluster_table(run, "dev", offline)
    assert table["size"].sum() == 150
    assert table["size"].is_monotonic_decreasing
    first = int(table["cluster"][0])
    inside = offline.pairs == first
    expected = {"agreement": 100 * (offline.texts == offline.images[owner])[inside].mean()}
    expected |= {"images": len(set(owner[inside].tolist())), "cohesion": offline.cosines[inside].mean()}
    assert table.loc[0, list(expected)].to_dict() == pytest.approx(expected, abs=1e-5)
    rows = api.members(run, "dev", offline, first)
    assert len(rows) == table["size"][0]
    assert rows["cosine"].is_monotonic_decreasing
    np.testing.assert_array_equal(rows["agree"], api.labels_agree(offline, owner)[rows["caption"].to_numpy()])


def test_agreement_matched_groups_and_log_odds_match_hand_calculation():
    texts = np.array([0, 0, 0, 1])
    owner = np.array([0, 0, 1, 1])
    clusters = Clusters("offline", np.eye(2), np.zeros(4, int), np.ones(4), np.array([0, 1]), texts)
    assert api.labels_agree(clusters, owner).tolist() == [True, True, False, True]
    assert api.chance_agreement(clusters, owner) == pytest.approx(0.75 * 0.5 + 0.25 * 0.5)
    one = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    other = np.array([5, 5, 5, 0, 0, 3, 3, 0])
    assert api.matched(one, other).tolist() == [0, 0, 0, 1, 1, 2, 2, 1]
    first, second, apart = api.matched(np.array([0, 0, 0]), np.array([0, 0, 1]))
    assert first == second == 0 < apart
    assert api.matched(one, other, most=2) is other
    marking = api.marking_words(["a dog runs", "a dog", "a cat", "a cat sleeps"], np.array([0, 0, 1, 1]), 3)
    alpha = api.PRIOR_WORDS * 2 / 6  # "dog" is two of all six words, and two of the group's three words
    inside = math.log((2 + alpha) / (3 + api.PRIOR_WORDS - 2 - alpha))
    z = (inside - math.log(alpha / (3 + api.PRIOR_WORDS - alpha))) / math.sqrt(1 / (2 + alpha) + 1 / alpha)
    top = marking.top(0)
    assert (top["word"][0], top["count"][0]) == ("dog", 2)
    assert top["score"][0] == pytest.approx(z)
    assert "a" not in marking.words  # a stop word
    assert (marking.top(1)["word"][0], len(marking.top(2))) == ("cat", 0)


def test_borderline_pairs_have_the_smallest_margins_and_prototypes_are_clusters(run, offline, tmp_path):
    near = api.nearest_clusters(offline, 0)
    assert 0 not in near["cluster"].tolist()
    assert near["cosine"].is_monotonic_decreasing
    other = int(near["cluster"][0])
    rows = api.between(run, "dev", offline, (0, other))
    assert rows["margin"].is_monotonic_increasing
    cosines = api.pair_rows(run, "dev", np.arange(150)) @ offline.centroids.T
    margins = np.abs(cosines[:, 0] - cosines[:, other])[np.isin(offline.pairs, [0, other])]
    np.testing.assert_allclose(rows["margin"], np.sort(margins)[: api.BETWEEN], atol=1e-6)
    names = ("centroids", "pairs", "cosines", "images", "texts")
    arrays = {name: getattr(offline, name) for name in names} | {"members": np.array([5, 6, 7, 8])}
    write_prototypes(run, tmp_path / "pgc", **arrays, kind="embeddings")
    learned = open_run(tmp_path / "pgc")
    shown = api.prototypes(learned, "dev")
    assert shown.origin == "prototypes"
    table = api.cluster_table(learned, "dev", shown)
    assert table["trained"].tolist() == [5 + c for c in table["cluster"]]
    assert api.same_grouping(shown, offline) == pytest.approx(1.0)


def test_marking_concepts_are_ranked_by_attention_gain(run, both, offline):
    assert len(api.marking_concepts(run, "dev", offline, 0)) == 0  # no concept branch
    tables = both.analysis("dev").concepts
    make_clusters(both.path, "dev", ClusterSettings(3))
    grouped = api.offline_clusters(both, "dev", ClusterSettings(3)).value
    inside = grouped.pairs == 1
    image, text = (tables.attention(side, slice(None)) for side in ("image", "text"))
    own = np.unique(both.image_of_text("dev")[inside])
    elsewhere = (image.mean(0) + text.mean(0)) / 2
    gain = (image[own].mean(0) + text[inside].mean(0)) / 2 - elsewhere
    table = api.marking_concepts(both, "dev", grouped, 1)
    np.testing.assert_allclose(table["gain"], sorted(gain[gain > 0], reverse=True), atol=1e-6)
    assert table["word"][0] == tables.words[int(gain.argmax())]


@pytest.fixture(scope="module")
def a(tmp_path_factory):
    captions = [f"scene {i},  told in way {k} ." for i in range(14) for k in range(5)]
    root = tmp_path_factory.mktemp("geometry")
    return open_run(write_run(root, "a", images=14, pictures=False, captions=captions))


def test_modality_gap_score_counts_and_sample_table_match_direct_computation(a):
    v, w = (np.asarray(x, dtype=np.float64) for x in a.embeddings("dev"))
    gap = np.linalg.norm(v.mean(0) - w.mean(0))
    assert joint_space.modality_gap(a, "dev") == pytest.approx(gap, abs=1e-6)
    whole = joint_space.score_distributions(a, "dev")
    counts = whole.positive.sum(), whole.negative.sum(), whole.images, whole.of_images
    assert counts == (70, 14 * 70 - 70, 14, 14)
    table = joint_space.samples(a, "dev")
    owner = a.image_of_text("dev")
    v, w = a.embeddings("dev")
    scores = (v @ w.T)[owner, np.arange(70)]
    best = [scores[owner == i].max() for i in range(14)]
    np.testing.assert_allclose(table["similarity"], np.concatenate([best, scores]), atol=1e-6)
    assert table["modality"].tolist() == ["image"] * 14 + ["caption"] * 70
    np.testing.assert_array_equal(table["image"], np.concatenate([np.arange(14), owner]))
    np.testing.assert_array_equal(table["rank"][14:], a.ranks("dev")["t2i"] + 1)
    # every caption lists ten images, and every image ten captions
    assert [table["hubness"][:14].sum(), table["hubness"][14:].sum()] == [70 * 10, 14 * 10]
    assert (table["text"][0], set(table["words"])) == ("scene 0,  told in way 0 .", {6})
    diversity = a.diversity("dev", epsilon=a.loss.epsilon)["diversity"]
    np.testing.assert_array_equal(table["diversity"][14:], diversity)


def test_a_stored_map_is_missing_then_present_then_damaged(a):
    same = {"images": 14, "captions": a.captions("dev"), "pictures": False}
    b = open_run(write_run(a.path.parent, "b", noise=2.0, **same))
    settings = LayoutSettings("pca")
    assert stored_layout(b, "dev", settings, a).state == "missing"
    folder = make_layouts([a.path, b.path], "dev", settings)[1][0]
    stored = stored_layout(b, "dev", settings, a)
    assert (stored.state, stored.name) == ("there", folder.name)
    at_once = principal_layout(b, "dev", principal_layout(a, "dev"))
    np.testing.assert_allclose(at_once.plane, stored.value.plane, atol=1e-5)
    flip(folder.path / "plane.npy")
    assert "plane.npy" in stored_layout(b, "dev", settings, a).fault


def test_a_sample_of_points_has_images_with_all_their_captions(a):
    owner = a.image_of_text("dev")
    sample = draw_sample(14, owner, points=36, scores=100)
    assert (len(sample.images), len(sample.texts)) == (6, 30)
    assert set(owner[sample.texts]) == set(sample.images)
    assert draw_sample(14, owner, scores=14 * 70) is None


def test_nearest_points_are_those_of_the_full_matrix(a):
    rows = np.concatenate(a.embeddings("dev"))
    for point in (3, 14 + 5):
        near, cosines = joint_space.nearest_points(a, "dev", point, 9)
        expected = rows @ rows[point]
        expected[point] = -np.inf
        np.testing.assert_allclose(cosines, np.sort(expected)[:-10:-1], atol=1e-6)
        np.testing.assert_allclose(expected[near], cosines, atol=1e-6)
    assert len(joint_space.nearest_points(a, "dev", 0, 500)[0]) == 14 + 70 - 1


def test_labels_are_the_words_of_the_captions_around_them(tmp_path):
    captions = [f"a {'dog' if image < 7 else 'ship'} number {k}" for image in range(14) for k in range(5)]
    run = open_run(write_run(tmp_path, "a", images=14, pictures=False, captions=captions))
    sides = np.repeat([-5.0, 5.0], 7)
    plane = np.stack([np.concatenate([sides, np.repeat(sides, 5)]), np.zeros(84)], axis=1)
    plane += 0.1 * np.random.default_rng(0).normal(size=plane.shape)
    for first, places in ((0, plane), (14, plane[14:])):
        labels = joint_space.area_labels(run, "dev", places, first)
        assert {"dog", "ship"} == {label.words[0] for label in labels}
        assert all((label.x < 0) == (label.words[0] == "dog") for label in labels)
