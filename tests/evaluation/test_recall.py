"""The metrics: the worked example, an independent implementation (torchmetrics), five folds; MD and both distributions."""

import numpy as np
import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.evaluation import separation as maths
from coder_core.evaluation import sources
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import (
    ensemble_metrics,
    five_fold,
    half_metrics,
    metrics_of,
    retrieval_metrics,
)
from coder_core.evaluation.relevance import Queries, Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from tests.reference.ranking import every_score
from tests.support.run_folders import unit


def correlated(n, m, seed, noise=0.6):
    random = np.random.default_rng(seed)
    images = random.normal(size=(n, 32))
    owner = np.sort(np.concatenate([np.arange(n), random.integers(0, n, m - n)]))
    return unit(images), unit(images[owner] + noise * 3 * random.normal(size=(m, 32))), owner


def test_median_ranks_and_ties_by_hand_and_five_folds_are_averaged():
    """Ranks 0 and 1: the median 0.5 counts as 0, so MedR is 1. The same caption at two images counts against both."""
    metrics = retrieval_metrics(np.array([[0.9, 0.1], [0.8, 0.2]], np.float32), np.eye(2), np.arange(2))
    assert (metrics["i2t_medr"], metrics["i2t_meanr"]) == (1, 1.5)
    keys = ("r1", "r5", "r10", "mrr", "ndcg10", "medr", "meanr", "ties")
    assert set(metrics) == {*(f"{way}_{key}" for way in ("i2t", "t2i") for key in keys), "rsum", "md"}
    same = np.eye(2), np.full((2, 2), 0.6), np.arange(2)
    metrics = retrieval_metrics(*same)
    assert metrics["i2t_r1"] == metrics["t2i_r1"] == 0
    assert metrics["i2t_ties"] == metrics["t2i_ties"] == 100
    assert retrieval_metrics(*same, ties="optimistic")["i2t_r1"] == 100
    images, texts, owner = correlated(55, 180, seed=4)
    folds = []
    for rows in np.arange(50).reshape(5, 10):
        inside = np.isin(owner, rows)
        folds.append(retrieval_metrics(images[rows], texts[inside], owner[inside] - rows[0]))
    actual = five_fold([EmbeddingPair(images, texts)], owner, size=10)
    assert actual == pytest.approx({name: np.mean([metrics[name] for metrics in folds]) for name in folds[0]})
    recalls = [actual[f"{way}_r{k}"] for way in ("i2t", "t2i") for k in (1, 5, 10)]
    assert actual["rsum"] == pytest.approx(sum(recalls))


def test_recall_and_mrr_agree_with_torchmetrics():
    from torchmetrics.retrieval import RetrievalHitRate, RetrievalMRR  # it imports all of torchmetrics

    images, texts, owner = correlated(40, 130, seed=1)
    relevant = torch.from_numpy(owner[None] == np.arange(40)[:, None])
    scores = torch.from_numpy(images @ texts.T) + 2  # torchmetrics wants them above 0
    metrics = retrieval_metrics(images, texts, owner)
    for way, query in (("i2t", torch.arange(40)[:, None]), ("t2i", torch.arange(130)[None])):
        queries = {"indexes": query.expand(40, 130)}
        recalls = [100 * float(RetrievalHitRate(top_k=k)(scores, relevant, **queries)) for k in (1, 5, 10)]
        assert [metrics[f"{way}_r{k}"] for k in (1, 5, 10)] == pytest.approx(recalls, abs=1e-4)
        reciprocal = 100 * float(RetrievalMRR()(scores, relevant, **queries))
        assert metrics[f"{way}_mrr"] == pytest.approx(reciprocal)


@pytest.mark.parametrize("images", [41, 2])
def test_halves_of_a_split_share_no_image_and_omit_none(images):
    image_embeddings, texts, owner = correlated(images, 130, seed=4)
    order = np.random.default_rng(0).permutation(images)
    of_matrix = half_metrics([ScoreMatrix(image_embeddings @ texts.T)], owner)
    of_pair = half_metrics([EmbeddingPair(*map(torch.from_numpy, (image_embeddings, texts)))], owner)
    halves = (order[: images // 2], order[images // 2 :])
    for metrics, half, scored in zip(of_pair, halves, of_matrix, strict=True):
        half.sort()
        inside = np.isin(owner, half)
        rows = [list(half).index(image) for image in owner[inside]]
        assert metrics == pytest.approx(retrieval_metrics(image_embeddings[half], texts[inside], rows))
        assert scored["rsum"] == metrics["rsum"]


def test_metrics_of_a_matrix_match_its_embeddings_and_small_splits_are_refused():
    images, texts, owner = correlated(10, 30, seed=3)
    scores = images.astype(np.float64) @ texts.T
    half = EmbeddingPair(images, texts, 0.5)
    mixtures = [[EmbeddingPair(images, texts)], [half] * 2]
    mixtures += [[ScoreMatrix(scores)], [ScoreMatrix(scores, 0.5), half]]
    metrics = [ensemble_metrics(mixed, owner) | five_fold(mixed, owner, size=2) for mixed in mixtures]
    for mixed in metrics[1:]:
        assert mixed == pytest.approx(metrics[0])
    with pytest.raises(InputError, match="at least 5,000"):
        five_fold([EmbeddingPair(np.eye(40), np.eye(40))], np.arange(40))
    with pytest.raises(InputError, match="1 image; expected at least 2"):
        half_metrics([EmbeddingPair(np.eye(1), np.eye(1))], np.arange(1))


@pytest.fixture(params=[sources.TILE_ELEMENTS, 150])
def _tiles(request, monkeypatch):
    for module in (maths, sources):
        monkeypatch.setattr(module, "TILE_ELEMENTS", request.param)


def two_branches():
    """Return twenty images and seventy captions in a wide and a narrow branch, mixed 0.7 to 0.3, owners and scores."""
    v, w, owner = correlated(20, 70, seed=0)
    vc, wc, _ = correlated(20, 70, seed=1)
    pairs = [EmbeddingPair(v, w, 0.7), EmbeddingPair(vc[:, :9], wc[:, :9], 0.3)]
    return pairs, owner, every_score([(pair.image, pair.text, pair.weight) for pair in pairs])


@pytest.mark.usefixtures("_tiles")
def test_separation_and_histograms_of_a_mixture_match_loops():
    pairs, owner, scores = two_branches()
    is_own = owner == np.arange(20)[:, None]
    expected = scores[is_own].mean(), scores[~is_own].mean()
    for kinds in (pairs, [ScoreMatrix(scores)]):
        means = maths.separation(kinds, maths.own_similarity(kinds, owner))
        assert (means.positive, means.negative) == pytest.approx(expected, abs=1e-12)
        assert means.mean_distance == pytest.approx(expected[0] - expected[1], abs=1e-12)
    counts = {True: np.zeros(maths.BINS, int), False: np.zeros(maths.BINS, int)}
    for i in range(20):
        for j in range(70):
            counts[bool(owner[j] == i)][int((scores[i, j] + 1) * maths.BINS / 2)] += 1
    for kinds in (pairs, [ScoreMatrix(scores)]):
        histograms = maths.distributions(kinds, owner)
        np.testing.assert_array_equal(histograms.positive, counts[True])
        np.testing.assert_array_equal(histograms.negative, counts[False])
    assert (histograms.images, histograms.of_images) == (20, 20)
    part = maths.distributions(pairs, owner, pairs=6 * 70 - 1)
    assert (part.images, part.of_images) == (5, 20)
    assert part.positive.sum() + part.negative.sum() == 5 * 70
    drawn = [5, 6, 9, 10, 13]  # the same images in every version
    whole = maths.distributions([pair.part(np.array(drawn), np.arange(70)) for pair in pairs], owner * 0)
    np.testing.assert_array_equal(part.positive + part.negative, whole.positive + whole.negative)
    assert part.positive.sum() == np.isin(owner, drawn).sum()
    assert maths.distributions(pairs, owner, pairs=1).images == 1


def test_scores_beyond_cosines_count_in_the_outermost_bins():
    histograms = maths.distributions([ScoreMatrix(np.array([[1.0, -1.0], [-3.0, 2.0]]))], np.arange(2))
    expected = np.zeros(maths.BINS)
    expected[-1] = 2
    np.testing.assert_array_equal(histograms.positive, expected)
    np.testing.assert_array_equal(histograms.negative, expected[::-1])
    np.testing.assert_allclose(histograms.edges[[0, 1, -1]], [-1, -1 + 2 / maths.BINS, 1])


def test_the_mean_distance_of_a_sample_of_queries_is_that_of_the_whole_split():
    pairs, owner, _ = two_branches()
    labels = Relevance.of_labels(owner, 20)
    scores = check_scores(pairs)
    some = labels.of_queries(Queries(np.arange(0, 20, 3), np.arange(0, 70, 7)))
    whole = metrics_of(scores, rank(scores, labels), labels)
    assert metrics_of(scores, rank(scores, some), some)["md"] == pytest.approx(whole["md"])
    no_images = labels.of_queries(Queries(np.empty(0, np.int64), np.arange(70)))
    assert metrics_of(scores, rank(scores, no_images), no_images) == {}


def test_mean_distance_is_a_metric_of_models_and_ensembles():
    pairs, owner, _ = two_branches()
    first, second = pairs
    mixed = retrieval_metrics(first.image, first.text, owner, second=(second.image, second.text), weight=0.7)
    assert mixed["md"] == pytest.approx(
        maths.separation(pairs, maths.own_similarity(pairs, owner)).mean_distance
    )
    assert ensemble_metrics(pairs, owner)["md"] == pytest.approx(mixed["md"])
    alone = np.eye(1, 3), np.eye(2, 3), np.zeros(2, np.int64)  # one image: there are no other pairs
    assert np.isnan(maths.separation([EmbeddingPair(*alone[:2])], np.ones(2)).negative)
    assert "md" not in retrieval_metrics(*alone)
