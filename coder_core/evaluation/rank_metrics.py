"""Metrics of a split by its ranks: R@K, MRR, nDCG@10, MedR, MeanR, R@sum. Section 4 of docs/equations.md.

Uses only NumPy, so that the app need not load torch.
"""

from __future__ import annotations

import numpy as np

from coder_core.evaluation.metrics import LISTED, RECALL_AT, UNLISTED, Ranked, Ranks, query_values
from coder_core.evaluation.relevance import Relation, Relevance

Metrics = dict[str, float]


def rank_metrics(ranks: Ranks, relevance: Relevance) -> Metrics:
    """Return the metrics of `metrics_of` that need only ranks: all except MD. Queries without a right answer do not
    count. A direction without a query that counts has no metrics.

    >>> from coder_core.evaluation.ranking import rank
    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> scores = check_scores([ScoreMatrix(np.array([[0.75, 0.25], [0.8, 0.75]]))])
    >>> labels = Relevance.of_labels(np.array([0, 1]), images=2)
    >>> rank_metrics(rank(scores, labels), labels)["t2i_r1"]
    50.0
    """
    ways: dict[str, tuple[Ranked, Relation]] = {
        "i2t": (ranks.i2t, relevance.i2t),
        "t2i": (ranks.t2i, relevance.t2i),
    }
    ways = {way: pair for way, pair in ways.items() if (pair[0].first >= 0).any()}
    metrics = query_metrics(ranks.i2t.first, ranks.t2i.first)
    for way, (ranked, _) in ways.items():
        tied = ranked.ties[ranked.first >= 0] > 0
        metrics[f"{way}_ties"] = 100.0 * float(np.sum(tied)) / len(tied)
    for way, (ranked, relation) in ways.items():
        values = query_values(("mrr", f"ndcg@{LISTED}"), relation, ranked)
        counted = values[ranked.first >= 0]
        metrics[f"{way}_mrr"], metrics[f"{way}_ndcg{LISTED}"] = (100 * float(of.mean()) for of in counted.T)
    return metrics


EXTENDED = {
    "map_at_r": "map@r",
    "r_precision": "r-precision",
    **{f"extended_r{k}": f"success@{k}" for k in RECALL_AT},
    "extended_mrr": "mrr",
    f"extended_ndcg{LISTED}": f"ndcg@{LISTED}",
}
"""Names, in a run's metrics, of the measures by judgments beyond the labels."""


def extended_values(ranks: Ranks, relevance: Relevance) -> dict[str, np.ndarray]:
    """Return "i2t" (n, 7) and "t2i" (m, 7): the measures `EXTENDED` of every query, from 0 to 1, of ranks by a relevance;
    NaN for a query without a judgment.

    >>> from coder_core.evaluation.ranking import rank
    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> scores = check_scores([ScoreMatrix(np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.6]]))])
    >>> relevance = Relevance.of_pairs({0: np.array([[0, 0], [1, 1], [2, 0]])}, images=2, texts=3)
    >>> extended_values(rank(scores, relevance), relevance)["t2i"][:, 0].tolist()  # mAP@R of three captions
    [1.0, 1.0, 0.0]
    """
    measures = list(EXTENDED.values())
    return {
        "i2t": query_values(measures, relevance.i2t, ranks.i2t),
        "t2i": query_values(measures, relevance.t2i, ranks.t2i),
    }


def extended_metrics(ranks: Ranks, relevance: Relevance) -> Metrics:
    """Return the means of `EXTENDED` over the judged queries in percent: i2t_map_at_r, i2t_r_precision, i2t_extended_r1,
    …_r5, …_r10, …_mrr, …_ndcg10; same for t2i. A direction without a judged query has none.

    >>> from coder_core.evaluation.ranking import rank
    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> scores = check_scores([ScoreMatrix(np.array([[0.9, 0.1, 0.5], [0.2, 0.8, 0.6]]))])
    >>> pairs = np.array([[0, 0], [1, 1], [2, 1], [2, 0]])  # caption 2 fits both images
    >>> relevance = Relevance.of_pairs({0: pairs}, images=2, texts=3)
    >>> metrics = extended_metrics(rank(scores, relevance), relevance)
    >>> metrics["i2t_map_at_r"], metrics["t2i_r_precision"]
    (100.0, 100.0)
    """
    metrics: Metrics = {}
    for way, values in extended_values(ranks, relevance).items():
        judged = values[~np.isnan(values[:, 0])]
        if len(judged):
            means = 100 * judged.mean(0)
            metrics |= {f"{way}_{name}": float(mean) for name, mean in zip(EXTENDED, means, strict=True)}
    return metrics


def query_metrics(image_ranks: np.ndarray, text_ranks: np.ndarray) -> Metrics:
    """Compute R@K, MedR, MeanR and R@sum; rank −1 is a query without a right answer. A direction without a query has no
    metrics, and R@sum needs both. MeanR exists if a right answer of every query is listed, MedR if that of half of them is.

    >>> query_metrics(np.array([0, 6, -1]), np.array([2]))["rsum"]
    400.0
    >>> query_metrics(np.array([-1]), np.array([0, 2, UNLISTED]))
    {'t2i_r1': 33.333333333333336, 't2i_r5': 66.66666666666667, 't2i_r10': 66.66666666666667, 't2i_medr': 3.0}
    """
    ways = {"i2t": image_ranks[image_ranks >= 0], "t2i": text_ranks[text_ranks >= 0]}
    asked = {way: ranks for way, ranks in ways.items() if len(ranks)}
    metrics: Metrics = {}
    for way, ranks in asked.items():
        metrics |= _one_way(way, ranks)
    return with_rsum(metrics) if len(asked) == len(ways) else metrics


def with_rsum(metrics: Metrics) -> Metrics:
    """Return metrics with R@sum, the sum of their six recalls.

    >>> with_rsum({f"{way}_r{k}": 50.0 for way in ("i2t", "t2i") for k in RECALL_AT})["rsum"]
    300.0
    """
    return metrics | {"rsum": float(sum(metrics[f"{way}_r{k}"] for way in ("i2t", "t2i") for k in RECALL_AT))}


def _one_way(way: str, ranks: np.ndarray) -> Metrics:
    metrics = {f"{way}_r{k}": 100.0 * float(np.sum(ranks < k)) / len(ranks) for k in RECALL_AT}
    middle = np.sort(ranks)[len(ranks) // 2]
    if middle < UNLISTED:
        metrics[f"{way}_medr"] = float(np.floor(np.median(ranks)) + 1)
    if ranks.max() < UNLISTED:
        metrics[f"{way}_meanr"] = float(np.mean(ranks) + 1)
    return metrics
