"""Ranks of results that another system listed: without its scores of all pairs, only of the candidates in its lists. Uses
only NumPy, so that the app need not load torch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.evaluation.metrics import LISTED, UNLISTED, Ranked, Ranks
from coder_core.evaluation.relevance import Relation, Relevance
from coder_core.evaluation.sources import Array

NO_CANDIDATE = -1  # after the end of a list


@dataclass(frozen=True)
class Lists:
    """The lists of one direction."""

    candidates: Array  # (Q, k) int32 candidates, best first; `NO_CANDIDATE` after the end of a list
    scores: Array  # (Q, k) float64, descending in every row; −∞ after the end of a list
    candidates_in_all: int  # number C of candidates of the split

    @property
    def exist(self) -> bool:
        """True if the system answered at least one query of this direction."""
        return self.candidates.shape[1] > 0

    def of_query(self, query: int) -> tuple[Array, Array]:
        """Return the listed candidates of a query, best first, and their scores."""
        listed = self.candidates[query] != NO_CANDIDATE
        return self.candidates[query][listed], self.scores[query][listed]


def rank_lists(i2t: Lists, t2i: Lists, relevance: Relevance) -> Ranks:
    """Rank the lists of both directions by a relevance.

    >>> lists = Lists(np.array([[1, 0], [1, 0]]), np.array([[0.9, 0.2], [0.8, 0.7]]), candidates_in_all=2)
    >>> rank_lists(lists, lists, Relevance.of_labels(np.arange(2), images=2)).t2i.first
    array([1, 0])
    """
    return Ranks(_ranked(i2t, relevance.i2t), _ranked(t2i, relevance.t2i))


def _ranked(lists: Lists, relation: Relation) -> Ranked:
    """Return the ranks of one direction. A right candidate that no list contains has rank ∞, and a query whose right
    candidates are all missing has `UNLISTED` as its first rank; queries of a direction without lists have −1.

    >>> lists = Lists(np.array([[2, 0], [1, -1]]), np.array([[0.9, 0.9], [0.5, -np.inf]]), candidates_in_all=3)
    >>> right = Relation.of(np.array([0, 0, 1]), np.array([1, 2, 0]), queries_in_all=2)
    >>> ranked = _ranked(lists, right)
    >>> ranked.ranks, ranked.first == UNLISTED, ranked.ties
    (array([inf,  1., inf]), array([False,  True]), array([1, 0]))
    """
    queries, length = lists.candidates.shape
    row = relation.find(np.arange(queries)[:, None], lists.candidates)
    gain = np.where(row >= 0, np.append(relation.grades, 0)[row], 0)
    order = np.lexsort((gain, -lists.scores), axis=1)  # among equal scores right candidates come last
    row = np.take_along_axis(row, order, 1)
    scores = np.take_along_axis(lists.scores, order, 1)
    candidates = np.take_along_axis(lists.candidates, order, 1)

    query, place = np.nonzero(row >= 0)
    ranks = np.full(len(relation.queries), np.inf)
    ranks[row[query, place]] = place
    own = np.full(len(relation.queries), np.nan, np.float32)
    own[row[query, place]] = scores[query, place]

    first = np.where((relation.sizes > 0) & lists.exist, UNLISTED, -1)
    ties = np.zeros(queries, np.int64)
    found, start = np.unique(query, return_index=True)
    best_place = place[start]
    first[found] = best_place
    level = scores[found, best_place]
    ties[found] = ((scores[found] == level[:, None]) & (row[found] < 0)).sum(1)

    best = np.full((queries, min(LISTED, lists.candidates_in_all)), NO_CANDIDATE, np.int32)
    shown = min(length, best.shape[1])
    best[:, :shown] = candidates[:, :shown]
    return Ranked(ranks, first, ties, best, own)
