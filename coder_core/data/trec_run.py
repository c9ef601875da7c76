"""TREC run files: the lists of another system, lines of query Q0 document rank score tag (docs/data.md, section 13)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import count_cases, read_lines, shown
from coder_core.data.qrels import AMBIGUOUS, WAYS, Ids, Side, Way, spellings

LINE = "query Q0 document rank score tag"
EXPECTED = f"{LINE}, separated by spaces, the rank a whole number, the score a finite one"
FORM = "spaces in ids are written as %20"


class ListTable(NamedTuple):
    """The lists of one direction; k is the length of the longest, 0 without any."""

    candidates: np.ndarray  # (Q, k) int32 candidates, best first; −1 after the end of a list
    scores: np.ndarray  # (Q, k) float64; −∞ after the end of a list


class Line(NamedTuple):
    """One line of a run file."""

    number: int  # in the file, from 1
    query: str
    document: str
    rank: int
    score: float
    tag: str


@dataclass(frozen=True)
class TrecRun:
    """The lists of a run file for a split."""

    i2t: ListTable
    t2i: ListTable
    tag: str  # the system's name for itself, of the first line
    faults: list[Fault] = field(default_factory=list)  # warnings and notes


def read_trec_run(path: Path, ids: Ids, images: int, texts: int, example: str) -> TrecRun:
    """Read the lists of a run file for a split of n images and m captions; `example` is an id of it, for messages.

    The scores order a list. InputError: a line has another form or a score that is not finite; the split has no query or
    document of that name, or two; query and document are both images or both captions; a pair is listed twice; the ranks
    of a list repeat, or contradict its scores; the file has no lines.
    """
    faults: list[Fault] = []
    lists: dict[Way, dict[int, dict[int, Line]]] = {"i2t": {}, "t2i": {}}  # query → candidate → line
    tag = ""
    left_out: dict[str, None] = {}
    for line in _lines(path, faults):
        tag = tag or line.tag
        query = ids.find_query(line.query)
        if query is None and not ids.uncounted.isdisjoint(spellings(line.query)):
            left_out[line.query] = None
            continue
        document = ids.find_document(line.document)
        if query is None or document is None or not _are_pair(query, document):
            faults.append(_fault_of_ids(path, line, query, document, example))
            continue
        listed = lists[WAYS[query[0]]].setdefault(query[1], {})
        if document[1] in listed:
            fact = f"lists {shown(line.document)} for {shown(line.query)} again, after line {listed[document[1]].number}"
            fix = "remove one of the two lines"
            faults.append(Fault(_place(path, line), fact, "every document once in a list", fix))
            continue
        listed[document[1]] = line

    for of_way in lists.values():
        for listed in of_way.values():
            faults += _order_faults(path, list(listed.values()))

    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    if not any(lists.values()):
        raise InputError.at(path, "lists nothing for the queries of this split", f"lines of {LINE}")

    i2t = _table(lists["i2t"], images)
    t2i = _table(lists["t2i"], texts)
    return TrecRun(i2t, t2i, tag, [*faults, *_notes(path, i2t, t2i, list(left_out))])


def _place(path: Path, line: Line) -> str:
    return f"{path} line {line.number}"


def _lines(path: Path, faults: list[Fault]) -> Iterator[Line]:
    """Yield the lines of a file; a line of another form adds a fault. Stop after the most faults that are shown."""
    for number, text in enumerate(read_lines(path, "line of a run", faults), 1):
        if len(faults) >= MOST_FAULTS_SHOWN:
            return
        cells = text.split()
        where = f"{path} line {number}"
        try:
            query, _, document, rank_text, score_text, tag = cells
            rank = int(rank_text)
            score = float(score_text)
        except ValueError:  # a number of fields other than six, too
            faults += [Fault(where, f"is {shown(text)}", EXPECTED, FORM)] if text else []
            continue
        if not math.isfinite(score):
            faults.append(Fault(where, f"has the score {shown(score_text)}", "a finite number"))
        elif rank < 0:
            faults.append(Fault(where, f"has the rank {shown(rank_text)}", "a whole number from 0 or 1"))
        else:
            yield Line(number, query, document, rank, score, tag)


def _are_pair(query: tuple[Side, int], document: tuple[Side, int]) -> bool:
    """True if a query and a document name one caption and one image each."""
    return query[0] != document[0] and AMBIGUOUS not in (query[1], document[1])


def _fault_of_ids(
    path: Path, line: Line, query: tuple[Side, int] | None, document: tuple[Side, int] | None, example: str
) -> Fault:
    """Return the fault of a line whose query and document are not a pair of the split."""
    where = _place(path, line)
    for what, name, found in (("query", line.query, query), ("document", line.document, document)):
        if found is None:
            fact = f"names the {what} {shown(name)}, which the split does not have"
            return Fault(where, fact, f"ids such as {example}", "name the split that the run is about")
        if found[1] == AMBIGUOUS:
            fact = f"names the {what} {shown(name)}, a name that several samples of the split have"
            return Fault(where, fact, "names with folders")
    fact = f"lists {shown(line.document)} for {shown(line.query)}, which are both images or both captions"
    return Fault(where, fact, "a caption and an image")


def _order_faults(path: Path, listed: Sequence[Line]) -> list[Fault]:
    """Return a fault for the first line of a list whose rank repeats, or whose score is above that of a better rank."""
    by_rank = sorted(listed, key=lambda line: line.rank)
    for better, line in pairwise(by_rank):
        if line.rank == better.rank:
            fact = f"has rank {line.rank}, as line {better.number} of the same query"
            return [Fault(_place(path, line), fact, "a different rank for every document of a query")]
        if line.score > better.score:
            fact = (
                f"has score {line.score:g} at rank {line.rank}, above {better.score:g} at rank {better.rank}"
            )
            fact += f" (line {better.number})"
            fix = "write ranks in the order of the scores, the highest first"
            return [Fault(_place(path, line), fact, "scores that fall with the rank", fix)]
    return []


def _table(lists: dict[int, dict[int, Line]], queries: int) -> ListTable:
    """Return the lists of one direction as arrays, best first."""
    longest = max(map(len, lists.values()), default=0)
    candidates = np.full((queries, longest), -1, np.int32)
    scores = np.full((queries, longest), -np.inf)
    for query, listed in lists.items():
        best_first = sorted(listed.items(), key=lambda item: item[1].rank)
        candidates[query, : len(listed)] = [candidate for candidate, _ in best_first]
        scores[query, : len(listed)] = [line.score for _, line in best_first]
    return ListTable(candidates, scores)


def _notes(path: Path, i2t: ListTable, t2i: ListTable, left_out: Sequence[str]) -> list[Fault]:
    """Return a note on the lists, and warnings about queries that they leave out."""
    facts = []
    notes = []
    for lists, asking, answering in ((t2i, "captions", "images"), (i2t, "images", "captions")):
        queries, longest = lists.candidates.shape
        if not longest:
            facts.append(f"no lists of {answering} for {asking}")
            continue
        unanswered = int((lists.candidates[:, 0] < 0).sum())
        facts.append(f"{answering} for {queries - unanswered:,} {asking}, at most {longest:,} each")
        if unanswered:
            fact = f"{unanswered:,} of {queries:,} {asking} have no list and count as misses"
            notes.append(Fault(str(path), fact, severity="warning"))
    problem = "queries without a right picture are left out"
    notes += count_cases(str(path), problem, left_out, severity="note")
    return [Fault(str(path), "lists " + "; ".join(facts), severity="note"), *notes]
