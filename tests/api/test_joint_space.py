"""The joint space of a run (`coder_core.api.joint_space`): quantities, searches and AUROC, by hand and against loops."""

import numpy as np
import pyarrow as pa
import pytest

from coder_core.api import joint_space
from coder_core.evaluation.separation import Distributions

NAMES = pa.array(["beach.jpg", "red 7.jpg", "box.jpg"], pa.large_string())
CAPTIONS = pa.array(["a red star", "one blue star", "a box", "stars on a beach"], pa.large_string())
TEXTS = joint_space.SearchedTexts(CAPTIONS, NAMES, np.array([0, 1, 2, 1]))


@pytest.mark.parametrize(
    ("query", "points"),
    [
        ("", []),
        ("  ", []),
        ("image 2", [2]),
        ("image 3", []),
        ("Image #0", [0]),
        ("caption 3", [6]),
        ("caption 4", []),
        ("1", [1, 4]),
        ("3", [6]),
        ("4", []),
        ("star", [0, 1, 3, 4, 6]),
        ("STAR red", [0, 3]),
        ("box", [2, 5]),
        ("red 7", [1]),
        ("beach", [0, 1, 6]),
        ("blue red", []),
    ],
)
def test_a_search_finds_numbers_names_and_all_words(query, points):
    """Points 0 to 2 are images, 3 to 6 captions; an image is found with each of its captions."""
    assert TEXTS.points(query).tolist() == points


def test_auroc_counts_equal_scores_half_and_needs_both_kinds():
    edges = np.linspace(-1, 1, 4)
    some = np.array([1, 2, 0])
    assert joint_space.auroc(Distributions(edges, some, some, 2, 2)) == 0.5
    assert joint_space.auroc(Distributions(edges, np.array([0, 0, 2]), some, 2, 2)) == 1
    assert joint_space.auroc(Distributions(edges, np.array([0, 3, 0]), some, 2, 2)) == pytest.approx(2 / 3)
    for matching, others in ((some, 0 * some), (0 * some, some)):
        assert np.isnan(joint_space.auroc(Distributions(edges, matching, others, 2, 2)))


def test_every_quantity_of_a_sample_matches_a_loop(run):
    v, w = run.embeddings("dev")
    owner = run.image_of_text("dev")
    images = len(v)
    scores = v @ w.T
    ranks = run.ranks("dev")
    rank = joint_space.quantity(run, "dev", "rank")
    assert rank[:images].tolist() == (ranks["i2t"] + 1).tolist()
    assert rank[images:].tolist() == (ranks["t2i"] + 1).tolist()
    similarity = joint_space.quantity(run, "dev", "similarity")
    for image in range(images):
        assert similarity[image] == pytest.approx(scores[image, owner == image].max(), abs=1e-6)
    np.testing.assert_allclose(similarity[images:], scores[owner, np.arange(len(owner))], atol=1e-6)
    hubness = joint_space.quantity(run, "dev", "hubness")
    found = np.zeros(images)
    for caption in range(len(owner)):
        found[np.argsort(-scores[:, caption])[:10]] += 1
    assert hubness[:images].tolist() == found.tolist()
    assert hubness[images:].sum() == 10 * images
    words = joint_space.quantity(run, "dev", "words")
    lengths = [len(caption.split()) for caption in run.captions("dev")]
    assert words[images:].tolist() == lengths
    assert words[:images].tolist() == [lengths[5 * image] for image in range(images)]
    diversity = joint_space.quantity(run, "dev", "diversity")
    of_images = run.diversity("dev", epsilon=run.loss.epsilon, modality="image")
    of_captions = run.diversity("dev", epsilon=run.loss.epsilon, modality="text")
    for table, start in ((of_images, 0), (of_captions, images)):
        np.testing.assert_allclose(diversity[start + table["anchor"].to_numpy()], table["diversity"])
    assert not np.isnan(diversity).any()


def test_the_nearest_points_are_of_both_kinds_and_never_the_point_itself(run):
    points = np.concatenate(run.embeddings("dev"))
    for point in (0, 29, 30, 179):
        cosines = points @ points[point]
        cosines[point] = -9
        nearest, found = joint_space.nearest_points(run, "dev", point, 7)
        assert nearest.tolist() == np.argsort(-cosines, kind="stable")[:7].tolist()
        np.testing.assert_allclose(found, np.sort(cosines)[::-1][:7], atol=1e-6)
    assert len(joint_space.nearest_points(run, "dev", 3, 1_000)[0]) == 179
    assert len(joint_space.nearest_points(run, "dev", 3, 0)[0]) == 0


def test_a_map_of_fewer_than_twelve_captions_has_no_labels(run):
    places = np.random.default_rng(0).normal(size=(180, 2))
    assert joint_space.area_labels(run, "dev", places[:11], first=30) == []
    labels = joint_space.area_labels(run, "dev", places[:12], first=30)
    assert len(labels) <= 2
    assert all(1 <= len(label.words) <= 2 for label in labels)
    assert len(joint_space.area_labels(run, "dev", places, first=0)) <= 13  # 150 captions, 12 a label
