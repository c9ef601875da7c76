"""Relevance: labels widened by groups and equal texts, against loops; ranks and metrics by them; groups drawn together."""

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.evaluation import relevance as relations
from coder_core.evaluation.bootstrap import count_hits, recall_intervals
from coder_core.evaluation.metrics import query_values
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import ensemble_metrics
from coder_core.evaluation.relevance import (
    GROUP,
    JUDGEMENT,
    LABEL,
    SOURCES,
    TEXT,
    Relevance,
    equal_text_count,
    judged_relevance,
    share_texts,
    widened,
)
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair
from tests.reference.graded import metric, order_of
from tests.support.run_folders import unit


def triples(relation):
    return set(
        zip(relation.queries.tolist(), relation.candidates.tolist(), relation.sources.tolist(), strict=True)
    )


@pytest.mark.parametrize("seed", range(8))
def test_groups_and_equal_texts_widen_the_labels_as_loops_say(seed):
    """A pair has the first source that applies; both directions hold the same pairs."""
    random = np.random.default_rng(seed)
    n, m = (int(size) for size in random.integers(1, 15, 2))
    owner = random.integers(0, n, m)
    groups = random.integers(0, 5, n)
    captions = [f"{' ' * int(random.integers(0, 2))}title {random.integers(0, 6)}" for _ in range(m)]
    expected = set()
    for text in range(m):
        for image in range(n):
            same = [other for other in range(m) if owner[other] == image]
            if owner[text] == image:
                expected.add((text, image, LABEL))
            elif groups[owner[text]] == groups[image]:
                expected.add((text, image, GROUP))
            elif captions[text].strip() in [captions[other].strip() for other in same]:
                expected.add((text, image, TEXT))
    actual = widened(owner, n, groups=groups, captions=captions)
    assert triples(actual.t2i) == expected
    assert triples(actual.i2t) == {(image, text, source) for text, image, source in expected}
    shared = [
        any(owner[i] != owner[j] and captions[i].strip() == captions[j].strip() for j in range(m))
        for i in range(m)
    ]
    assert share_texts(captions, owner).tolist() == shared


def test_judgements_name_their_source_and_replace_the_labels():
    owner = np.array([0, 1, 1])
    of_texts = np.array([[0, 0], [0, 1], [1, 1]])  # the judges did not confirm the label of caption 2
    actual = judged_relevance(of_texts, of_texts[:1], owner, images=2)
    assert triples(actual.t2i) == {(0, 0, LABEL), (0, 1, JUDGEMENT), (1, 1, LABEL)}
    assert triples(actual.i2t) == {(0, 0, LABEL)}
    assert actual.t2i.sizes.tolist() == [2, 1, 0]
    assert [SOURCES[code] for code in (LABEL, GROUP, TEXT, JUDGEMENT)] == [
        "label",
        "group",
        "text",
        "judgement",
    ]


def test_a_perfect_model_of_a_catalogue_has_recall_100_by_group_and_by_text_but_not_by_labels():
    """100 products with two pictures and one title."""
    random = np.random.default_rng(0)
    products = np.repeat(unit(random.normal(size=(100, 32))), 2, axis=0)
    owner = np.arange(200)
    pair = [EmbeddingPair(products, products)]
    titles = [f"title {row // 2}" for row in owner]
    by_labels = ensemble_metrics(pair, owner)
    assert (by_labels["i2t_r1"], by_labels["t2i_r1"]) == (0.0, 0.0)  # equal pictures tie with each other
    for wide in (widened(owner, 200, groups=owner // 2), widened(owner, 200, captions=titles)):
        metrics = ensemble_metrics(pair, owner, relevance=wide)
        assert metrics["i2t_r1"] == metrics["t2i_r1"] == metrics["i2t_ndcg10"] == metrics["t2i_mrr"] == 100
        assert metrics["i2t_ties"] == metrics["t2i_ties"] == 0
        assert metrics["md"] == pytest.approx(
            1 - np.mean(products[::2] @ products[::2].T - np.eye(100)) * 100 / 99, abs=1e-5
        )


@pytest.mark.parametrize("seed", range(6))
def test_metrics_of_group_expanded_runs_match_loops(seed):
    """Odd seeds have many ties."""
    random = np.random.default_rng(seed)
    n, m = 20, 50
    owner = random.integers(0, n, m)
    relevance = widened(owner, n, groups=random.integers(0, 7, n))
    if seed % 2:
        sides = [random.integers(-1, 2, (rows, 3)).astype(np.float32) for rows in (n, m)]
    else:
        sides = [unit(random.normal(size=(rows, 9))) for rows in (n, m)]
    scores = check_scores([EmbeddingPair(*sides)])
    ranks = rank(scores, relevance)
    names = ["ndcg@10", "ndcg", "mrr", "map", "recall@5", "recall@100", "success@1", "success@10"]
    matrix = scores.exact(slice(None)).numpy()
    for relation, ranked, rows in ((relevance.i2t, ranks.i2t, matrix), (relevance.t2i, ranks.t2i, matrix.T)):
        values = query_values(names, relation, ranked)
        precision, first_r = query_values(["r-precision", "map@r"], relation, ranked).T
        for query in range(relation.count):
            right = {
                int(c): 1 for q, c in zip(relation.queries, relation.candidates, strict=True) if q == query
            }
            if not right:
                assert np.isnan(values[query]).all()
                continue
            order = order_of(rows[query].tolist(), right)
            expected = [metric(*_parsed(name), order, right) for name in names]
            assert values[query] == pytest.approx(expected, abs=1e-9)
            hits = [candidate in right for candidate in order[: len(right)]]
            assert precision[query] == pytest.approx(sum(hits) / len(right), abs=1e-9)
            means = [sum(hits[: i + 1]) / (i + 1) for i, hit in enumerate(hits) if hit]
            assert first_r[query] == pytest.approx(sum(means) / len(right), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_metrics_of_group_expanded_runs_equal_ir_measures(seed):
    """Odd seeds have many ties. ir_measures gets distinct scores in the order in which ties count here."""
    theirs = pytest.importorskip("ir_measures")
    random = np.random.default_rng(seed)
    owner = random.integers(0, 20, 50)
    relevance = widened(owner, 20, groups=random.integers(0, 7, 20))
    if seed % 2:
        sides = [random.integers(-1, 2, (rows, 3)).astype(np.float32) for rows in (20, 50)]
    else:
        sides = [unit(random.normal(size=(rows, 9))) for rows in (20, 50)]
    scores = check_scores([EmbeddingPair(*sides)])
    ranks = rank(scores, relevance)
    matrix = scores.exact(slice(None)).numpy()
    names = {"ndcg@10": "nDCG@10", "mrr": "RR", "map": "AP", "recall@5": "R@5", "success@10": "Success@10"}
    names["r-precision"] = "Rprec"
    for relation, ranked, rows in ((relevance.i2t, ranks.i2t, matrix), (relevance.t2i, ranks.t2i, matrix.T)):
        values = query_values(list(names), relation, ranked)
        qrels = {}
        for query, candidate in zip(relation.queries.tolist(), relation.candidates.tolist(), strict=True):
            qrels.setdefault(str(query), {})[str(candidate)] = 1
        run = {}
        for query, right in qrels.items():
            order = order_of(rows[int(query)].tolist(), {int(candidate): 1 for candidate in right})
            run[query] = {str(candidate): float(-place) for place, candidate in enumerate(order)}
        measures = {theirs.parse_measure(name): column for column, name in enumerate(names.values())}
        for found in theirs.iter_calc(list(measures), qrels, run):
            assert values[int(found.query_id), measures[found.measure]] == pytest.approx(
                found.value, abs=1e-9
            )


@pytest.mark.parametrize("seed", range(3))
def test_identities_as_groups_give_cuhk_pedess_recalls(seed):
    """Text→image R@K of person search: a hit is any picture of the described person among the first K."""
    random = np.random.default_rng(seed)
    person = np.sort(random.integers(0, 40, 90))
    owner = np.repeat(np.arange(90), 2)
    of_person = random.normal(size=(40, 12))
    images = unit(of_person[person] + random.normal(size=(90, 12)))
    texts = unit(of_person[person[owner]] + random.normal(size=(180, 12)))
    metrics = ensemble_metrics(
        [EmbeddingPair(images, texts)], owner, relevance=widened(owner, 90, groups=person)
    )
    scores = check_scores([EmbeddingPair(images, texts)]).exact(slice(None)).numpy().T
    for k in (1, 5, 10):
        hits = 0
        for text, row in enumerate(scores.tolist()):
            best = sorted(range(90), key=lambda image: -row[image])[:k]
            hits += any(person[image] == person[owner[text]] for image in best)
        assert metrics[f"t2i_r{k}"] == pytest.approx(100 * hits / len(scores), abs=1e-9)


def _parsed(name):
    name, _, cutoff = name.partition("@")
    return name, int(cutoff) if cutoff else float("inf")


def test_too_many_matching_pairs_are_refused(monkeypatch):
    monkeypatch.setattr(relations, "MOST_PAIRS", 15)
    with pytest.raises(InputError, match="16 pairs match; expected at most 15"):
        widened(np.arange(4), 4, captions=["a photo"] * 4)
    monkeypatch.setattr(relations, "MOST_PAIRS", 16)
    assert widened(np.arange(4), 4, captions=["a photo"] * 4).t2i.sizes.tolist() == [4] * 4


def test_equal_texts_are_reported_from_more_than_one_percent():
    captions = ["a shoe", "a shoe", *(f"shoe {number}" for number in range(198))]
    assert equal_text_count(captions, np.arange(200)) == 0
    assert equal_text_count(captions[:199], np.arange(199)) == 2


def test_no_pair_is_relevant_twice_and_labels_are_the_default():
    owner = np.array([2, 0, 2])
    labels = Relevance.of_labels(owner, 3)
    alone = widened(owner, 3)
    for plain, wide in ((labels.i2t, alone.i2t), (labels.t2i, alone.t2i)):
        assert triples(plain) == triples(wide)
        assert len(wide.queries) == len(set(zip(wide.queries, wide.candidates, strict=True)))


def test_the_bootstrap_draws_whole_groups():
    """Images of a group hit or miss together, so the interval is that of 25 groups, not of 100 images."""
    random = np.random.default_rng(0)
    hit = np.repeat(random.random(25) < 0.5, 4)
    ranks = np.where(hit, 0, 20)
    owner = np.arange(100)
    groups = owner // 4
    by_group = recall_intervals(count_hits(ranks, ranks, owner, groups))
    by_image = recall_intervals(count_hits(ranks, ranks, owner))
    np.testing.assert_allclose(by_group[:, 0], by_image[:, 0])
    of_25 = recall_intervals(count_hits(ranks[::4], ranks[::4], np.arange(25)))
    np.testing.assert_allclose(by_group, of_25)
    assert by_group[0, 2] - by_group[0, 1] > 1.5 * (by_image[0, 2] - by_image[0, 1])
