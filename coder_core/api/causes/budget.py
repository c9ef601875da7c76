"""The error budget: one cause for every query that misses.

A query that misses at K gets the first cause that applies, in the order of `CAUSES`:

wrong label         a reviewer called all its labels wrong, or each says something specific and belongs to another image
                    with probability ≥ 0.5 (in a search log only a reviewer's verdict counts: its judges saw the pairs)
unlabelled match    one of the first K results matches by a verdict, a judgement or a group, or probably (≥ 0.5)
copy                one of them is a near-duplicate of the match's picture, or has the same text
hub                 with scores corrected for hubs a match is among the first K
vague query         a reviewer called it too vague, or all its words fit at least K, and at least 5, other images
close               the margin is within what two trainings that differ in the seed typically differ by
model error         none of these

An image as a query has several labels: it has a wrong label, or is vague, only if that holds for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.special import softmax

from coder_core.api.causes.evidence import (
    PICTURE,
    TEXT,
    Evidence,
    WayEvidence,
    among,
    right_pairs,
    split_evidence,
)
from coder_core.api.reviews import ReviewedSplit
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, Array, Direction
from coder_core.data.reviews import Reviews
from coder_core.evaluation.bootstrap import mean_intervals
from coder_core.evaluation.relevance import GROUP, label_pairs, widened

CAUSES = ("wrong label", "unlabelled match", "copy", "hub", "vague query", "close", "model error")
WRONG, UNLABELLED, COPY, HUB, VAGUE, CLOSE, MODEL = range(len(CAUSES))
HIT = -1
PROBABLE = 0.5
FITS_MANY = 5  # other images that fit a vague query, at least
SEED_NOISE = 0.3
"""Median difference of a query's margins in two seeds, in standard deviations of the margins: 0.27 to 0.36 for both
directions and K of 1, 5 and 10 (Flickr8k's dev split, lab/causes.md)."""

# Three routes to a match without a label; values are those of `FEATURES`, and the fits are described in lab/causes.md.
BY_WORDS = 0.53  # captions that say the same: 48 verdicts and 300 random pairs of Flickr8k's dev split
BY_CAPTIONS = 1.62
BY_TEXT_FROM = -10.7
WORDS_PER_CAPTIONS = 1.72  # ratio of both among the verdicts, for a run that has only one of them
BY_PICTURES = 6.05  # pictures of the same scene: views of one picture against other first results
BY_PICTURES_FROM = 4.43
MOVED_BY_WORDS = 0.53  # a caption with a wrong label, among its best images: 1,119 exchanged captions
MOVED_BY_CAPTIONS = 1.35
MOVED_BY_PLACE = 1.52  # times 1 / place of the caption among the results of the image
MOVED_ELSEWHERE = 6.63  # it belongs to none of these images
LEAST_PROBABILITY = 1e-9
ENOUGH_VERDICTS = 20  # on pairs without a label, for calibrating the probability on them


@dataclass(frozen=True)
class Known:
    """What people know about a split with m captions."""

    verdicts: Array  # (m,) verdict on each caption with its own image, "" without one
    people: Array  # (P, 2) int64 rows (caption, image) that match by a verdict, without a label
    others: Array  # (J, 2) that match by a judgement or a group
    refused: Array  # (R, 2) int64 rows that do not match

    @classmethod
    def nothing(cls, texts: int) -> Known:
        """Return the knowledge about a split of `texts` captions that nobody judged."""
        none = np.empty((0, 2), np.int64)
        return cls(np.full(texts, "", "<U16"), none, none, none)

    @property
    def matches(self) -> Array:
        """(P + J, 2) rows (caption, image) that match without a label."""
        return np.concatenate([self.people, self.others])

    @classmethod
    def of(
        cls, run: Run, split: str, reviewed: ReviewedSplit, reviews: Reviews, judged: Sequence[Array] = ()
    ) -> Known:
        """Collect the verdicts in a file of reviews, the groups of the images, and `judged`, arrays of (·, 2) rows
        (caption, image) that match by judgements."""
        split_verdicts = reviewed.judged(reviews)
        owner = reviewed.image_of_text
        refused = []
        named = list(reviews.verdicts.items())
        for row, (_, verdict) in zip(reviewed.rows(pair for pair, _ in named), named, strict=True):
            if row is not None and verdict == "label-right" and row[1] >= 0 and owner[row[1]] != row[0]:
                refused.append((row[1], row[0]))
        groups = run.analysis(split).image_groups
        if groups is not None:
            relation = widened(owner, len(groups), groups=groups).t2i
            pairs = np.stack([relation.queries, relation.candidates], 1)
            judged = [*judged, pairs[relation.sources == GROUP]]
        none = np.empty((0, 2), np.int64)
        others = np.concatenate([none, *judged])
        rows = np.array(refused, np.int64).reshape(-1, 2)
        return cls(split_verdicts.labels, split_verdicts.matches, others, rows)


@dataclass(frozen=True)
class Question:
    """Queries of one direction that are asked about; one is hit by a match among the first `at` results."""

    direction: Direction
    at: int = 1
    within: Array | None = None  # numbers of the queries, such as those of a slice; None for all
    # typical difference of a query's margins in two trainings, see `seed_noise`; None for `SEED_NOISE` of their
    # standard deviation
    noise: float | None = None


@dataclass(frozen=True)
class Misses:
    """The cause of every query."""

    way: WayEvidence  # of the queries asked about
    cause: Array  # (q,) int8: a position in `CAUSES`, or `HIT`
    wrong: Array  # (q,) bool: all labels are wrong
    unlabelled: Array  # (q, k) float64, probability that a result is a match without a label
    at: int
    noise: float  # difference of a query's margins in two trainings

    @property
    def missed(self) -> Array:
        """(q,) bool."""
        return np.asarray(self.cause != HIT)

    @property
    def margins(self) -> Array:
        """(q,) score of the best match minus that of the last of the first `at` results."""
        return np.asarray(self.way.match_scores - self.way.scores[:, self.at - 1])


def find_causes(
    evidence: Evidence,
    image_of_text: Array,
    question: Question,
    known: Known | None = None,
    labels: Array | None = None,
) -> Misses:
    """Find the cause of every miss.

    Args:
        image_of_text: (m,) the image of every caption, to which verdicts on a caption refer.
        labels: (P, 2) int64 rows (caption, image) that match in a search log; None for one image per caption.
    """
    known = known or Known.nothing(len(image_of_text))
    labels = label_pairs(image_of_text) if labels is None else labels
    whole = evidence.way(question.direction)
    way = whole if question.within is None else _part(whole, np.isin(whole.queries, question.within))
    at = min(question.at, way.scores.shape[1])
    noise = question.noise
    if noise is None:
        noise = SEED_NOISE * float(np.std(whole.match_scores - whole.scores[:, at - 1]))
    wrong_label, vague_captions = wrong_and_vague(evidence, question.at, known)
    texts, shown = _pairs(way, question.direction)
    moved = _moved(evidence, wrong_label)[texts, shown].toarray()
    unlabelled = _unlabelled(way, question.direction, known, _calibration(evidence, known), moved)
    captions, images = labels.T
    is_right = (wrong_label[captions] < PROBABLE) | (image_of_text[captions] != images)
    query_of_label = captions if question.direction == "t2i" else images
    wrong = _has_none(query_of_label, is_right, way.queries)
    vague = _has_none(query_of_label, is_right & ~vague_captions[captions], way.queries)
    first = slice(0, at)
    equal_text = (way.copies[:, first] == TEXT).any(1) & ~vague  # texts that say little are equal by chance
    applies = np.stack(
        [
            wrong,
            (unlabelled[:, first] >= PROBABLE).any(1),
            (way.copies[:, first] == PICTURE).any(1) | equal_text,
            way.corrected < at,
            vague,
            way.scores[:, at - 1] - way.match_scores <= noise,
            np.ones(len(way.queries), bool),
        ]
    )
    cause = np.where(way.ranks < at, HIT, applies.argmax(0)).astype(np.int8)
    return Misses(way, cause, wrong, unlabelled, at, noise)


def _part(way: WayEvidence, rows: Array) -> WayEvidence:
    return replace(way, **{field.name: getattr(way, field.name)[rows] for field in fields(way)})


def _unlabelled(
    way: WayEvidence, direction: Direction, known: Known, calibration: tuple[float, float], moved: Array
) -> Array:
    """Return (q, k) the probability that each result is a match without a label. `moved`: (q, k), by `_moved`."""
    slope, offset = calibration
    alike = _sigmoid(slope * _odds(way) + offset)
    probability = _either(alike, moved)
    probability[(way.copies != 0) | way.match] = 0
    for pairs, value in ((known.refused, 0.0), (known.matches, 1.0)):
        judged = _among(way, direction, pairs)
        probability[judged & ~way.match] = value
    probability[way.refused] = 0
    return np.asarray(probability)


def _odds(way: WayEvidence) -> Array:
    """Return (q, k) the log odds of a match, before calibration."""
    probability = np.clip(match_probability(way.features), LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return np.asarray(np.log(probability) - np.log1p(-probability))


def _among(way: WayEvidence, direction: Direction, pairs: Array) -> Array:
    """Return (q, k) bool: a query and its result are one of the pairs, (·, 2) rows (caption, image)."""
    return among(*_pairs(way, direction), pairs)


def _pairs(way: WayEvidence, direction: Direction) -> tuple[Array, Array]:
    """Return (q, k) the captions and the images of the pairs of a query and its result."""
    queries = np.broadcast_to(way.queries[:, None], way.results.shape)
    return (queries, way.results) if direction == "t2i" else (way.results, queries)


def _calibration(evidence: Evidence, known: Known) -> tuple[float, float]:
    """Fit slope and offset of the log odds to the verdicts on results without a label (Platt 1999); 1 and 0 if there are
    fewer than `ENOUGH_VERDICTS`, or all are the same."""
    odds = []
    verdicts = []
    for direction in DIRECTIONS:
        way = evidence.way(direction)
        for pairs, verdict in ((known.people, True), (known.refused, False)):
            judged = _among(way, direction, pairs) & ~way.match
            odds.append(_odds(way)[judged])
            verdicts.append(np.full(int(judged.sum()), verdict))
    of_pairs = np.concatenate(verdicts)
    if len(of_pairs) < ENOUGH_VERDICTS or of_pairs.all() or not of_pairs.any():
        return 1.0, 0.0
    from sklearn.linear_model import LogisticRegression  # for few questions

    fitted = LogisticRegression().fit(np.concatenate(odds)[:, None], of_pairs)
    return max(float(fitted.coef_[0, 0]), 0.0), float(fitted.intercept_[0])


def match_probability(features: Array) -> Array:
    """Estimate the probability that a result is a match without a label: its captions say the same, or its picture shows
    the same scene. `features`: (…, 4), see `FEATURES`; NaN where there is no evidence."""
    words, captions, pictures = likeness(features)
    by_text = _sigmoid(BY_WORDS * words + BY_CAPTIONS * captions + BY_TEXT_FROM)
    by_pictures = _sigmoid(BY_PICTURES * (pictures - BY_PICTURES_FROM))
    return _either(by_text, by_pictures)


def likeness(features: Array) -> tuple[Array, Array, Array]:
    """Return words, captions and pictures of `FEATURES`; one of the first two replaces the other where that is unknown."""
    words, captions, pictures, _ = np.moveaxis(np.asarray(features, np.float64), -1, 0)
    words = np.where(np.isnan(words), WORDS_PER_CAPTIONS * captions, words)
    captions = np.where(np.isnan(captions), words / WORDS_PER_CAPTIONS, captions)
    return words, captions, pictures


def _either(first: Array, second: Array) -> Array:
    """Return the probability that at least one of two independent events happens (a noisy or)."""
    return np.asarray(1 - (1 - first) * (1 - second))


def _moved(evidence: Evidence, wrong: Array) -> sparse.csr_array:
    """Estimate (m, n) the probability that a caption belongs to an image other than its own: that its label is wrong, times
    that it is this one of its best images, or none of them (a conditional logit, McFadden 1974). `wrong`: (m,) probability
    of a wrong label."""
    way = evidence.t2i
    words, captions, _ = likeness(way.features)
    utility = MOVED_BY_WORDS * words + MOVED_BY_CAPTIONS * captions
    utility += MOVED_BY_PLACE * inverse_places(evidence)
    utility[way.match | way.refused | np.isnan(utility)] = -np.inf
    elsewhere = np.full((len(utility), 1), MOVED_ELSEWHERE)
    chance = softmax(np.concatenate([utility, elsewhere], 1), axis=1)[:, :-1]
    probability = wrong[way.queries][:, None] * chance
    texts, images = _pairs(way, "t2i")
    return sparse.csr_array((probability.ravel(), (texts.ravel(), images.ravel())), _shape(evidence))


def inverse_places(evidence: Evidence) -> Array:
    """Return for every caption and its results (q, k) 1 / place of the caption among the results of the image; 0 if it is
    not among them."""
    way = evidence.i2t
    texts, images = _pairs(way, "i2t")
    inverse = np.broadcast_to(1 / np.arange(1, way.results.shape[1] + 1), way.results.shape)
    table = sparse.csr_array((inverse.ravel(), (texts.ravel(), images.ravel())), _shape(evidence))
    return table[_pairs(evidence.t2i, "t2i")].toarray()


def _shape(evidence: Evidence) -> tuple[int, int]:
    """Return the number of captions, and a number of images that includes all queries and results."""
    images = max(evidence.i2t.queries.max(initial=0), evidence.t2i.results.max(initial=0))
    return len(evidence.fits), int(images) + 1


def _sigmoid(values: Array) -> Array:
    return np.where(np.isnan(values), 0.0, 1 / (1 + np.exp(-np.clip(np.nan_to_num(values), -50, 50))))


def wrong_and_vague(evidence: Evidence, at: int, known: Known) -> tuple[Array, Array]:
    """Return (m,) the probability that a caption belongs to another image, and (m,) bool the captions that say little."""
    judged = known.verdicts
    says_little = evidence.fits >= max(at, FITS_MANY)
    guessed = np.where(says_little, 0.0, np.nan_to_num(evidence.wrong))  # vague words are unlike all captions
    wrong = np.where(judged == "", guessed, judged == "wrong-caption")
    return wrong, says_little | (judged == "too-vague")


def _has_none(query_of_label: Array, kept: Array, queries: Array) -> Array:
    """Return (q,) bool: none of a query's labels is kept. `query_of_label`, `kept`: (P,) number and bool of each label."""
    counts = np.bincount(query_of_label, kept, int(query_of_label.max()) + 1)
    return np.asarray(counts[queries] == 0)


def causes_of_run(run: Run, split: str, question: Question, known: Known | None = None) -> Misses:
    """Find the causes of a run's misses from its stored evidence; arguments as for `find_causes`."""
    labels = None
    if run.analysis(split).judged is not None:
        labels = np.stack(right_pairs(run, split, "t2i").nonzero(), 1)
    return find_causes(split_evidence(run, split), run.image_of_text(split), question, known, labels)


def seed_noise(first: WayEvidence, second: WayEvidence, at: int) -> float:
    """Return the median difference of a query's margins in two trainings that differ in the seed alone, on the same
    queries."""
    before = first.match_scores - first.scores[:, at - 1]
    after = second.match_scores - second.scores[:, at - 1]
    return float(np.median(np.abs(after - before)))


def error_budget(misses: Misses) -> pd.DataFrame:
    """Count the misses of every cause. Return one row per cause: cause, count, and in percent of the misses share, low and
    high, the ends of its 95% interval (bootstrap over images). Shares sum to 100, or are NaN without a miss."""
    missed = misses.missed
    causes = misses.cause[missed]
    counts = np.bincount(causes, minlength=len(CAUSES))
    shares = np.full((len(CAUSES), 3), np.nan)
    if len(causes):
        is_cause = (causes[:, None] == np.arange(len(CAUSES))).astype(float)
        shares = 100 * mean_intervals(is_cause, misses.way.images[missed])
    columns = dict(zip(("share", "low", "high"), shares.T, strict=True))
    return pd.DataFrame({"cause": CAUSES, "count": counts, **columns})
