"""Hubs: candidates that stand among the first results of far too many queries. Radovanović et al. 2010, section 2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.sampling import Sample
from coder_core.api.sides import Direction
from coder_core.api.stored import StoredResult, read_stored
from coder_core.runs.derived.hub_correction import HubCorrection, correction_folder, read_correction

if TYPE_CHECKING:
    from coder_core.api.run import Run


@dataclass(frozen=True)
class Hubness:
    """Statistics of the uneven distribution of first results over candidates.

    Args:
        k: results looked at for each query. mean: occurrences every candidate would have if all were alike.
        skewness: third standardised moment of the occurrences; 0 is even, above 1 there are hubs.
        never: share (%) of candidates that no query finds.
    """

    k: int
    mean: float
    skewness: float
    never: float


def occurrences(
    run: Run,
    split: str,
    direction: Direction,
    *,
    k: int = 10,
    sample: Sample | None = None,
    queries: np.ndarray | None = None,
) -> pd.DataFrame:
    """N_k of every candidate: among the first k results of how many queries it stands.

    Args:
        k: up to the ten results the analysis keeps of every query.
        sample: only its candidates, counted among the results of only its queries.
        queries: numbers of those that count, of all candidates; None for all.

    Returns:
        One row a candidate: candidate, count, right (queries it belongs to), wrong.
    """
    analysis, owner = run.analysis(split), run.image_of_text(split)
    best = (analysis.text_best if direction == "t2i" else analysis.image_best)[:, :k]
    candidates = analysis.n_images if direction == "t2i" else len(owner)
    query, shown = np.arange(len(best)), np.arange(candidates)
    if sample is not None:
        query, shown = (sample.texts, sample.images) if direction == "t2i" else (sample.images, sample.texts)
    query = query if queries is None else query[np.isin(query, queries)]
    best = best[query]
    match = best == owner[query, None] if direction == "t2i" else owner[best] == query[:, None]
    count = np.bincount(best.ravel(), minlength=candidates)
    right = np.bincount(best[match], minlength=candidates)
    count, right = count[shown], right[shown]
    return pd.DataFrame({"candidate": shown, "count": count, "right": right, "wrong": count - right})


def hubness(counts: np.ndarray, k: int) -> Hubness:
    """Skewness of the occurrences and the share nobody finds."""
    counts = np.asarray(counts, dtype=np.float64)
    if not len(counts):
        return Hubness(k, 0.0, 0.0, 0.0)
    deviation = counts - counts.mean()
    spread = float(np.sqrt((deviation**2).mean()))
    skewness = float((deviation**3).mean() / spread**3) if spread > 0 else 0.0
    return Hubness(k, float(counts.mean()), skewness, 100.0 * float((counts == 0).mean()))


def found_by(run: Run, split: str, direction: Direction, candidate: int, *, k: int = 10) -> pd.DataFrame:
    """The queries that have a candidate among their first k results.

    Returns:
        One row a query, best place first: query, place (from 1), match (whether it belongs to the query).
    """
    analysis, owner = run.analysis(split), run.image_of_text(split)
    best = np.asarray(analysis.text_best if direction == "t2i" else analysis.image_best)[:, :k]
    query, place = np.nonzero(best == candidate)
    match = owner[query] == candidate if direction == "t2i" else owner[candidate] == query
    frame = pd.DataFrame({"query": query, "place": place + 1, "match": match})
    return frame.sort_values(["place", "query"], kind="stable").reset_index(drop=True)


def stored_correction(run: Run, split: str) -> StoredResult[HubCorrection]:
    """The ranks with scores corrected for hubs, where `python -m coder_core.evaluate --hub-correction` stored them."""
    analysis = run.analysis(split)
    if analysis.scores is not None:  # of a run that scores pair by pair
        return StoredResult("missing", "")
    folder = correction_folder(run.path, split, analysis)
    return read_stored(folder.name, lambda: read_correction(folder))


def corrected_queries(
    run: Run, split: str, direction: Direction, correction: HubCorrection, at: int
) -> pd.DataFrame:
    """The queries whose answer within the first `at` results comes or goes with the correction.

    Returns:
        One row a query, largest change first: query, rank and corrected (from 1), mended (whether the answer comes).
    """
    before = run.ranks(split)[direction]
    after = correction.text_ranks if direction == "t2i" else correction.image_ranks
    query = np.flatnonzero((before >= 0) & ((before < at) != (after < at)))
    frame = pd.DataFrame(
        {
            "query": query,
            "rank": before[query] + 1,
            "corrected": after[query] + 1,
            "mended": after[query] < at,
        }
    )
    order = np.argsort(-np.abs(before[query] - after[query]), kind="stable")
    return frame.iloc[order].reset_index(drop=True)
