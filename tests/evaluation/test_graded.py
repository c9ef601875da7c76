"""nDCG, MRR, MAP, recall and success of graded judgements against loops, and against pytrec_eval where it is installed."""

import numpy as np
import pytest

from coder_core.evaluation.graded import LISTED, graded_values, judged_ranks, parse_metric
from coder_core.evaluation.recall import ensemble_metrics, five_fold
from coder_core.evaluation.sources import EmbeddingPair, ScoreMatrix
from coder_core.evaluation.tiles import EVERY, score_tiles
from tests.reference.graded import label_means, metric, order_of

NAMES = [
    "ndcg@1",
    "ndcg@10",
    "ndcg",
    "mrr@10",
    "mrr",
    "map",
    "recall@5",
    "recall@100",
    "success@1",
    "success@10",
]
TREC = {"ndcg@10": "ndcg_cut_10", "ndcg": "ndcg", "mrr": "recip_rank", "map": "map"}
TREC |= {
    "recall@5": "recall_5",
    "recall@100": "recall_100",
    "success@1": "success_1",
    "success@10": "success_10",
}


def judged(seed):
    """Scores (distinct for even seeds, few levels for odd ones), and query → document → grade of each direction; −1 is
    a document that does not exist."""
    rng = np.random.default_rng(seed)
    n, m, levels = int(rng.integers(2, 40)), int(rng.integers(2, 300)), int(rng.integers(1, 4))
    if seed % 2:
        sides = [rng.integers(0, levels, (rows, 3)).astype(np.float32) for rows in (n, m)]
    else:
        sides = [rng.normal(size=(rows, 8)).astype(np.float32) for rows in (n, m)]
    tiles = score_tiles([EmbeddingPair(*sides)], rng.integers(0, n, m))
    grades = {}
    for way, (queries, documents) in {"i2t": (n, m), "t2i": (m, n)}.items():
        grades[way] = {
            query: {
                int(rng.integers(-1, documents)): int(rng.integers(-1, 4)) for _ in range(rng.integers(1, 30))
            }
            for query in range(0, queries, 2)
        }
    return tiles, grades


def values_of(tiles, way, grades):
    triples = np.array([(q, d, g) for q, of_query in grades.items() for d, g in of_query.items()]).T
    ranks = judged_ranks(tiles, *triples, by_image=way == "i2t")
    return graded_values(NAMES, triples[0], triples[2], ranks)


@pytest.mark.parametrize("seed", range(24))
def test_graded_metrics_equal_the_loops_on_distinct_and_on_tied_scores(seed):
    tiles, judgements = judged(seed)
    for way, grades in judgements.items():
        rows = tiles.exact(EVERY, EVERY).numpy()
        rows = rows if way == "i2t" else rows.T
        queries, values = values_of(tiles, way, grades)
        assert queries.tolist() == sorted(grades)
        for query, actual in zip(queries.tolist(), values.tolist(), strict=True):
            order = order_of(rows[query].tolist(), grades[query])
            expected = [metric(*parse_metric(name), order, grades[query]) for name in NAMES]
            assert actual == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_graded_metrics_equal_those_of_trec_eval(seed):
    """Equal scores are given to it as the order in which ties are counted here."""
    theirs = pytest.importorskip("pytrec_eval")
    tiles, judgements = judged(seed)
    rows = tiles.exact(EVERY, EVERY).numpy()
    for way, grades in judgements.items():
        queries, values = values_of(tiles, way, grades)
        runs = {}
        for query in queries.tolist():
            scores = (rows if way == "i2t" else rows.T)[query].tolist()
            order = order_of(scores, grades[query])
            runs[str(query)] = {str(document): float(-place) for place, document in enumerate(order)}
        qrels = {str(q): {str(d): g for d, g in of_query.items()} for q, of_query in grades.items()}
        evaluator = theirs.RelevanceEvaluator(
            qrels, {"ndcg", "ndcg_cut", "recip_rank", "map", "recall", "success"}
        )
        expected = evaluator.evaluate(runs)
        for name, key in TREC.items():
            of_queries = [expected[str(query)][key] for query in queries.tolist()]
            assert values[:, NAMES.index(name)] == pytest.approx(of_queries, abs=1e-9)


@pytest.mark.parametrize(("ties", "sign"), [("pessimistic", 1), ("optimistic", -1)])
def test_mrr_and_ndcg_of_the_labels_follow_the_loops_in_ensembles_and_in_folds(ties, sign):
    rng = np.random.default_rng(7)
    owner = np.sort(rng.integers(0, 23, 300))  # the last image has no caption
    halves = rng.integers(0, 4, (2, 24, 300)).astype(np.float32)
    sources = [ScoreMatrix(half, 0.5) for half in halves]
    scores = halves.mean(0, dtype=np.float64)
    parts = [np.isin(owner, images) for images in np.split(np.arange(24), 2)]
    folds = [
        label_means(scores[12 * k : 12 * k + 12, part].tolist(), (owner[part] - 12 * k).tolist(), sign)
        for k, part in enumerate(parts)
    ]
    whole = label_means(scores.tolist(), owner.tolist(), sign)
    means = {key: (folds[0][key] + folds[1][key]) / 2 for key in whole}
    for actual, expected in (
        (ensemble_metrics(sources, owner, ties=ties, best=LISTED), whole),
        (five_fold(sources, owner, ties=ties, folds=2, size=12), means),
    ):
        assert {key: actual[key] for key in expected} == pytest.approx(expected, abs=1e-9)
    assert "i2t_ndcg10" not in ensemble_metrics(sources, owner)  # the trainer does without


@pytest.mark.parametrize("text", ["map@10", "recall", "success", "ndcg@0", "ndcg@", "r@1"])
def test_other_names_are_no_metrics(text):
    with pytest.raises(ValueError, match=text):
        parse_metric(text)
