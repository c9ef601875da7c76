"""R@1 under complete labels, estimated from few verdicts: prediction-powered inference (Angelopoulos et al. 2023).

For every query that misses at R@1 the run guesses the probability that its first result is a match without a label. The
mean of these guesses is corrected by people's verdicts on some of the results. Results are drawn with replacement, and
the more uncertain a guess, the more often (Zrnic and Candès 2024, active statistical inference): those verdicts change the
estimate most. Every draw is weighted by the inverse of its chance, so the estimate is unbiased, however bad the guesses
are; good guesses make its interval short.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coder_core.api.causes.budget import Misses
from coder_core.api.reviews import ReviewedSplit
from coder_core.api.sides import Array
from coder_core.data.reviews import Reviews

MOST_VERDICTS = 100
FEWEST_VERDICTS = 20  # for an interval
UNIFORM = 0.5  # share of the draws that every miss has the same chance of
HALF_WIDTH = 4.0  # points, of the interval that is aimed at
SEED = 11
PSEUDO_DRAWS = 2
"""A match guessed at 0 and a mismatch guessed at 1, added to the spread of the draws, as Agresti and Coull (1998) add
successes and failures: without them the interval is too short where the draws contain none of few bad guesses."""


@dataclass(frozen=True)
class Drawn:
    """First results of d draws of captions as queries, in the order in which people are asked about them."""

    queries: Array  # (d,) int64 rows of the split; one may be drawn several times
    results: Array  # (d,) int64, the first result of each
    guesses: Array  # (d,) float64, probability that it is a match
    chances: Array  # (d,) float64, chance of the query in one draw
    hits: int  # queries with a labelled match first
    guessed: float  # sum of the guesses over all misses
    count: int  # queries in all


@dataclass(frozen=True)
class PeopleRecall:
    """R@1 under complete labels, in percent, with its 95% interval."""

    labels: float  # by the labels alone
    guess: float  # with the guesses, without any verdict
    recall: float
    low: float
    high: float
    verdicts: int  # draws that people judged
    needed: int  # verdicts for an interval of ± `HALF_WIDTH` points; 0 without an estimate


def draw_for_verdicts(misses: Misses, draws: int = MOST_VERDICTS, seed: int = SEED) -> Drawn:
    """Draw first results of missed queries. `misses`: of captions as queries at R@1, found without any verdict, or the
    guesses would contain the verdicts that correct them."""
    missed = np.flatnonzero(misses.missed)
    way = misses.way
    guesses = np.where(way.copies[missed, 0] != 0, 1.0, misses.unlabelled[missed, 0])
    uncertain = np.sqrt(guesses * (1 - guesses))
    total = float(uncertain.sum())
    equal = np.ones(len(missed)) / len(missed)
    chances = equal if total <= 0 else UNIFORM * equal + (1 - UNIFORM) * uncertain / total
    random = np.random.default_rng(seed)
    drawn = random.choice(len(missed), draws, p=chances) if len(missed) else np.zeros(0, np.int64)
    rows = missed[drawn]
    return Drawn(
        queries=way.queries[rows],
        results=way.results[rows, 0],
        guesses=guesses[drawn],
        chances=chances[drawn],
        hits=int((~misses.missed).sum()),
        guessed=float(guesses.sum()),
        count=len(way.queries),
    )


def values_of_verdicts(drawn: Drawn, reviewed: ReviewedSplit, reviews: Reviews) -> Array:
    """Return (d,) float: 1 if people say that a drawn result matches its caption, 0 if not, NaN without such a verdict."""
    values = {"also-matches": 1.0, "label-right": 0.0}
    pairs = zip(drawn.results.tolist(), drawn.queries.tolist(), strict=True)
    verdicts = (reviews.verdicts.get(reviewed.pair(image, caption)) for image, caption in pairs)
    return np.array([values.get(str(verdict), math.nan) for verdict in verdicts])


def recall_with_verdicts(drawn: Drawn, verdicts: Array) -> PeopleRecall:
    """Estimate R@1 under complete labels.

    Args:
        verdicts: (d,) float: 1 if the drawn result matches, 0 if not, NaN if nobody judged it. Unjudged draws are left out.
    """
    from scipy import stats  # takes a moment to import

    labels = 100 * drawn.hits / max(drawn.count, 1)
    guess = 100 * (drawn.hits + drawn.guessed) / max(drawn.count, 1)
    judged = np.isfinite(verdicts)
    number = int(judged.sum())
    if number < FEWEST_VERDICTS:
        return PeopleRecall(labels, guess, math.nan, math.nan, math.nan, number, 0)
    to_points = 100 / drawn.count
    corrections = to_points * (verdicts[judged] - drawn.guesses[judged]) / drawn.chances[judged]
    recall = guess + float(corrections.mean())
    typical = to_points * (drawn.count - drawn.hits)  # an error of 1 at the same chance for every miss
    with_pseudo = np.append(corrections - corrections.mean(), [typical, -typical])
    deviation = math.sqrt(float((with_pseudo**2).sum()) / (number + PSEUDO_DRAWS - 1))
    half = float(stats.t.ppf(0.975, number - 1)) * deviation / math.sqrt(number)
    needed = math.ceil((float(stats.norm.ppf(0.975)) * deviation / HALF_WIDTH) ** 2)
    return PeopleRecall(
        labels, guess, recall, max(recall - half, labels), min(recall + half, 100.0), number, needed
    )
