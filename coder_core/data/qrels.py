"""Graded judgments in the formats of information retrieval (qrels: TREC, BEIR), and the ids of images and captions in
files (docs/data.md, section 13). TREC separates by spaces, so spaces and % in ids may be written as %20 and %25.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol
from urllib.parse import quote, unquote

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError, stop_on_errors
from coder_core.data.lines import numbered_lines, shown

if TYPE_CHECKING:  # functions import NumPy, so that --help is fast
    import numpy as np

BEIR_HEADER = ["query-id", "corpus-id", "score"]
EXPECTED = "query 0 document grade, the grade a whole number; or BEIR's three columns with their header"
AMBIGUOUS = -1
Side = Literal["image", "text"]
Way = Literal["i2t", "t2i"]
WAYS: dict[Side, Way] = {"image": "i2t", "text": "t2i"}
_ENCODED = re.compile(r"[\s%]")


class GradedPairs(NamedTuple):
    """Judged pairs of one direction."""

    queries: np.ndarray  # (P,) int64 rows of images ("i2t") or of captions ("t2i")
    candidates: np.ndarray  # (P,) int64 rows of the other side; −1: the split does not have the document
    grades: np.ndarray  # (P,) int64; a document is relevant from 1 on


class Qrels(NamedTuple):
    """The judgments of a split."""

    pairs: dict[Way, GradedPairs]  # of each direction that has queries
    fact: str  # contents of the file, in words


class SampleIds:
    """Rows of the n images and m captions of a split by their ids. An image is found by its name, with more or fewer of
    its folders; `x.jpg#2` is the third caption of x.jpg. `caption_ids`: (m,) numbers in the data set, if known."""

    def __init__(
        self, image_names: Sequence[str], image_of_text: np.ndarray, caption_ids: np.ndarray | None = None
    ) -> None:
        self._images: dict[str, int] = {}
        self._short: dict[str, list[str]] = {}  # name without folders → names with folders
        for row, name in enumerate(image_names):
            self._images[name] = AMBIGUOUS if name in self._images else row
            self._short.setdefault(name.rsplit("/", 1)[-1], []).append(f"/{name}")
        self.texts: dict[int, list[int]] = {}  # image → the rows of its captions, ascending
        for row, image in enumerate(image_of_text.tolist()):
            self.texts.setdefault(image, []).append(row)
        self._by_number: dict[int, int] = {}
        for row, number in enumerate([] if caption_ids is None else caption_ids.tolist()):
            self._by_number[number] = AMBIGUOUS if number in self._by_number else row

    def find(self, name: str) -> tuple[Side, int] | None:
        """Return the side and the row of an id; None if the split does not have it, row −1 if two samples have it."""
        for spelling in spellings(name):
            if (image := self.image(spelling)) is not None:
                return "image", image
            if (text := self.text(spelling)) is not None:
                return "text", text
        return None

    find_query = find
    find_document = find
    uncounted: AbstractSet[str] = frozenset()

    def image(self, name: str) -> int | None:
        """Return the row of an image by its name, with more or fewer of its folders; None and −1 as for `find`."""
        if name in self._images:
            return self._images[name]
        similar = self._short.get(name.rsplit("/", 1)[-1], [])
        path = f"/{name}"
        similar = [other for other in similar if other.endswith(path) or path.endswith(other)]
        if not similar:
            return None
        return self._images[similar[0][1:]] if len(similar) == 1 else AMBIGUOUS

    def text(self, name: str) -> int | None:
        """Return the row of the caption `x.jpg#2` or of a number in the data set; None and −1 as for `find`."""
        owner, mark, digits = name.rpartition("#")
        if not digits.isdecimal():
            return None
        if not mark:
            return self._by_number.get(int(digits))
        image = self.image(owner)
        rows = [] if image is None else self.texts.get(image, [])
        return AMBIGUOUS if image == AMBIGUOUS else dict(enumerate(rows)).get(int(digits))


class Ids(Protocol):
    """Finds the samples of a split by the ids in a file of judgments or in a run file; results as for `SampleIds.find`."""

    @property
    def uncounted(self) -> AbstractSet[str]:
        """Ids of queries that the split knows but does not count."""
        ...

    def find_query(self, name: str) -> tuple[Side, int] | None: ...
    def find_document(self, name: str) -> tuple[Side, int] | None: ...


def spellings(name: str) -> list[str]:
    """Return an id as written and, if it differs, with %20 and %25 as spaces and %."""
    return list(dict.fromkeys((name, unquote(name))))


def sample_ids(image_names: Sequence[str], image_of_text: np.ndarray) -> tuple[list[str], list[str]]:
    """Make ids of n images and m captions for a TREC file, unique and without spaces. InputError: images share a name.

    >>> import numpy as np
    >>> sample_ids(["a b.jpg", "c.jpg"], np.array([0, 0, 1]))
    (['a%20b.jpg', 'c.jpg'], ['a%20b.jpg#0', 'a%20b.jpg#1', 'c.jpg#0'])
    """
    name, count = Counter(image_names).most_common(1)[0]
    if count > 1:
        raise InputError.at("the split", f"has {count} images named {shown(name)}", "unique names of images")
    images = [_ENCODED.sub(lambda match: quote(match[0], safe=""), name) for name in image_names]
    counts: Counter[int] = Counter()
    texts = []
    for image in image_of_text.tolist():
        texts.append(f"{images[image]}#{counts[image]}")
        counts[image] += 1
    return images, texts


def read_qrels(path: Path, ids: Ids, example: str) -> Qrels:
    """Read the judgments of a split; `example` is an id of it, for messages. Queries of other splits are left out. A
    document that is not in the split is kept and counts as never found. InputError: a line has another format; two
    samples share an id; query and document are both images or both captions; a pair has two grades; or no line is about
    a query of this split."""
    import numpy as np

    faults: list[Fault] = []
    grades: dict[Way, dict[tuple[int, int], int]] = {}
    documents: dict[str, int] = {}  # unknown document → its own number below −1
    lines = elsewhere = 0
    for where, query_id, document_id, grade in judgement_lines(path, faults):
        lines += 1
        query = ids.find_query(query_id)
        document = ids.find_document(document_id)
        if query is None:
            elsewhere += 1
            continue
        if AMBIGUOUS in (query[1], document and document[1]) or (document and document[0] == query[0]):
            fact = f"{shown(query_id)} and {shown(document_id)} are not one caption and one image"
            faults.append(Fault(where, fact, "ids of a caption and an image that no other sample has"))
            continue
        row = document[1] if document else documents.setdefault(document_id, -2 - len(documents))
        way = WAYS[query[0]]
        pair = (query[1], row)
        if (known := grades.setdefault(way, {}).setdefault(pair, grade)) != grade:
            faults.append(Fault(where, f"grades a pair {grade} that was already graded {known}", "one grade"))
    stop_on_errors(faults[:MOST_FAULTS_SHOWN])
    if not grades:
        fact = f"none of its {lines:,} lines is about a query of this split"
        raise InputError.at(path, fact, f"ids such as {example}", "evaluate the split it is about")
    pairs: dict[Way, GradedPairs] = {}
    for way in sorted(grades):
        rows = np.array([(*pair, grade) for pair, grade in grades[way].items()], np.int64)
        pairs[way] = GradedPairs(rows[:, 0], np.maximum(rows[:, 1], -1), rows[:, 2])
    sides = {"i2t": "images", "t2i": "captions"}
    fact = "queries: " + ", ".join(f"{len(np.unique(p.queries)):,} {sides[way]}" for way, p in pairs.items())
    fact += f"; {elsewhere:,} lines about queries of other splits" * bool(elsewhere)
    missed = sum(int(((p.candidates < 0) & (p.grades > 0)).sum()) for p in pairs.values())
    fact += f"; {missed:,} relevant documents are not in this split and count as not found" * bool(missed)
    return Qrels(pairs, fact)


def judgement_lines(path: Path, faults: list[Fault]) -> Iterator[tuple[str, str, str, int]]:
    """Yield (location, query, document, grade) of every line; a line of another format adds a fault."""
    beir = False
    for number, (where, line) in enumerate(numbered_lines(path, "judgement", faults)):
        cells = [cell.strip() for cell in line.split("\t")]
        if not number and cells == BEIR_HEADER:
            beir = True
            continue
        if not beir and len(cells) != 4:
            cells = line.split()
        if len(cells) == (3 if beir else 4) and re.fullmatch(r"[+-]?\d{1,9}(\.0+)?", cells[-1]):
            yield where, cells[0], cells[-2], int(float(cells[-1]))
        elif len(faults) < MOST_FAULTS_SHOWN:
            faults.append(Fault(where, f"is {shown(line)}", EXPECTED))
