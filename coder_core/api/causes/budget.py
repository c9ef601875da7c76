"""The error budget: one cause for every query that misses.

A query that misses at K gets the first cause that applies, in the order of `CAUSES`:

wrong label         a reviewer called all its labels wrong, or each says something specific and belongs to another image
                    with probability ≥ 0.5 (in a search log, a query's only right picture is probably not the one meant)
unlabelled match    one of the first K results matches by a verdict, a judgement or a group, or probably (≥ 0.5)
copy                one of them is a near-duplicate of the match's picture, or has the same text
hub                 hub correction brings a match into the first K
vague query         a reviewer called it too vague, or all its words fit at least K, and at least 5, other images
close               the margin is no larger than its typical change from one training seed to another
model error         none of these

An image as a query has several labels: it has a wrong label, or is vague, only if that holds for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd

from coder_core.api.causes.evidence import (
    FITS_MANY,
    PICTURE,
    TEXT,
    Evidence,
    WayEvidence,
    right_pairs,
    split_evidence,
)
from coder_core.api.causes.known import Known
from coder_core.api.causes.unlabelled import unlabelled_matches
from coder_core.api.run import Run
from coder_core.api.sides import Array, Direction
from coder_core.evaluation.bootstrap import mean_intervals
from coder_core.evaluation.relevance import label_pairs

CAUSES = ("wrong label", "unlabelled match", "copy", "hub", "vague query", "close", "model error")
WRONG, UNLABELLED, COPY, HUB, VAGUE, CLOSE, MODEL = range(len(CAUSES))
HIT = -1
PROBABLE = 0.5
SEED_NOISE = 0.3
"""Median difference of a query's margins in two seeds, in standard deviations of the margins: 0.27 to 0.36 for both
directions and K of 1, 5 and 10 (Flickr8k's dev split, lab/causes.md)."""


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

    direction: Direction
    way: WayEvidence  # of the queries asked about
    cause: Array  # (q,) int8: a position in `CAUSES`, or `HIT`
    wrong: Array  # (q,) bool: all labels are wrong
    unlabelled: Array  # (q, k) float64, probability that a result is a match without a label
    at: int
    noise: float  # difference of a query's margins in two trainings
    judged: bool  # the labels are judgments of a search log

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
    judged = labels is not None
    labels = label_pairs(image_of_text) if labels is None else labels
    whole = evidence.way(question.direction)
    way = whole if question.within is None else _part(whole, np.isin(whole.queries, question.within))
    at = min(question.at, way.scores.shape[1])
    noise = question.noise
    if noise is None:
        noise = SEED_NOISE * float(np.std(whole.match_scores - whole.scores[:, at - 1]))

    wrong_label, vague_captions = wrong_and_vague(evidence, question.at, known)
    unlabelled = unlabelled_matches(evidence, way, question.direction, known, wrong_label)

    captions, images = labels.T
    query_of_label = captions if question.direction == "t2i" else images
    is_right = (wrong_label[captions] < PROBABLE) | (image_of_text[captions] != images)
    is_specific = ~vague_captions[captions]
    wrong = _has_none(query_of_label, is_right, way.queries)
    vague = _has_none(query_of_label, is_right & is_specific, way.queries)

    first = way.copies[:, :at]
    equal_text = (first == TEXT).any(1) & ~vague  # texts that say little are equal by chance

    applies = {
        WRONG: wrong,
        UNLABELLED: (unlabelled[:, :at] >= PROBABLE).any(1),
        COPY: (first == PICTURE).any(1) | equal_text,
        HUB: way.corrected < at,
        VAGUE: vague,
        CLOSE: way.scores[:, at - 1] - way.match_scores <= noise,
        MODEL: np.ones(len(way.queries), bool),
    }

    first_cause = np.stack([applies[cause] for cause in range(len(CAUSES))]).argmax(0)
    cause = np.where(way.ranks < at, HIT, first_cause).astype(np.int8)
    return Misses(question.direction, way, cause, wrong, unlabelled, at, noise, judged)


def _part(way: WayEvidence, rows: Array) -> WayEvidence:
    return replace(way, **{field.name: getattr(way, field.name)[rows] for field in fields(way)})


def wrong_and_vague(evidence: Evidence, at: int, known: Known) -> tuple[Array, Array]:
    """Return (m,) the probability that a caption belongs to another image, and (m,) bool the captions that say little."""
    judged = known.verdicts
    says_little = evidence.fits >= max(at, FITS_MANY)
    wrong = np.where(judged == "", np.nan_to_num(evidence.wrong), judged == "wrong-caption")
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
