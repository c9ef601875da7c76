"""Metrics of graded judgements and of positives beyond the labels, against loops and other programs."""

from math import inf

import numpy as np
import pytest

from coder_core.evaluation.metrics import parse_metric, query_values
from coder_core.evaluation.rank_metrics import extended_metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import ensemble_metrics, five_fold
from coder_core.evaluation.relevance import LABEL, Relation, Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from tests.reference.graded import label_means, metric, order_of

TREC = {"ndcg@10": "ndcg_cut_10", "ndcg": "ndcg", "mrr": "recip_rank", "map": "map"}
TREC |= {name: name.replace("@", "_") for name in ("recall@5", "recall@100", "success@1", "success@10")}
NAMES = ["ndcg@1", "mrr@10", *TREC]


def judged(seed):
    """Draw scores (distinct for even seeds, few levels for odd ones) and grades (direction → query → document → grade);
    −1 is a document that does not exist."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    m = int(rng.integers(2, 300))
    levels = int(rng.integers(1, 4))
    if seed % 2:
        sides = [rng.integers(0, levels, (rows, 3)).astype(np.float32) for rows in (n, m)]
    else:
        sides = [rng.normal(size=(rows, 8)).astype(np.float32) for rows in (n, m)]
    scored = check_scores([EmbeddingPair(*sides)])
    owner = rng.integers(0, n, m)
    grades = {}
    for way, (queries, documents) in {"i2t": (n, m), "t2i": (m, n)}.items():
        grades[way] = {query: {} for query in range(0, queries, 2)}
        for of_query in grades[way].values():
            for _ in range(rng.integers(1, 30)):
                of_query[int(rng.integers(-1, documents))] = int(rng.integers(-1, 4))
    return scored, owner, grades


def values_of(scored, judgements):
    """Return the values of the judged queries, direction → (Q, metrics)."""
    relations = []
    for grades, count in zip((judgements["i2t"], judgements["t2i"]), scored.shape, strict=True):
        triples = np.array([(q, d, g) for q, of_query in grades.items() for d, g in of_query.items()]).T
        relations.append(Relation.of(*triples[:2], grades=triples[2], queries_in_all=count))
    ranks = rank(check_scores(scored.sources), Relevance(*relations), best=0)
    values = [query_values(NAMES, *pair) for pair in zip(relations, (ranks.i2t, ranks.t2i), strict=True)]
    for relation, of_split in zip(relations, values, strict=True):
        assert np.isnan(of_split).all(1).nonzero()[0].tolist() == sorted(
            {*range(relation.count)} - {*relation.queries}
        )
    return {way: of[~np.isnan(of[:, 0])] for way, of in zip(("i2t", "t2i"), values, strict=True)}


@pytest.mark.parametrize("seed", range(24))
def test_graded_metrics_equal_the_loops_on_distinct_and_on_tied_scores(seed):
    scored, owner, judgements = judged(seed)
    scores = scored.exact(slice(None)).numpy()
    for way, values in values_of(scored, judgements).items():
        rows = scores if way == "i2t" else scores.T
        grades = judgements[way]
        for query, actual in zip(sorted(grades), values.tolist(), strict=True):
            order = order_of(rows[query].tolist(), grades[query])
            expected = [metric(*parse_metric(name), order, grades[query]) for name in NAMES]
            assert actual == pytest.approx(expected, abs=1e-9)
    expected = label_means(scores.tolist(), owner.tolist())
    actual = ensemble_metrics(scored.sources, owner)
    assert {name: actual[name] for name in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_graded_metrics_equal_those_of_trec_eval(seed):
    """trec_eval gets equal scores as distinct ones, in the order in which ties count here."""
    theirs = pytest.importorskip("pytrec_eval")
    scored, _, judgements = judged(seed)
    rows = scored.exact(slice(None)).numpy()
    for way, values in values_of(scored, judgements).items():
        grades = judgements[way]
        queries = sorted(grades)
        runs = {}
        for query in queries:
            order = order_of((rows if way == "i2t" else rows.T)[query].tolist(), grades[query])
            runs[str(query)] = {str(document): float(-place) for place, document in enumerate(order)}
        qrels = {str(q): {str(d): g for d, g in of_query.items()} for q, of_query in grades.items()}
        measures = {"ndcg", "ndcg_cut", "recip_rank", "map", "recall", "success"}
        expected = theirs.RelevanceEvaluator(qrels, measures).evaluate(runs)
        for name, key in TREC.items():
            of_queries = [expected[str(query)][key] for query in queries]
            assert values[:, NAMES.index(name)] == pytest.approx(of_queries, abs=1e-9)


@pytest.mark.parametrize(("ties", "sign"), [("pessimistic", 1), ("optimistic", -1)])
def test_label_mrr_and_ndcg_match_loops_in_ensembles_and_folds(ties, sign):
    rng = np.random.default_rng(7)
    owner = np.sort(rng.integers(0, 23, 300))  # the last image has no caption
    halves = rng.integers(0, 4, (2, 24, 300)).astype(np.float32)
    sources = [ScoreMatrix(half, 0.5) for half in halves]
    scores = halves.mean(0, dtype=np.float64)
    folds = []
    for k in (0, 12):
        part = (owner >= k) & (owner < k + 12)
        folds.append(label_means(scores[k : k + 12, part].tolist(), (owner[part] - k).tolist(), sign))
    whole = label_means(scores.tolist(), owner.tolist(), sign)
    means = {key: (folds[0][key] + folds[1][key]) / 2 for key in whole}
    for actual, expected in (
        (ensemble_metrics(sources, owner, ties=ties), whole),
        (five_fold(sources, owner, ties=ties, folds=2, size=12), means),
    ):
        assert {key: actual[key] for key in expected} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("text", ["map@10", "recall", "success", "ndcg@0", "ndcg@", "r@1"])
def test_unknown_metric_names_are_refused(text):
    with pytest.raises(ValueError, match=text):
        parse_metric(text)


def by_loops(scores, positives, way):
    """Return the metrics of scores (n, m) with positives, pairs (text, image), by loops."""
    measures = {f"r{k}": ("success", k) for k in (1, 5, 10)} | {"mrr": ("mrr", inf), "ndcg10": ("ndcg", 10)}
    of_query = {}
    for pair in positives:
        query, answer = pair[::-1] if way == "i2t" else pair
        of_query.setdefault(query, {})[answer] = 1
    of_queries = []
    for query, grades in of_query.items():
        order = order_of((scores if way == "i2t" else scores.T)[query].tolist(), grades)
        hits = [candidate in grades for candidate in order]
        r = len(grades)
        values = {"map_at_r": sum(sum(hits[:i]) / i for i in range(1, r + 1) if hits[i - 1]) / r}
        values |= {"r_precision": sum(hits[:r]) / r}
        values |= {f"extended_{name}": metric(*of_all, order, grades) for name, of_all in measures.items()}
        of_queries.append(values)
    return {f"{way}_{name}": 100 * np.mean([values[name] for values in of_queries]) for name in values}


def test_ranking_only_the_labels_perfectly_leaves_map_at_r_low():
    """R@1 is 100 and mAP@R far lower, as ECCV Caption was made to show. Four images match all captions."""
    everything = np.stack(np.meshgrid(np.arange(20), np.arange(4)), -1).reshape(-1, 2)
    labels = np.stack([np.arange(20), np.arange(20)], 1)
    relevance = Relevance.of_pairs({LABEL: np.concatenate([labels, everything])}, images=20, texts=20)
    scored = check_scores([ScoreMatrix(np.eye(20, dtype=np.float32))])
    metrics = extended_metrics(rank(scored, relevance), relevance)
    assert metrics["t2i_extended_r1"] == 100
    assert metrics["t2i_map_at_r"] < 60
    elsewhere = np.stack([np.arange(12), (np.arange(12) + 1) % 12], 1)  # all scores equal: none is found
    relevance = Relevance.of_pairs({LABEL: elsewhere}, images=12, texts=12)
    scored = check_scores([ScoreMatrix(np.zeros((12, 12), np.float32))])
    metrics = extended_metrics(rank(scored, relevance), relevance)
    assert metrics["i2t_extended_mrr"] == pytest.approx(100 / 12)  # the last place
    assert set(metrics.values()) == {0.0, metrics["i2t_extended_mrr"]}


@pytest.mark.parametrize("seed", range(30))
def test_extended_metrics_match_loops_and_ties_count_against_positives(seed):
    """The first two seeds have distinct scores. With the others, more candidates than a list holds tie with its last
    entry, among them positives beyond the labels."""
    rng = np.random.default_rng(seed)
    n = rng.integers(2, 40)
    m = rng.integers(2, 60)
    levels = 1000 if seed < 2 else rng.integers(1, 4)
    if seed % 2:
        sources = [ScoreMatrix(rng.integers(0, levels, (n, m)).astype(np.float32))]
    else:
        sources = [EmbeddingPair(*(rng.integers(0, levels, (rows, 3)).astype(np.float32) for rows in (n, m)))]
    owner = rng.integers(0, n, m)
    labels = np.stack([np.arange(m), owner], 1)
    extra = np.stack([rng.integers(0, m, 2 * m), rng.integers(0, n, 2 * m)], 1)
    positives = np.concatenate([labels, extra, extra[:5]])
    positives = positives[positives[:, 1] < max(1, n - 1)]  # the last image has none
    scored = check_scores(sources)
    scores = scored.exact(slice(None)).numpy()
    pairs = set(map(tuple, positives.tolist()))
    expected = by_loops(scores, pairs, "i2t") | by_loops(scores, pairs, "t2i")
    relevance = Relevance.of_pairs({LABEL: positives}, n, m)
    assert extended_metrics(rank(scored, relevance), relevance) == pytest.approx(expected)
