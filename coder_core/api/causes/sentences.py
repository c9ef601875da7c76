"""Why one query misses, in one sentence, from the evidence that gave its cause."""

from __future__ import annotations

import numpy as np

from coder_core.api.causes.budget import CLOSE, COPY, HIT, HUB, UNLABELLED, VAGUE, WRONG, Misses
from coder_core.api.causes.evidence import TEXT, Evidence
from coder_core.api.causes.known import Known
from coder_core.api.retrieval.results import occurrences
from coder_core.api.run import Run
from coder_core.api.sides import Array, Direction

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
HUB_DEVIATIONS = 2.0
"""A candidate is a hub if it is among the first ten results of more queries than the mean and two standard deviations
(Radovanović et al. 2010, section 3)."""


def hubs(run: Run, split: str, direction: Direction) -> Array:
    """Return the candidates that are hubs."""
    counts = occurrences(run, split, direction)["count"].to_numpy()
    return np.flatnonzero(counts > counts.mean() + HUB_DEVIATIONS * counts.std())


def why(misses: Misses, query: int, evidence: Evidence, known: Known, hub_candidates: Array) -> str:
    """Say why a query misses: "Missed by 0.040: the first three results are hubs; with hub correction its match has rank
    2." Return "" for a query without evidence, outside the sample of a large split.

    Args:
        misses: from `find_causes` with `evidence` and `known`. hub_candidates: from `hubs`.
    """
    rows = np.flatnonzero(misses.way.queries == query)
    if not len(rows):
        return ""
    row = int(rows[0])
    margin = float(misses.margins[row])
    if misses.cause[row] == HIT:
        place = int(misses.way.ranks[row]) + 1
        return f"Hit: its match has rank {place}."
    return f"Missed by {abs(margin):.3f}: {_reason(misses, row, evidence, known, hub_candidates)}."


def _reason(misses: Misses, row: int, evidence: Evidence, known: Known, hub_candidates: Array) -> str:
    way = misses.way
    direction = misses.direction
    cause = int(misses.cause[row])
    query = int(way.queries[row])
    results = way.results[row, : misses.at]
    if cause == WRONG:
        sentence = _wrong_judgment if misses.judged else _wrong_label
        return sentence(direction, query, evidence, known)
    if cause == UNLABELLED:
        return _unlabelled_match(misses.unlabelled[row, : misses.at])
    if cause == COPY:
        return _copy(direction, way.copies[row, : misses.at])
    if cause == HUB:
        return _hub(np.isin(results, hub_candidates), int(way.corrected[row]) + 1)
    if cause == VAGUE:
        return _vague(direction, query, evidence, known)
    if cause == CLOSE:
        return f"training with another seed typically shifts such a margin by {misses.noise:.3f}"

    return "this is a model error; no label, copy, hub or vague wording explains it"


def _wrong_label(direction: Direction, query: int, evidence: Evidence, known: Known) -> str:
    if direction == "i2t":
        return "all its captions probably belong to other images"
    if known.verdicts[query] == "wrong-caption":
        return "a reviewer says that the caption belongs to another image"
    return f"the caption probably belongs to another image (probability {evidence.wrong[query]:.2f})"


def _wrong_judgment(direction: Direction, query: int, evidence: Evidence, known: Known) -> str:
    if direction == "i2t":
        return "every query for which it was judged right probably means another picture"
    if known.verdicts[query] == "wrong-caption":
        return "a reviewer says that the query means another picture than the one judged right"
    chance = f"probability {evidence.wrong[query]:.2f}"
    return f"the query probably means another picture than the one judged right ({chance})"


def _unlabelled_match(probability: Array) -> str:
    place = int(probability.argmax()) + 1
    largest = float(probability.max())
    if largest == 1:
        return f"result {place} matches by a verdict, a judgment or its group, but has no label"
    return f"result {place} probably matches, but has no label (probability {largest:.2f})"


def _copy(direction: Direction, copies: Array) -> str:
    place = int(np.flatnonzero(copies)[0]) + 1
    same_text = copies[place - 1] == TEXT
    if direction == "t2i":
        fact = (
            "has a caption with the same text" if same_text else "is a near-duplicate of the matching picture"
        )
    else:
        fact = (
            "has the text of a matching caption"
            if same_text
            else "describes a near-duplicate of this picture"
        )
    return f"result {place} {fact}"


def _hub(is_hub: Array, rank: int) -> str:
    corrected = f"with hub correction its match has rank {rank}"
    places = np.flatnonzero(is_hub) + 1
    if not len(places):
        return corrected
    if len(places) == 1:
        return f"result {places[0]} is a hub; {corrected}"
    of_first = f"the first {NUMBERS[len(is_hub)]} results are hubs"
    if len(places) < len(is_hub):
        of_first = f"{NUMBERS[len(places)]} of {of_first}"
    return f"{of_first}; {corrected}"


def _vague(direction: Direction, query: int, evidence: Evidence, known: Known) -> str:
    if direction == "i2t":
        return "each of its captions fits many images"
    if known.verdicts[query] == "too-vague":
        return "a reviewer says that the caption is too vague"
    return f"all its words also fit {evidence.fits[query]:,} other images"
