"""Ranks corrected for hubs within one split, with k and α for every query chosen on the other half of the images.

`evaluate --hub-correction` takes its reference queries from the train split. Here they come from the split itself, so that
imported embeddings and runs that score pair by pair have a correction too: a candidate's bias for the queries of one half
is its mean score with its k nearest queries of the other half, its matches excluded.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from coder_core.api.sides import Array, Sides, slices

NEIGHBOURS = (1, 4, 16, 64, 128)  # as in `evaluation.hub_correction`
STRENGTHS = (0.25, 0.5, 0.75, 1.0)
RECALL_AT = (1, 5, 10)
HALVES_SEED = 5
ELEMENTS = 2_000_000  # scores in memory at once


def exact_tile(sides: Sides, rows: Array) -> Array:
    """Return (k, C) float32 scores of some anchors: float64 sums rounded to float32, so that equal candidates score equal."""
    if sides.scores is not None:
        return np.array(sides.scores[rows], np.float32)
    anchors = np.asarray(sides.anchors[rows], np.float64)
    candidates = np.asarray(sides.candidates, np.float64)
    return np.asarray((anchors @ candidates.T).astype(np.float32))


def first_ranks(tile: Array, own: Array) -> Array:
    """Return (k,) the rank of every row's best own candidate, 0 is first; equal scores of others count above it.

    >>> first_ranks(np.array([[0.9, 0.5, 0.9]]), np.array([[True, True, False]]))
    array([1])

    Args:
        tile: (k, C) scores. own: (k, C) bool, at least one per row.
    """
    best = np.where(own, tile, -np.inf).max(1, keepdims=True)
    return np.asarray(((tile >= best) & ~own).sum(1))


def corrected_ranks(sides: Sides, queries: Array, right: sparse.csr_array) -> Array:
    """Return (q,) the ranks of `queries`, numbers of anchors with a match, by corrected scores; 0 is first.

    The pair (k, α) of a half is the one with the largest R@1 + R@5 + R@10 on the other half's queries, the weakest of equal
    ones, so α is 0 where no correction helps. `right`: (Q, C) matches, see `right_pairs`."""
    images = int(max(sides.anchor_images.max(), sides.candidate_images.max())) + 1
    in_first = np.zeros(images, bool)
    in_first[np.random.default_rng(HALVES_SEED).permutation(images)[: images // 2]] = True
    half_of_anchor = in_first[sides.anchor_images]
    biases = {half: _biases(sides, np.flatnonzero(half_of_anchor == half), right) for half in (False, True)}
    settings = [(k, alpha) for alpha in STRENGTHS for k in range(len(NEIGHBOURS))]
    ranks = np.empty((1 + len(settings), len(queries)), np.int64)
    for part in slices(len(queries), ELEMENTS // len(sides.candidate_images)):
        rows = queries[part]
        tile = exact_tile(sides, rows)
        own = right[rows].toarray()
        ranks[0, part] = first_ranks(tile, own)
        for half in (False, True):
            here = half_of_anchor[rows] == half
            for number, (k, alpha) in enumerate(settings, 1):
                shifted = tile[here] - np.float32(alpha) * biases[not half][:, k]
                ranks[number, part.start + np.flatnonzero(here)] = first_ranks(shifted, own[here])

    chosen = np.empty(len(queries), np.int64)
    for half in (False, True):
        of_half = half_of_anchor[queries] == half
        best = _best_setting(ranks[:, of_half])
        chosen[~of_half] = ranks[best, ~of_half]

    return chosen


def _best_setting(ranks: Array) -> int:
    """Return the row of (S, q) ranks with the largest R@1 + R@5 + R@10, the first of equal ones; 0 without a query."""
    if not ranks.shape[1]:
        return 0
    hits = np.stack([(ranks < k).sum(1) for k in RECALL_AT])
    return int(hits.sum(0).argmax())


def _biases(sides: Sides, references: Array, right: sparse.csr_array) -> Array:
    """Return (C, K) float32: the mean score of every candidate with its k nearest foreign references, for K values of k."""
    count = len(sides.candidate_images)
    biases = np.zeros((count, len(NEIGHBOURS)), np.float32)
    most = min(max(NEIGHBOURS), len(references))
    if not most:
        return biases

    against = sides.turned().among(references)
    own = right[references].T.tocsr()
    for part in slices(count, ELEMENTS // len(references)):
        rows = np.arange(part.start, part.stop)
        tile = exact_tile(against, rows)
        tile[own[rows].toarray()] = -np.inf
        nearest = -np.sort(-np.partition(tile, -most, axis=1)[:, -most:], axis=1)
        exists = np.isfinite(nearest)
        sums = np.cumsum(np.where(exists, nearest, 0), axis=1, dtype=np.float64)
        counts = np.cumsum(exists, axis=1)
        for column, k in enumerate(NEIGHBOURS):
            last = min(k, most) - 1
            biases[part, column] = sums[:, last] / np.maximum(counts[:, last], 1)

    return biases
