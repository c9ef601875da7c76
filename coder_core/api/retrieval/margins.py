"""By how much every query's true match beats, or misses, the closest wrong candidate."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.sampling import Sample
from coder_core.api.sides import Direction

if TYPE_CHECKING:
    from coder_core.api.run import Run


def margins(run: Run, split: str, direction: Direction, *, sample: Sample | None = None) -> pd.DataFrame:
    """Similarity of the best true match minus that of the most similar wrong candidate, over the whole split.

    Nothing but the pairs in question is multiplied: the closest wrong candidate is among the best ten the analysis
    keeps, or, where these are all true matches, found by one product of that query with all candidates.

    Args:
        sample: only its queries.

    Returns:
        One row a query that has a match: query, match, wrong (the two candidates), match_score, wrong_score, margin
        (below 0: the wrong one stands above the match), rank (from 1).
    """
    analysis = run.analysis(split)
    s = run.sides(split, "text" if direction == "t2i" else "image")
    best = np.asarray(analysis.text_best if direction == "t2i" else analysis.image_best)
    ranks = run.ranks(split)[direction]
    _, anchor, candidate = s.own_pairs()
    asks = ranks[anchor] >= 0
    if sample is not None:
        asks &= np.isin(anchor, sample.texts if direction == "t2i" else sample.images)
    anchor, candidate = anchor[asks], candidate[asks]
    score = s.pairs(anchor, candidate)
    best_first = np.lexsort((-score, anchor))
    queries, first = np.unique(anchor[best_first], return_index=True)
    match, match_score = candidate[best_first[first]], score[best_first[first]]
    own_image = s.anchor_images[queries]
    foreign = s.candidate_images[best[queries]] != own_image[:, None]
    wrong = best[queries, foreign.argmax(1)].astype(np.int64)
    for position in np.flatnonzero(~foreign.any(1)):  # ten true matches come first
        scores = np.where(s.candidate_images == own_image[position], -np.inf, s.row(int(queries[position])))
        wrong[position] = scores.argmax() if np.isfinite(scores).any() else -1
    exists = wrong >= 0
    wrong_score = np.full(len(queries), np.nan, dtype=np.float32)
    wrong_score[exists] = s.pairs(queries[exists], wrong[exists])
    frame = pd.DataFrame(
        {
            "query": queries,
            "match": match,
            "wrong": wrong,
            "match_score": match_score,
            "wrong_score": wrong_score,
            "margin": match_score - wrong_score,
            "rank": ranks[queries] + 1,
        }
    )
    return frame[exists].reset_index(drop=True)
