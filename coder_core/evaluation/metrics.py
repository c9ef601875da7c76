"""Metrics of ranked results: R@K and the metrics of trec_eval and ECCV Caption, from ranks and a relation of relevance.

The gain of a candidate is its grade (0 if negative), its discount is log2(rank + 1), and it is relevant from grade 1. A
judged query without a relevant candidate counts as 0, a query without a judgment does not count. Ties are pessimistic:
among equal scores, candidates that are not relevant come first, then lower grades. trec_eval puts the later document id
first instead, so it may give other values for a run with ties. Uses only NumPy, so that the app need not load torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coder_core.evaluation.relevance import Relation
from coder_core.evaluation.sources import TILE_ELEMENTS, Array, slices

RECALL_AT = (1, 5, 10)
LISTED = 10  # number of results that count for nDCG@10
UNLISTED = int(np.iinfo(np.int32).max)
"""First rank of a query whose right candidates are all missing in another system's list: a miss at any K."""
METRICS = "ndcg@k, mrr@k, map, map@r, r-precision, recall@k, success@k"
_LABELS = {
    "ndcg": "nDCG",
    "mrr": "MRR",
    "map": "MAP",
    "map@r": "mAP@R",
    "r-precision": "R-Precision",
    "recall": "Recall",
    "success": "Success",
}


@dataclass(frozen=True)
class Ranked:
    """Ranks of one direction; 0 is first."""

    # (P,) float64, rank of every relevant pair of the relation among all candidates; inf for any other pair, and for a
    # candidate outside the split
    ranks: Array
    # (Q,) int64, rank of the best relevant candidate; −1 for a query without one, `UNLISTED` if no list contains one
    first: Array
    ties: Array  # (Q,) int64, candidates that are not relevant and score exactly like the best relevant one
    best: Array  # (Q, k) int32, the best candidates, best first; −1 after the end of another system's list
    own: Array  # (P,) float32, exact score of every relevant pair; NaN for any other


@dataclass(frozen=True)
class Ranks:
    """Ranks of both directions: images as queries for captions, captions as queries for images."""

    i2t: Ranked
    t2i: Ranked


def parse_metric(text: str) -> tuple[str, float]:
    """Split a metric into its name and cutoff, which is infinite if omitted. ValueError: it is not one of `METRICS`.

    >>> parse_metric("nDCG@10")
    ('ndcg', 10)
    """
    name = text.lower()
    if name in ("ndcg", "mrr", "map", "map@r", "r-precision"):
        return name, math.inf
    match = re.fullmatch(r"(ndcg|mrr|recall|success)@([1-9]\d{0,8})", name)
    if match is None:
        raise ValueError(text)
    return match[1], int(match[2])


def metric_label(text: str) -> str:
    """Return the usual spelling of a metric.

    >>> metric_label("ndcg@10")
    'nDCG@10'
    """
    name, cutoff = parse_metric(text)
    return _LABELS[name] + (f"@{cutoff}" if math.isfinite(cutoff) else "")


def query_values(measures: Sequence[str], relation: Relation, ranked: Ranked) -> Array:
    """Return (Q, measures) values of every query, from 0 to 1; NaN for a query without a judgment.

    R is the number of a query's relevant candidates. R-Precision is the share of these among the first R results, and
    mAP@R is (1/R) Σ P(i) · rel(i) over i = 1 … R, where P(i) is the precision at i and rel(i) is 1 if result i is
    relevant, else 0 (Musgrave et al. 2020; for captions Chun et al. 2022, ECCV Caption). Success@K is the share of
    queries with any relevant candidate among the first K, which is R@K in image-text retrieval.

    >>> relation = Relation.of(np.array([0, 0, 1]), np.arange(3), grades=np.array([1, 2, 1]), queries_in_all=2)
    >>> nothing = np.empty((2, 0))
    >>> ranked = Ranked(np.array([0, 3, np.inf]), nothing, nothing, nothing, nothing)
    >>> query_values(["map", "recall@2", "mrr"], relation, ranked)
    array([[0.75, 0.5 , 1.  ],
           [0.  , 0.  , 0.  ]])

    Args:
        measures: any of `METRICS`.
    """
    judged = _Judged(relation, ranked.ranks)
    values = np.empty((relation.count, len(measures)))
    for column, (name, cutoff) in enumerate(map(parse_metric, measures)):
        values[:, column] = judged.values(name, cutoff)
    unjudged = np.bincount(relation.queries, minlength=relation.count) == 0
    values[unjudged] = np.nan
    return values


class _Judged:
    """The pairs of a relation with their ranks, and sums over the pairs of every query."""

    def __init__(self, relation: Relation, ranks: Array) -> None:
        self.query = relation.queries
        self.count = relation.count
        self.sizes = relation.sizes
        self.gains = np.maximum(relation.grades, 0).astype(float)
        self.ranks = ranks

    def values(self, name: str, cutoff: float) -> Array:
        """Return (Q,) values of a measure."""
        within = self.ranks < (self.sizes[self.query] if name in ("map@r", "r-precision") else cutoff)
        if name == "ndcg":
            return self._share(self._discounted(within, cutoff), self.ideal(cutoff))
        if name in ("map", "map@r"):
            precision = (self._places(self.ranks) + 1) / (self.ranks + 1)
            return self._share(self._total(precision * within), self.sizes)
        if name in ("recall", "r-precision"):
            return self._share(self._total(within), self.sizes)
        first = np.full(self.count, np.inf)
        np.minimum.at(first, self.query[within], self.ranks[within])
        return 1 / (first + 1) if name == "mrr" else np.isfinite(first).astype(float)

    def _total(self, values: Array) -> Array:
        return np.bincount(self.query, values, self.count)

    def _share(self, part: Array, whole: Array) -> Array:
        return np.divide(part, whole, out=np.zeros(self.count), where=whole > 0)

    def _places(self, key: Array) -> Array:
        """Return (P,) the position of every pair among its query's pairs, in ascending order of `key`."""
        order = np.lexsort((key, self.query))
        position = np.empty(len(order))
        position[order] = np.arange(len(order)) - np.searchsorted(self.query, self.query)
        return position

    def _discounted(self, within: Array, cutoff: float) -> Array:
        """Return (Q,) the discounted gain of the first results."""
        if not math.isfinite(cutoff):
            return self._total(self.gains / np.log2(self.ranks + 2) * within)
        query = self.query[within]
        rank = self.ranks[within].astype(np.int64)
        gains = self.gains[within]
        sums = np.empty(self.count)
        for part in slices(self.count, TILE_ELEMENTS // int(cutoff)):
            start, stop = np.searchsorted(query, [part.start, part.stop])
            results = np.zeros((part.stop - part.start, int(cutoff)))
            results[query[start:stop] - part.start, rank[start:stop]] = gains[start:stop]
            sums[part] = results @ _discounts(int(cutoff))
        return sums

    def ideal(self, cutoff: float) -> Array:
        """Return (Q,) the discounted gain of the first results in the best order."""
        place = self._places(-self.gains)
        return self._total(self.gains / np.log2(place + 2) * (place < cutoff))


def _discounts(count: int) -> Array:
    return 1 / np.log2(np.arange(2, count + 2))


def label_metrics(
    ranks: Any, image_of_text: np.ndarray, captions: np.ndarray | slice = slice(None)
) -> dict[str, float]:
    """Return MRR and nDCG@10 in percent with the labels as grades, over `captions` and their images: i2t_mrr,
    i2t_ndcg10, t2i_mrr, t2i_ndcg10. A direction in which another system listed nothing has none.

    >>> from types import SimpleNamespace
    >>> best = np.array([0, 0])  # both images list caption 0 first, both captions image 0
    >>> stored = SimpleNamespace(image_ranks=best, text_ranks=np.array([0, 1]), image_hits=np.array([[1, 0], [0, 1]]))
    >>> label_metrics(stored, np.array([0, 1]))["t2i_mrr"]
    75.0
    """
    values = label_values(ranks, image_of_text)
    images = np.unique(np.asarray(image_of_text)[captions])
    if getattr(ranks, "judged", None) is not None and isinstance(captions, slice):
        images = np.arange(len(ranks.image_ranks))
    images = images[np.asarray(ranks.image_ranks)[images] >= 0]
    captions = np.arange(len(image_of_text))[captions]
    captions = captions[np.asarray(ranks.text_ranks)[captions] >= 0]
    metrics: dict[str, float] = {}
    for way, queries in (("i2t", images), ("t2i", captions)):
        if len(queries):
            mrr, ndcg = values[way][queries].mean(0).tolist()
            metrics |= {f"{way}_mrr": 100 * mrr, f"{way}_ndcg10": 100 * ndcg}
    return metrics


def label_values(ranks: Any, image_of_text: np.ndarray) -> dict[str, np.ndarray]:
    """Return reciprocal rank and nDCG@10 with the labels as grades, from 0 to 1: "i2t" (n, 2) and "t2i" (m, 2); 0 for
    an image without captions.

    >>> from types import SimpleNamespace
    >>> best = np.array([1, 0])  # both images list caption 1 first, both captions image 1
    >>> ranks = SimpleNamespace(image_ranks=best, text_ranks=best, image_hits=np.array([[0, 1], [1, 0]]))
    >>> label_values(ranks, np.array([0, 1]))["t2i"].round(3).tolist()
    [[0.5, 0.631], [1.0, 1.0]]

    Args:
        ranks: an analysis; only image_ranks, text_ranks and image_hits are read. Of a search log, whose judgments
            replace the labels, also judged, image_best and text_best.
        image_of_text: (m,) the image of every caption.
    """
    judged = getattr(ranks, "judged", None)
    if judged is not None:
        of_images = listed_values(judged.i2t, ranks.image_ranks, ranks.image_best)
        return {"i2t": of_images, "t2i": listed_values(judged.t2i, ranks.text_ranks, ranks.text_best)}
    hits = ranks.image_hits
    of_text = _found(ranks.text_ranks)
    of_image = _found(ranks.image_ranks)
    ndcg = listed_ndcg(hits, np.bincount(image_of_text, minlength=len(hits)))
    gains = np.where(of_text < LISTED, 1 / np.log2(of_text + 2), 0)
    return {"i2t": np.stack([1 / (of_image + 1), ndcg], 1), "t2i": np.stack([1 / (of_text + 1), gains], 1)}


def places(ranks: np.ndarray) -> Array:
    """Return ranks counted from 1, for readers; ∞ where another system's list contains no right answer, NaN for a sample
    that is not a query, or is not ranked.

    >>> places(np.array([0, 3])), places(np.array([0, UNLISTED, -1]))
    (array([1, 4]), array([ 1., inf, nan]))
    """
    first = np.asarray(ranks)
    missing = first == UNLISTED
    unranked = first < 0
    if not (missing | unranked).any():
        return first + 1
    return np.where(missing, np.inf, np.where(unranked, np.nan, first + 1.0))


def place_in_words(rank: int) -> str:
    """Return a rank, from 0, as readers see it: "–" for a sample that is not a query.

    >>> place_in_words(1233), place_in_words(-1), place_in_words(UNLISTED)
    ('1,234', '–', 'not listed')
    """
    if rank == UNLISTED:
        return "not listed"
    return "–" if rank < 0 else f"{rank + 1:,}"


def _found(ranks: np.ndarray) -> Array:
    """Return (Q,) ranks as float64; ∞ for a query without a right candidate in its list."""
    first = np.asarray(ranks)
    return np.where((first < 0) | (first == UNLISTED), np.inf, first)


def listed_values(relation: Relation, first: np.ndarray, best: np.ndarray) -> np.ndarray:
    """Return (Q, 2) reciprocal rank and graded nDCG@k of stored results; 0 for a query without a right answer.

    >>> graded = Relation.of(np.array([0, 0]), np.array([1, 2]), queries_in_all=1, grades=np.array([3, 1]))
    >>> listed_values(graded, np.array([0]), np.array([[2, 0, 1]])).round(3).tolist()
    [[1.0, 0.689]]

    Args:
        relation: which candidates are right, and how much.
        first: (Q,) rank of the best right candidate, −1 without one.
        best: (Q, k) the best candidates, best first.
    """
    queries, listed = best.shape
    row = relation.find(np.arange(queries)[:, None], best)
    gains = np.where(row >= 0, relation.grades[row], 0)
    ideal = _Judged(relation, np.full(len(relation.queries), np.inf)).ideal(listed)
    ndcg = np.divide(gains @ _discounts(listed), ideal, out=np.zeros(queries), where=ideal > 0)
    return np.stack([1 / (_found(first) + 1), ndcg], 1)


def listed_ndcg(hits: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return (Q,) nDCG@k of queries whose positives all have the same grade.

    >>> listed_ndcg(np.array([[0, 1, 0], [1, 1, 0]]), np.array([1, 2])).round(3).tolist()
    [0.631, 1.0]

    Args:
        hits: (Q, k) true where a result is a positive. counts: (Q,) number of positives of each query.
    """
    discounts = _discounts(hits.shape[1])
    return np.asarray(hits @ discounts / np.cumsum(discounts)[np.minimum(counts, len(discounts)) - 1])
