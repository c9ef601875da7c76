"""Results of one run: hubs among the candidates, margins of the queries, and the picture most like a new one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd
from PIL import Image

from coder_core.api.run import Run
from coder_core.api.sampling import Sample
from coder_core.api.sides import QUERIES, Array, Direction
from coder_core.api.stored import StoredResult, read_stored
from coder_core.console.faults import InputError
from coder_core.data.content.report import TINY_SIDE, tiny_image
from coder_core.runs.derived.hub_correction import HubCorrection, correction_folder, read_correction

# A photograph of Flickr8k at a third of its size has at least 0.97 (of 100), another of 1,000 at most 0.94.
ALIKE = 0.95
PICTURES_READ = 1_000  # pictures of a split that are read, at 2 or 3 milliseconds each


@dataclass(frozen=True)
class Hubness:
    """Statistics of the uneven distribution of first results over candidates. Radovanović et al. 2010, section 2.

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
    queries: Array | None = None,
) -> pd.DataFrame:
    """N_k of every candidate: the number of queries that have it among their first k results.

    Args:
        k: up to the ten results the analysis keeps of every query.
        sample: only its candidates, counted among the results of only its queries.
        queries: numbers of those that count, of all candidates; None for all.

    Returns:
        One row a candidate: candidate, count, right (queries it belongs to), wrong.
    """
    best = run.best(split, direction)[:, :k]
    candidates = run.count(split, "image" if direction == "t2i" else "text")
    query, rows = np.arange(len(best)), np.arange(candidates)
    if sample is not None:
        query, rows = sample.queries(direction), sample.candidates(direction)
    query = query if queries is None else query[np.isin(query, queries)]
    best = best[query]
    match = run.matches(split, direction, query[:, None], best)
    count = np.bincount(best.ravel(), minlength=candidates)[rows]
    right = np.bincount(best[match], minlength=candidates)[rows]
    return pd.DataFrame({"candidate": rows, "count": count, "right": right, "wrong": count - right})


def hubness(counts: Array, k: int) -> Hubness:
    """Skewness of the occurrences and the share that no query finds."""
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
    query, place = np.nonzero(run.best(split, direction)[:, :k] == candidate)
    match = run.matches(split, direction, query, candidate)
    frame = pd.DataFrame({"query": query, "place": place + 1, "match": match})
    return frame.sort_values(["place", "query"], kind="stable", ignore_index=True)


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
    query = query[np.argsort(-np.abs(before[query] - after[query]), kind="stable")]
    ranks = {"rank": before[query] + 1, "corrected": after[query] + 1}
    return pd.DataFrame({"query": query, **ranks, "mended": after[query] < at})


def margins(run: Run, split: str, direction: Direction, *, sample: Sample | None = None) -> pd.DataFrame:
    """Similarity of the best true match minus that of the most similar wrong candidate, over the whole split.

    Only the pairs in question are multiplied: the closest wrong candidate is among the best ten the analysis keeps, or,
    where these are all true matches, found by one product of that query with all candidates.

    Args:
        sample: only its queries.

    Returns:
        One row a query that has a match: query, match, wrong (the two candidates), match_score, wrong_score, margin
        (below 0: the wrong one ranks above the match), rank (from 1).
    """
    s, best = run.sides(split, QUERIES[direction]), run.best(split, direction)
    ranks = run.ranks(split)[direction]
    _, anchor, candidate = s.own_pairs()
    counted = ranks[anchor] >= 0
    if sample is not None:
        counted &= np.isin(anchor, sample.queries(direction))
    anchor, candidate = anchor[counted], candidate[counted]
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
    queries, match, wrong, match_score = (part[exists] for part in (queries, match, wrong, match_score))
    wrong_score = s.pairs(queries, wrong)
    return pd.DataFrame(
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


@dataclass(frozen=True)
class LookAlike:
    """The nearest picture: its `image` row, the `likeness` (correlation of the tiny images, at most 1), among `of`."""

    image: int
    likeness: float
    of: int


def look_alike(run: Run, picture: Image.Image, *, split: str, at_most: int = PICTURES_READ) -> LookAlike:
    """The image of the split whose picture looks most like this one by its pixels, among `at_most` drawn at random.
    InputError: none of the split's pictures can be read."""
    images, tiny = _tiny_pictures(run, split, at_most)
    likeness = tiny @ tiny_image(picture)
    best = int(likeness.argmax())
    return LookAlike(int(images[best]), float(likeness[best]), len(images))


@lru_cache(maxsize=8)
def _tiny_pictures(run: Run, split: str, at_most: int) -> tuple[Array, Array]:
    """(k,) rows of the readable pictures among `at_most` of a split, and (k, 16 · 16 · 3) unit rows of their pixels."""
    rows = np.arange(run.count(split, "image"))
    if len(rows) > at_most:
        rows = np.sort(np.random.default_rng(0).choice(rows, at_most, replace=False))
    tiny = {}
    for row in rows.tolist() if run.has_pictures(split) else []:
        with suppress(InputError):
            tiny[row] = tiny_image(run.open_picture(split, row, size=4 * TINY_SIDE))
    if not tiny:
        fact = f"knows no readable picture of split {split!r}"
        raise InputError.at(f"run {run.name}", fact, "a picture folder")
    return np.array(list(tiny)), np.stack(list(tiny.values()))
