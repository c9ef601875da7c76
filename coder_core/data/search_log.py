"""A search log: queries that belong to no picture, with graded judgments of pictures (TREC's or BEIR's qrels).

A query is counted if it has a right picture in the data. Its *own* picture, which pages show in the place of a caption's
picture, is the one judged best. All other queries are listed with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import check_texts, numbered_lines, parse_json_text, shown
from coder_core.data.qrels import AMBIGUOUS, SampleIds, Side, judgement_lines, spellings

MISSING = -1  # a judged picture that is not in the data
UNJUDGED = "no judgment"
NOTHING_RIGHT = "judged, without a right picture in the data"
QUERY_LINE = "the id of a query, a tab, and its text"


@dataclass(frozen=True)
class SearchLog:
    """Queries of a search log: m counted ones, and the others."""

    query_ids: list[str]  # m ids of the counted queries
    texts: list[str]  # their m texts
    image_of_text: np.ndarray  # (m,) int64, the picture judged best
    judgements: np.ndarray  # (P, 3) int64 rows (query, picture, grade); picture −1: not in the data
    others: list[tuple[str, str, str]]  # id, text and reason of every query that is not counted
    rows: np.ndarray  # (m,) int64, the number of every counted query among all queries of the file

    def document(self) -> dict[str, Any]:
        """Return what an analysis stores besides the judgments."""
        return {"query_ids": self.query_ids, "others": [list(other) for other in self.others]}

    def keep(self, images: np.ndarray) -> SearchLog:
        """Return the log on the pictures for which (n,) bool `images` is true; queries whose own picture is left out
        become others."""
        number = np.append(np.where(images, np.cumsum(images) - 1, MISSING), MISSING)
        kept = images[self.image_of_text]
        row = np.cumsum(kept) - 1
        query, picture, grade = self.judgements[kept[self.judgements[:, 0]]].T
        lost = [
            (self.query_ids[q], self.texts[q], "its best picture is left out") for q in np.flatnonzero(~kept)
        ]
        return replace(
            self,
            query_ids=[self.query_ids[q] for q in np.flatnonzero(kept)],
            texts=[self.texts[q] for q in np.flatnonzero(kept)],
            image_of_text=number[self.image_of_text[kept]],
            judgements=np.stack([row[query], number[picture], grade], 1),
            others=[*self.others, *lost],
            rows=self.rows[kept],
        )

    @property
    def queries_in_all(self) -> int:
        """Number of queries of the file."""
        return len(self.query_ids) + len(self.others)


class QueryIds:
    """Ids of the m queries and n pictures of a split that is a search log.

    Attributes:
        unanswerable: ids without a right picture that `find_query` was asked for.
        uncounted: ids of all queries that are listed, not counted.
    """

    def __init__(self, image_names: Sequence[str], document: Any) -> None:
        self._pictures = SampleIds(image_names, np.empty(0, np.int64))
        self._queries = {name: row for row, name in enumerate(document["query_ids"])}
        self._nothing_right = {name for name, _, reason in document["others"] if reason == NOTHING_RIGHT}
        self.unanswerable: set[str] = set()
        self.uncounted = {name for name, _, _ in document["others"]}

    def find_query(self, name: str) -> tuple[Side, int] | None:
        """Return the row of a query; None if the split does not count it."""
        for spelling in spellings(name):
            if spelling in self._queries:
                return "text", self._queries[spelling]
            if spelling in self._nothing_right:
                self.unanswerable.add(spelling)
        return None

    def find_document(self, name: str) -> tuple[Side, int] | None:
        """Return the row of a picture; None and row −1 as for `SampleIds.find`."""
        for spelling in spellings(name):
            if (row := self._pictures.image(spelling)) is not None:
                return "image", row
        return None


def read_search_log(queries: Path, qrels: Path, image_names: Sequence[str]) -> tuple[SearchLog, list[Fault]]:
    """Read the queries of a log and the judgments of pictures of the data, and return notes on what they contain.
    InputError: a line has another format, an id occurs twice, a name is that of several pictures, a pair has two
    grades, or no query has a right picture in the data."""
    text_of = _read_queries(queries)
    grades = _read_judgements(qrels, text_of, image_names)
    log = _counted(text_of, grades)
    if not log.query_ids:
        fact = f"judges no picture of the data as right for a query of {queries}"
        fix = "check the ids of queries, and the names of pictures"
        raise InputError.at(qrels, fact, f"names such as {image_names[0]}", fix)
    return log, _notes(log, queries, qrels, len(grades.keys() - text_of.keys()))


def log_of_judgements(judgements: np.ndarray, texts: Sequence[str], images: int) -> SearchLog:
    """Return the search log of queries that are numbered, as ids too, with (P, 3) rows (query, picture, grade). InputError:
    a number is outside the queries or pictures, a pair has two grades, or no query has a right picture."""
    grades: dict[str, dict[int, int]] = {}
    for row, (query, picture, grade) in enumerate(judgements.tolist()):
        if not (0 <= query < len(texts) and 0 <= picture < images):
            expected = f"a query from 0 to {len(texts) - 1} and an image from 0 to {images - 1}"
            raise InputError.at(f"judgements, row {row}", f"is ({query}, {picture}, {grade})", expected)
        if (known := grades.setdefault(str(query), {}).setdefault(picture, grade)) != grade:
            fact = f"grades a pair {grade} that was already graded {known}"
            raise InputError.at(f"judgements, row {row}", fact, "one grade")
    log = _counted({str(row): text for row, text in enumerate(texts)}, grades)
    if not log.query_ids:
        raise InputError.at("judgements", "judge no image as right", "a grade of 1 or more")
    return log


def _counted(text_of: Mapping[str, str], grades: Mapping[str, Mapping[int, int]]) -> SearchLog:
    """Return the log of queries, id → text, and judgments, id → picture → grade; pictures below 0 are not in the data."""
    query_ids: list[str] = []
    owners: list[int] = []
    numbers: list[int] = []  # of the counted queries among all
    judgements: list[tuple[int, int, int]] = []
    others: list[tuple[str, str, str]] = []
    for number, (name, text) in enumerate(text_of.items()):
        judged = grades.get(name, {})
        right = {picture: grade for picture, grade in judged.items() if picture >= 0 and grade > 0}
        if not right:
            others.append((name, text, NOTHING_RIGHT if judged else UNJUDGED))
            continue
        best = max(right, key=lambda picture: right[picture])
        owners.append(best)
        judgements += [(len(query_ids), max(picture, MISSING), grade) for picture, grade in judged.items()]
        query_ids.append(name)
        numbers.append(number)

    texts = [text_of[name] for name in query_ids]
    rows = np.array(judgements, np.int64).reshape(-1, 3)
    return SearchLog(query_ids, texts, np.array(owners, np.int64), rows, others, np.array(numbers, np.int64))


def _notes(log: SearchLog, queries: Path, qrels: Path, unknown: int) -> list[Fault]:
    reasons = [reason for _, _, reason in log.others]
    fact = f"{len(log.query_ids):,} queries have a right picture"
    for reason in dict.fromkeys(reasons):
        fact += f"; {reasons.count(reason):,} are listed, not counted ({reason})"
    notes = [Fault(str(queries), fact, severity="note")]
    right = int((log.judgements[:, 2] > 0).sum())
    fact = f"{len(log.judgements):,} judgments of these queries, {right:,} of them right"
    if missing := int((log.judgements[:, 1] == MISSING).sum()):
        fact += f"; {missing:,} pictures are not in the data and count as not found"
    if unknown:
        fact += f"; {unknown:,} judged queries are not in {queries.name}"
    return [*notes, Fault(str(qrels), fact, severity="note")]


def _read_queries(path: Path) -> dict[str, str]:
    """Return id → text of the queries: id, tab, text; or BEIR's JSON lines with _id and text."""
    faults: list[Fault] = []
    texts: dict[str, str] = {}
    for number, (where, line) in enumerate(numbered_lines(path, "query", faults)):
        if path.suffix == ".jsonl":
            item = parse_json_text(line, where)
            cells = [str(item.get("_id", "")), str(item.get("text", ""))] if isinstance(item, dict) else []
        else:
            cells = [cell.strip() for cell in line.split("\t")]
            if not number and cells[-1:] == ["text"]:  # a header
                continue
        if len(cells) != 2 or not all(cells):
            faults.append(Fault(where, f"is {shown(line)}", QUERY_LINE))
        elif cells[0] in texts:
            faults.append(
                Fault(where, f"the id {shown(cells[0])} is also that of an earlier query", "its own id")
            )
        else:
            texts[cells[0]] = " ".join(cells[1].split())

    stop_on_errors([*faults[:MOST_FAULTS_SHOWN], *check_texts(str(path), [*texts, *texts.values()])])
    if not texts:
        raise InputError.at(path, "has no queries", f"lines of {QUERY_LINE}")

    return texts


def _read_judgements(
    path: Path, text_of: dict[str, str], image_names: Sequence[str]
) -> dict[str, dict[int, int]]:
    """Return id of a query → picture → grade. Pictures that are not in the data have their own numbers below −1."""
    faults: list[Fault] = []
    different = list(dict.fromkeys(image_names))
    ids = QueryIds(different, {"query_ids": list(text_of), "others": []})
    names = list(text_of)
    grades: dict[str, dict[int, int]] = {}
    missing: dict[str, int] = {}
    for where, query_id, document_id, grade in judgement_lines(path, faults):
        query = ids.find_query(query_id)
        document = ids.find_document(document_id)
        if document is not None and document[1] == AMBIGUOUS:
            fact = f"{shown(document_id)} is the name of several pictures"
            faults.append(Fault(where, fact, "names with folders"))
            continue
        picture = document[1] if document else missing.setdefault(document_id, -2 - len(missing))
        name = query_id if query is None else names[query[1]]
        of_query = grades.setdefault(name, {})
        if (known := of_query.setdefault(picture, grade)) != grade:
            faults.append(Fault(where, f"grades a pair {grade} that was already graded {known}", "one grade"))

    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    return grades
