"""MD and the two distributions, against loops over every pair."""

import numpy as np
import pytest

from coder_core.evaluation import separation as maths
from coder_core.evaluation import sources
from coder_core.evaluation.recall import ensemble_metrics, retrieval_metrics
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from tests.evaluation.test_recall import correlated
from tests.reference.ranking import every_score


@pytest.fixture(params=[sources.TILE_ELEMENTS, 150])
def _tiles(request, monkeypatch):
    for module in (maths, sources):
        monkeypatch.setattr(module, "TILE_ELEMENTS", request.param)


def two_branches():
    """Twenty images and seventy captions in a wide branch and a narrow one, mixed 0.7 to 0.3; owners and all scores."""
    v, w, owner = correlated(20, 70, seed=0)
    vc, wc, _ = correlated(20, 70, seed=1)
    pairs = [EmbeddingPair(v, w, 0.7), EmbeddingPair(vc[:, :9], wc[:, :9], 0.3)]
    return pairs, owner, every_score([(pair.image, pair.text, pair.weight) for pair in pairs])


@pytest.mark.usefixtures("_tiles")
def test_the_means_of_a_mixture_agree_with_loops():
    pairs, owner, scores = two_branches()
    is_own = owner == np.arange(20)[:, None]
    expected = scores[is_own].mean(), scores[~is_own].mean()
    for kinds in (pairs, [ScoreMatrix(scores)]):
        means = maths.separation(kinds, owner)
        assert (means.positive, means.negative) == pytest.approx(expected, abs=1e-12)
        assert means.mean_distance == pytest.approx(expected[0] - expected[1], abs=1e-12)


@pytest.mark.usefixtures("_tiles")
def test_the_counts_of_a_mixture_agree_with_loops():
    pairs, owner, scores = two_branches()
    counts = {True: np.zeros(maths.BINS, int), False: np.zeros(maths.BINS, int)}
    for i in range(20):
        for j in range(70):
            counts[bool(owner[j] == i)][int((scores[i, j] + 1) * maths.BINS / 2)] += 1
    for kinds in (pairs, [ScoreMatrix(scores)]):
        histograms = maths.distributions(kinds, owner)
        np.testing.assert_array_equal(histograms.positive, counts[True])
        np.testing.assert_array_equal(histograms.negative, counts[False])
    assert (histograms.images, histograms.of_images) == (20, 20)
    part = maths.distributions(pairs, owner, pairs=5 * 70)
    assert part.images == 5
    assert part.positive.sum() + part.negative.sum() == 5 * 70


def test_it_is_one_of_the_metrics_of_a_model_and_of_an_ensemble():
    pairs, owner, _ = two_branches()
    first, second = pairs
    mixed = retrieval_metrics(first.image, first.text, owner, second=(second.image, second.text), weight=0.7)
    assert mixed["md"] == pytest.approx(maths.separation(pairs, owner).mean_distance)
    assert ensemble_metrics(pairs, owner)["md"] == pytest.approx(mixed["md"])
    alone = np.eye(1, 3), np.eye(2, 3), np.zeros(2, np.int64)  # one image: there are no other pairs
    assert np.isnan(maths.separation([EmbeddingPair(*alone[:2])], alone[2]).negative)
    assert "md" not in retrieval_metrics(*alone)
