"""Metrics for graded judgements over all candidates, as in trec_eval: nDCG@k, MRR@k, MAP, Recall@k and Success@k.

The gain of a document is its grade (0 if negative), its discount is log2(rank + 1), and it is relevant from grade 1. A
query without a relevant document counts as 0. Ties are pessimistic: among equal scores, documents that are not relevant
come first, then lower grades. trec_eval puts the later document id first instead, so it may give other values for a run
with ties.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

RECALL_AT = (1, 5, 10)
LISTED = 10  # number of results that count for nDCG@10
METRICS = "ndcg@k, mrr@k, map, recall@k, success@k"
_LABELS = {"ndcg": "nDCG", "mrr": "MRR", "map": "MAP", "recall": "Recall", "success": "Success"}


def parse_metric(text: str) -> tuple[str, float]:
    """Split a metric into its name and cutoff, which is infinite if omitted. ValueError: it is not one of `METRICS`.

    >>> parse_metric("nDCG@10")
    ('ndcg', 10)
    """
    match = re.fullmatch(r"(ndcg|mrr|recall|success)@([1-9]\d{0,8})|(ndcg|mrr|map)", text.lower())
    if match is None:
        raise ValueError(text)
    return (match[1], int(match[2])) if match[1] else (match[3], math.inf)


def metric_label(text: str) -> str:
    """Return the usual spelling of a metric.

    >>> metric_label("ndcg@10")
    'nDCG@10'
    """
    name, at, k = text.lower().partition("@")
    return f"{_LABELS[name]}{at}{k}"


def graded_values(
    metrics: Sequence[str], queries: np.ndarray, grades: np.ndarray, ranks: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return (Q,) the judged queries, ascending, and (Q, metrics) the metrics of each, from 0 to 1.

    >>> ranks = np.array([0.0, 3.0, np.inf])
    >>> graded_values(["map", "recall@2", "mrr"], np.array([5, 5, 7]), np.array([1, 2, 1]), ranks)[1]
    array([[0.75, 0.5 , 1.  ],
           [0.  , 0.  , 0.  ]])

    Args:
        metrics: any of `METRICS`. queries, grades: (P,) int64. ranks: (P,) from `ranking.judged_ranks`.
    """
    asking, query = np.unique(queries, return_inverse=True)
    gains = np.maximum(grades, 0).astype(float)
    relevant = grades > 0

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(query, values, len(asking))

    def places(key: np.ndarray) -> np.ndarray:
        """Return (P,) the position of every pair among its query's pairs, in ascending order of `key`."""
        order = np.lexsort((key, query))
        starts = np.searchsorted(query[order], np.arange(len(asking)))
        position = np.empty(len(query))
        position[order] = np.arange(len(query)) - starts[query[order]]
        return position

    count = total(relevant)
    ideal = places(-gains)
    precision = (places(ranks) + 1) / (ranks + 1)
    columns = []
    for name, k in map(parse_metric, metrics):
        within = ranks < k
        if name == "ndcg":
            best = total(gains / np.log2(ideal + 2) * (ideal < k))
            columns.append((total(gains / np.log2(ranks + 2) * within), best))
        elif name == "map":
            columns.append((total(precision * within), count))
        elif name == "recall":
            columns.append((total(within), count))
        else:
            first = np.full(len(asking), np.inf)
            np.minimum.at(first, query, np.where(within, ranks, np.inf))
            columns.append((1 / (first + 1) if name == "mrr" else np.isfinite(first), np.ones(len(asking))))
    values = [np.divide(above, below, out=np.zeros(len(asking)), where=below > 0) for above, below in columns]
    return asking, np.stack(values, 1)


def label_metrics(
    ranks: Any, image_of_text: np.ndarray, captions: np.ndarray | slice = slice(None)
) -> dict[str, float]:
    """Return MRR and nDCG@10 in percent with the labels as grades, over `captions` and their images: i2t_mrr,
    i2t_ndcg10, t2i_mrr, t2i_ndcg10.

    >>> from coder_core.evaluation.ranking import rank
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> scores = score_tiles([ScoreMatrix(np.array([[0.9, 0.8], [0.1, 0.2]]))], [0, 1])  # caption 1 prefers image 0
    >>> label_metrics(rank(scores), np.array([0, 1]))["t2i_mrr"]
    75.0
    """
    values = label_values(ranks, image_of_text)
    images = np.unique(np.asarray(image_of_text)[captions])
    return {
        f"{way}_{name}": 100 * float(column.mean())
        for way, queries in (("i2t", images), ("t2i", captions))
        for name, column in zip(("mrr", "ndcg10"), values[way][queries].T, strict=True)
    }


def label_values(ranks: Any, image_of_text: np.ndarray) -> dict[str, np.ndarray]:
    """Return reciprocal rank and nDCG@10 with the labels as grades, from 0 to 1: "i2t" (n, 2) and "t2i" (m, 2); 0 for
    an image without captions.

    >>> from types import SimpleNamespace
    >>> best = np.array([1, 0])  # both images list caption 1 first, both captions image 1
    >>> ranks = SimpleNamespace(image_ranks=best, text_ranks=best, image_hits=np.array([[0, 1], [1, 0]]))
    >>> label_values(ranks, np.array([0, 1]))["t2i"].round(3).tolist()
    [[0.5, 0.631], [1.0, 1.0]]

    Args:
        ranks: `Ranks` or an analysis; only image_ranks, text_ranks and image_hits are read.
        image_of_text: (m,) the image of every caption.
    """
    hits = ranks.image_hits
    of_text = np.asarray(ranks.text_ranks)
    of_image = np.where(np.asarray(ranks.image_ranks) < 0, np.inf, ranks.image_ranks)
    ndcg = listed_ndcg(hits, np.bincount(image_of_text, minlength=len(hits)))
    gains = np.where(of_text < LISTED, 1 / np.log2(of_text + 2), 0)
    return {"i2t": np.stack([1 / (of_image + 1), ndcg], 1), "t2i": np.stack([1 / (of_text + 1), gains], 1)}


def listed_ndcg(hits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return (Q,) nDCG@k of queries whose positives all have the same grade.

    >>> listed_ndcg(np.array([[0, 1, 0], [1, 1, 0]]), np.array([1, 2])).round(3).tolist()
    [0.631, 1.0]

    Args:
        hits: (Q, k) true where a result is a positive. counts: (Q,) number of positives of each query.
    """
    discounts = 1 / np.log2(np.arange(2, hits.shape[1] + 2))
    return np.asarray(hits @ discounts / np.cumsum(discounts)[np.minimum(counts, len(discounts)) - 1])
