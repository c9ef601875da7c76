"""Clusters in tables and words, on data small enough to be read."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import clusters as api
from coder_core.api import open_run
from coder_core.api.clusters import PRIOR_WORDS, Clusters, ClusterSettings, pair_rows
from coder_core.api.run import Run
from coder_core.runs.derived.compute import make_clusters
from tests.support.concept_runs import write_concept_run
from tests.support.run_folders import write_prototypes, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(write_run(tmp_path_factory.mktemp("clusters"), "demo", images=20, pictures=False))


@pytest.fixture(scope="module")
def found(run: Run) -> Clusters:
    assert api.offline_clusters(run, "dev", ClusterSettings(4)).state == "missing"
    assert api.prototypes(run, "dev") is None
    place, _ = make_clusters(run.path, "dev", ClusterSettings(4))
    kept = api.offline_clusters(run, "dev", ClusterSettings(4))
    assert (kept.state, kept.name) == ("there", place.name)
    assert kept.value is not None
    return kept.value


def test_pairs_lie_at_their_nearest_centroid(run: Run, found: Clusters) -> None:
    v, w = (np.asarray(x, dtype=np.float64) for x in run.embeddings("dev"))
    for j in (0, 7, 99):
        pair = w[j] + v[run.image_of_text("dev")[j]]
        pair /= np.linalg.norm(pair)
        cosines = found.centroids @ pair
        assert found.pairs[j] == cosines.argmax()
        assert found.cosines[j] == pytest.approx(cosines.max(), abs=1e-5)


def test_the_table_counts_every_pair_once(run: Run, found: Clusters) -> None:
    table = api.cluster_table(run, "dev", found)
    owner = run.image_of_text("dev")
    assert table["size"].sum() == 100
    assert table["size"].is_monotonic_decreasing
    first = int(table["cluster"][0])
    inside = found.pairs == first
    same = (found.texts == found.images[owner])[inside]
    assert table["agreement"][0] == pytest.approx(100 * same.mean())
    assert table["images"][0] == len(set(owner[inside].tolist()))
    assert table["cohesion"][0] == pytest.approx(found.cosines[inside].mean(), abs=1e-5)
    rows = api.members(run, "dev", found, first)
    assert len(rows) == table["size"][0]
    assert rows["cosine"].is_monotonic_decreasing
    np.testing.assert_array_equal(rows["agree"], api.agreement(found, owner)[rows["caption"].to_numpy()])


def test_agreement_by_chance_by_hand() -> None:
    one = np.array([0, 1])
    found = Clusters("offline", np.eye(2), np.zeros(4, int), np.ones(4), one, np.array([0, 0, 0, 1]))
    owner = np.array([0, 0, 1, 1])
    assert api.agreement(found, owner).tolist() == [True, True, False, True]
    assert api.chance_agreement(found, owner) == pytest.approx(0.75 * 0.5 + 0.25 * 0.5)


def test_between_two_clusters_stand_the_pairs_with_equal_cosines(run: Run, found: Clusters) -> None:
    near = api.nearest_clusters(found, 0)
    assert 0 not in near["cluster"].tolist()
    assert near["cosine"].is_monotonic_decreasing
    other = int(near["cluster"][0])
    rows = api.between(run, "dev", found, 0, other, count=5)
    assert rows["margin"].is_monotonic_increasing
    cosines = pair_rows(run, "dev", np.arange(100)) @ found.centroids.T
    either = np.isin(found.pairs, [0, other])
    margins = np.abs(cosines[:, 0] - cosines[:, other])[either]
    np.testing.assert_allclose(rows["margin"], np.sort(margins)[:5], atol=1e-6)


def test_a_run_with_prototypes_shows_them(run: Run, found: Clusters, tmp_path: Path) -> None:
    write_prototypes(
        run,
        tmp_path / "pgc",
        centroids=found.centroids,
        pairs=found.pairs,
        cosines=found.cosines,
        images=found.images,
        texts=found.texts,
        members=np.array([5, 6, 7, 8]),
        kind="embeddings",
    )
    learned = open_run(tmp_path / "pgc")
    shown = api.prototypes(learned, "dev")
    assert shown is not None
    assert shown.origin == "prototypes"
    table = api.cluster_table(learned, "dev", shown)
    assert table["trained"].tolist() == [5 + c for c in table["cluster"]]
    assert api.same_grouping(shown, found) == pytest.approx(1.0)


def test_labels_are_matched_to_the_groups_they_share_most_with() -> None:
    one = np.array([0, 0, 0, 1, 1, 2, 2, 2])
    other = np.array([5, 5, 5, 0, 0, 3, 3, 0])
    assert api.matched(one, other).tolist() == [0, 0, 0, 1, 1, 2, 2, 1]
    apart = api.matched(np.array([0, 0, 0]), np.array([0, 0, 1]))
    assert apart.tolist()[:2] == [0, 0]
    assert apart[2] > 0
    assert api.matched(one, other, most=2) is other


def test_the_log_odds_of_a_word_by_hand() -> None:
    marking = api.marking_words(["a dog runs", "a dog", "a cat", "a cat sleeps"], np.array([0, 0, 1, 1]), 3)
    total, here, group = 10.0, 2.0, 5.0
    alpha = PRIOR_WORDS * 2 / total
    inside = math.log((here + alpha) / (group + PRIOR_WORDS - here - alpha))
    outside = math.log(alpha / (total - group + PRIOR_WORDS - alpha))
    z = (inside - outside) / math.sqrt(1 / (here + alpha) + 1 / alpha)
    top = marking.top(0)
    assert top["word"][0] == "dog"
    assert top["score"][0] == pytest.approx(z)
    assert top["count"][0] == 2
    assert "a" not in top["word"].tolist()  # as frequent everywhere
    assert marking.top(1)["word"][0] == "cat"
    assert len(marking.top(2)) == 0


def test_concepts_that_mark_a_cluster(run: Run, found: Clusters, tmp_path: Path) -> None:
    assert len(api.marking_concepts(run, "dev", found, 0)) == 0  # no concept branch
    both = open_run(write_concept_run(tmp_path, "both"))
    tables = both.analysis("dev").concepts
    assert tables is not None
    make_clusters(both.path, "dev", ClusterSettings(3))
    grouped = api.offline_clusters(both, "dev", ClusterSettings(3)).value
    assert grouped is not None
    inside = grouped.pairs == 1
    image, text = tables.attention("image", slice(None)), tables.attention("text", slice(None))
    own = np.unique(both.image_of_text("dev")[inside])
    elsewhere = (image.mean(0) + text.mean(0)) / 2
    gain = (image[own].mean(0) + text[inside].mean(0)) / 2 - elsewhere
    table = api.marking_concepts(both, "dev", grouped, 1)
    expected = sorted((float(g) for g in gain if g > 0), reverse=True)
    np.testing.assert_allclose(table["gain"], expected, atol=1e-6)
    assert table["word"][0] == tables.words[int(gain.argmax())]
