"""The probability that a result is a match without a label.

There are three routes to such a match: its captions say the same, its picture shows the same scene, or it is a caption
whose own label is probably wrong and which fits the query best. They are joined by a noisy or. What people know replaces
the estimate. The weights were fitted on Flickr8k's dev split (lab/causes.md).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import expit, logit, softmax

from coder_core.api.causes.evidence import Evidence, WayEvidence, among
from coder_core.api.causes.known import Known
from coder_core.api.sides import DIRECTIONS, Array, Direction

# Captions that say the same: 48 verdicts and 300 random pairs. Values are those of `FEATURES`.
BY_WORDS = 0.53
BY_CAPTIONS = 1.62
BY_TEXT_FROM = -10.7
WORDS_PER_CAPTIONS = 1.72  # ratio of both among the verdicts, for a run that has only one of them
# Pictures of one scene: views of one picture against other first results.
BY_PICTURES = 6.05
BY_PICTURES_FROM = 4.43
# A caption with a wrong label: 1,119 exchanged captions.
MOVED_BY_WORDS = 0.53
MOVED_BY_CAPTIONS = 1.35
MOVED_BY_PLACE = 1.52  # times 1 / place of the caption among the results of the image
MOVED_ELSEWHERE = 6.63  # it belongs to none of its best images
LEAST_PROBABILITY = 1e-9
ENOUGH_VERDICTS = 20  # on pairs without a label, for calibrating the probability on them


def unlabelled_matches(
    evidence: Evidence, way: WayEvidence, direction: Direction, known: Known, wrong: Array
) -> Array:
    """Estimate (q, k) the probability that each result is a match without a label.

    Args:
        way: the evidence on the queries in question, a part of `evidence`. wrong: (m,) probability that the label of a
            caption is wrong.
    """
    slope, offset = _calibration(evidence, known)
    alike = expit(slope * _odds(way) + offset)
    captions, images = query_pairs(way, direction)
    moved = _moved(evidence, wrong)[captions, images].toarray()
    probability = np.minimum(_either(alike, moved), 1 - LEAST_PROBABILITY)  # only people are certain
    probability[way.copies != 0] = 0  # which is a cause of its own
    probability[among(captions, images, known.refused)] = 0
    probability[among(captions, images, known.matches)] = 1
    probability[way.match | way.refused] = 0
    return probability


def query_pairs(way: WayEvidence, direction: Direction) -> tuple[Array, Array]:
    """Return (q, k) the captions and (q, k) the images of the pairs of a query and its result."""
    queries = np.broadcast_to(way.queries[:, None], way.results.shape)
    return (queries, way.results) if direction == "t2i" else (way.results, queries)


def _odds(way: WayEvidence) -> Array:
    """Return (q, k) the log odds of a match, before calibration."""
    probability = match_probability(way.features)
    return np.asarray(logit(np.clip(probability, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)))


def _calibration(evidence: Evidence, known: Known) -> tuple[float, float]:
    """Fit slope and offset of the log odds to the verdicts on results without a label (Platt 1999); 1 and 0 if there are
    fewer than `ENOUGH_VERDICTS`, or all are the same."""
    odds = []
    verdicts = []
    for direction in DIRECTIONS:
        way = evidence.way(direction)
        captions, images = query_pairs(way, direction)
        for pairs, verdict in ((known.people, True), (known.refused, False)):
            judged = among(captions, images, pairs) & ~way.match
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
    by_text = expit(BY_WORDS * words + BY_CAPTIONS * captions + BY_TEXT_FROM)
    by_pictures = expit(BY_PICTURES * (pictures - BY_PICTURES_FROM))
    return _either(np.nan_to_num(by_text), np.nan_to_num(by_pictures))


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
    return _table(evidence, "t2i", wrong[way.queries][:, None] * chance)


def inverse_places(evidence: Evidence) -> Array:
    """Return for every caption and its results (q, k) 1 / place of the caption among the results of the image; 0 if it is
    not among them."""
    results = evidence.i2t.results
    inverse = np.broadcast_to(1 / np.arange(1, results.shape[1] + 1), results.shape)
    captions, images = query_pairs(evidence.t2i, "t2i")
    return np.asarray(_table(evidence, "i2t", inverse)[captions, images].toarray())


def _table(evidence: Evidence, direction: Direction, values: Array) -> sparse.csr_array:
    """Return (m, n) the values (q, k) of the pairs of a query and its result by caption and image, and 0 for other pairs;
    n includes the images among queries and results."""
    captions, images = query_pairs(evidence.way(direction), direction)
    last = max(evidence.i2t.queries.max(initial=0), evidence.t2i.results.max(initial=0))
    shape = len(evidence.fits), int(last) + 1
    return sparse.csr_array((values.ravel(), (captions.ravel(), images.ravel())), shape)
