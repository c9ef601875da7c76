"""Reviews of caption-image pairs in one append-only JSON-lines file beside the data.

Section 12 of docs/data.md describes the format. Every line is appended under a lock on the file and synced to disk
before the call returns, so several processes may write at once, and a crash of the machine loses nothing.
"""

import codecs
import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.console.plain_files import DOCUMENT, open_plain, sync
from coder_core.data.lines import (
    LONGEST_CAPTION_CHARACTERS,
    holds_half_character,
    parse_json_text,
    plain_file,
    shown,
)

FILE = "reviews.jsonl"
CLEANING = "coder_core.train --clean"  # reviewer of automatic verdicts, which any person's verdict overrides
WEIGHT = "weight "  # prefix of the tag in which `CLEANING` records the weight of a pair
VERSION = 1
Verdict = Literal["wrong-caption", "also-matches", "too-vague", "duplicate", "label-right", "none"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
LONGEST_TAG = 50
MOST_TAGS = 20
LONGEST = {"id": 40, "undo": 40, "time": 40, "reviewer": 100, "image": 1_000, "note": 2_000}
LONGEST |= {"caption": LONGEST_CAPTION_CHARACTERS, "tags": LONGEST_TAG}
KEYS = ("id", "time", "reviewer", "image", "caption", "verdict", "tags", "note")
MAY_BE_EMPTY = ("caption", "note")
LONGEST_LINE = 1 << 17  # bytes
EXPECTED = "a line as docs/data.md describes it (section 12)"
_WEIGHT = re.compile(r"weight ([01]\.\d+)")
_ESCAPE = re.compile("u[0-9a-f]{0,4}")  # a cut \\u00e9
_UTC = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d(\.\d+)?Z")
_UNNAMED = re.compile(r"(?:image )?(\d+)")

Pair = tuple[str, str]


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass(frozen=True)
class Review:
    """One person's verdict on a pair."""

    image: str  # its name, or the hash of its captions (`image_keys`)
    caption: str  # its text; "" means the image with all its captions
    # "label-right" confirms the labels: a labelled pair belongs together, any other pair does not.
    # "none" is only a remark: tags or a note.
    verdict: Verdict
    reviewer: str
    tags: tuple[str, ...] = ()
    note: str = ""
    id: str = field(default_factory=lambda: secrets.token_hex(8))  # to undo the verdict
    time: str = field(default_factory=_now)  # UTC

    @property
    def pair(self) -> Pair:
        return self.image, self.caption

    def document(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        return {"version": VERSION} | {key: getattr(self, key) for key in KEYS} | {"tags": list(self.tags)}


@dataclass(frozen=True)
class Reviews:
    """Contents of a file of reviews."""

    all: tuple[Review, ...] = ()  # every verdict in the order of the file, replaced and undone ones included
    undone: frozenset[str] = frozenset()  # ids of undone verdicts
    lines: tuple[dict[str, Any], ...] = ()  # the JSON objects of the file
    faults: tuple[Fault, ...] = ()  # warnings about lines that were left out

    @cached_property
    def standing(self) -> tuple[Review, ...]:
        """Latest verdict of every reviewer on every pair that is not undone, in the order of the file."""
        latest: dict[tuple[str, Pair], Review] = {}
        for review in self.all:
            if review.id not in self.undone:
                latest.pop((review.reviewer, review.pair), None)
                latest[review.reviewer, review.pair] = review
        return tuple(latest.values())

    @cached_property
    def by_reviewer(self) -> dict[str, dict[Pair, Review]]:
        """Reviewer → pair → standing verdict, the latest last."""
        reviews: dict[str, dict[Pair, Review]] = defaultdict(dict)
        for review in self.standing:
            reviews[review.reviewer][review.pair] = review
        return reviews

    @cached_property
    def verdicts(self) -> dict[Pair, Verdict]:
        """Pair → its most frequent verdict; the latest of equally frequent ones. Those of `CLEANING` count only if no
        person judged the pair, or its image with all its captions."""
        given = [review for review in self.standing if review.verdict != "none"]
        people = {review.pair for review in given if review.reviewer != CLEANING}
        latest_first: dict[Pair, list[Verdict]] = defaultdict(list)
        for review in given:
            if review.reviewer != CLEANING or people.isdisjoint((review.pair, (review.image, ""))):
                latest_first[review.pair].insert(0, review.verdict)  # max takes the first of equals
        return {pair: max(them, key=Counter(them).__getitem__) for pair, them in latest_first.items()}

    @cached_property
    def weights(self) -> dict[Pair, str]:
        """Pair → its weight by `CLEANING` (a number as text), if no person judged the pair or its whole image."""
        given = (review for review in self.standing if review.verdict != "none")
        people = {review.pair for review in given if review.reviewer != CLEANING}
        weights = dict[Pair, str]()
        for pair, review in self.by_reviewer.get(CLEANING, {}).items():
            whole_image = (pair[0], "")
            if pair in people or whole_image in people:
                continue
            for tag in review.tags:
                weight = _WEIGHT.fullmatch(tag)
                if weight:
                    weights[pair] = weight[1]
        return weights

    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the verdicts that count, independent of reviewers and order."""
        return verdicts_fingerprint(self.verdicts)


def verdicts_fingerprint(verdicts: Mapping[Pair, Verdict], weights: Mapping[Pair, str] | None = None) -> str:
    """Return the sha256 (hex) of pairs with their verdicts and of pairs with their weights, in any order."""
    rows = sorted([*pair, value] for pair, value in [*verdicts.items(), *(weights or {}).items()])
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class JudgedSplit:
    """Verdicts on one split, as rows."""

    labels: np.ndarray  # (m,) the verdict on every caption with its own image; "" without one
    matches: np.ndarray  # (P, 2) int64, a caption and another image that it also matches
    elsewhere: int  # verdicts about pairs that the split does not have
    # "also-matches" verdicts that change nothing, because the caption is a label of that image and of no other
    already_labels: int = 0

    def rows(self, *verdicts: Verdict) -> np.ndarray:
        """Return (·,) rows of the captions whose own pair has one of these verdicts."""
        return np.flatnonzero(np.isin(self.labels, verdicts))


def image_keys(
    names: Sequence[str] | None, captions: Sequence[str], image_of_text: np.ndarray, n: int
) -> list[str]:
    """Return the names of n images in reviews: the file name, or else a hash of the image's captions in any order. Row
    numbers do not count as names, nor does a name that two images share."""
    names = names or [""] * n
    numbers = (_UNNAMED.fullmatch(name) for name in names)
    if all(number and int(number[1]) == row for row, number in enumerate(numbers)):
        names = [""] * n

    different = set(names)
    if len(different) == n and "" not in different:
        return list(names)

    counted = Counter(names)
    keys = [name if counted[name] == 1 else "" for name in names]
    texts_of: dict[int, list[str]] = defaultdict(list)
    for caption, image in zip(captions, image_of_text.tolist(), strict=True):
        if not keys[image]:
            texts_of[image].append(caption)
    for image, texts in texts_of.items():
        digest = hashlib.sha256("\n".join(sorted(texts)).encode("utf-8", "surrogatepass")).hexdigest()
        keys[image] = f"captions:{digest}"

    return keys


def judge_split(
    verdicts: Mapping[Pair, str],
    names: Sequence[str] | None,
    captions: Sequence[str],
    image_of_text: np.ndarray,
    n: int,
) -> JudgedSplit:
    """Find the judged pairs in a split; other arguments as for `image_keys`. A caption that its image has twice gets
    the verdict both times. A caption that "also matches" an image matches it wherever its text occurs, also if the image
    has a caption of the same text itself. `verdicts`: pair → verdict, or any other text of at most 16 characters."""
    labels = np.full(len(captions), "", dtype="<U16")
    if not verdicts:
        return JudgedSplit(labels, np.empty((0, 2), np.int64), 0)

    keys = image_keys(names, captions, image_of_text, n)
    seen: set[Pair] = set()
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, (caption, image) in enumerate(zip(captions, image_of_text.tolist(), strict=True)):
        rows_of[caption].append(row)
        for pair in ((keys[image], ""), (keys[image], caption)):  # the pair's own verdict comes last
            if pair in verdicts:
                labels[row] = verdicts[pair]
                seen.add(pair)

    image_of_key = {key: row for row, key in enumerate(keys) if key}
    matches = []
    already_labels = 0
    for pair, verdict in verdicts.items():
        image = image_of_key.get(pair[0])
        rows = rows_of.get(pair[1], [])
        if image is None or not rows:
            continue
        seen.add(pair)
        if verdict == "also-matches":
            others = [(row, image) for row in rows if image_of_text[row] != image]
            already_labels += not others
            matches += others

    unique = np.unique(np.array(matches, np.int64).reshape(-1, 2), axis=0)
    return JudgedSplit(labels, unique, len(verdicts) - len(seen), already_labels)


def read_reviews(path: Path) -> Reviews:
    """Read a file of reviews. A link is followed, with a note. A line that was cut off when its writer was stopped is
    left out with a warning, also in the middle of the file. A copy of an earlier line has no effect. InputError: the
    file is missing or too large, or has invalid lines, of which up to 20 are named."""
    faults: list[Fault] = []
    path = plain_file(Path(path), faults)
    try:
        if (size := path.stat().st_size) > DOCUMENT:
            raise InputError.at(path, f"has {size:,} bytes", f"at most {DOCUMENT:,}", "split it by data set")
        content = path.read_bytes()
    except OSError as error:
        raise InputError.at(path, f"cannot be read ({error.strerror})") from error
    return parse_reviews(content, str(path), faults)


def parse_reviews(content: bytes, file: str, faults: Sequence[Fault] = ()) -> Reviews:
    """Parse the content of a file; errors as for `read_reviews`, located in `file`."""
    errors: list[Fault] = []
    notes = list(faults)
    reviews = list[Review]()
    documents = dict[str, dict[str, Any]]()
    undone: set[str] = set()
    for number, line in enumerate(content.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        if not (line := line.strip()):
            continue
        where = f"{file} line {number}"
        try:
            document = _document(line)
            review = None if "undo" in document else _review(document)
            earlier = documents.setdefault(document["id"], document)
            if earlier != document:
                raise ValueError(f"key id: {shown(document['id'])} is in an earlier line with other contents")
            if review is None:
                undone.add(document["undo"])
            elif earlier is document:
                reviews.append(review)
        except ValueError as error:
            if _is_cut(line):
                problem = (
                    "is left out: its JSON object is cut off, as if the program writing it had been stopped"
                )
                notes.append(Fault(where, problem, "a JSON object", "give the verdict again", "warning"))
            elif len(errors) < MOST_FAULTS_SHOWN:
                errors.append(Fault(where, str(error), EXPECTED, "fix the line, or remove it"))

    if errors:
        raise InputError(errors)

    return Reviews(tuple(reviews), frozenset(undone), tuple(documents.values()), tuple(notes))


def append_review(path: Path, review: Review) -> None:
    """Append a verdict; a missing file is created. InputError: a text is too long or not UTF-8, or the file is a link,
    is too large, or cannot be written."""
    try:
        _review(review.document())
    except ValueError as error:
        raise InputError.at("the review", str(error)) from error
    _append(path, review.document())


def append_undo(path: Path, review: str, reviewer: str) -> None:
    """Append a line that undoes the verdict with the id `review`; errors as for `append_review`."""
    record = {"version": VERSION, "id": secrets.token_hex(8), "time": _now()}
    _append(path, record | {"reviewer": reviewer, "undo": review})


def merge(files: Sequence[Reviews]) -> str:
    """Merge the lines of several files into one text: each once, in the order of its file, otherwise by time.
    InputError: lines with the same id differ, or two files have the same lines in different orders."""
    lines = dict[str, dict[str, Any]]()
    order = TopologicalSorter[str]()
    free = list[tuple[str, int, str]]()
    merged = list[str]()
    for reviews in files:
        for document in reviews.lines:
            if lines.setdefault(document["id"], document) != document:
                problem = "is in two files with different contents"
                raise InputError.at(f"id {shown(document['id'])}", problem, fix="remove one of the two lines")
        ids = [document["id"] for document in reviews.lines]
        for k, line in enumerate(ids):  # keeps the order even if a clock went back
            order.add(line, *ids[max(k - 1, 0) : k])

    try:
        order.prepare()
    except CycleError as error:
        problem = "are in a different order in another file"
        fix = "restore the order of the lines first"
        raise InputError.at(f"ids {shown(', '.join(error.args[1][1:]))}", problem, fix=fix) from None

    number = {line: k for k, line in enumerate(lines)}
    while order.is_active():
        for line in order.get_ready():
            heappush(free, (lines[line]["time"], number[line], line))
        merged.append(heappop(free)[-1])
        order.done(merged[-1])

    return "".join(f"{json.dumps(lines[line])}\n" for line in merged)


def _append(path: Path, record: Mapping[str, Any]) -> None:
    """Append one line under the file's lock; first end a line that a killed writer left unfinished."""
    line = json.dumps(record).encode() + b"\n"
    try:
        descriptor = open_plain(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size + len(line) > DOCUMENT:
                limit = f"at most {DOCUMENT:,}"
                raise InputError.at(path, f"has {size:,} bytes", limit, "start another file")
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            while line:
                line = line[os.write(descriptor, line) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if not size:  # perhaps the file is new
            sync(path.parent)
    except OSError as error:
        fix = "make room, or start with another file (CODER_REVIEWS=FILE)"
        raise InputError.at(path, f"could not be written ({error.strerror})", fix=fix) from error


def _is_cut(line: bytes) -> bool:
    """True if a line is only the beginning of a JSON object, perhaps up to a brace in its note."""
    try:
        json.loads(line.decode(errors="replace"))
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos :]
        ended = not rest or error.msg.startswith("Unterminated string") or _ESCAPE.fullmatch(rest)
        return bool(ended) and line.startswith(b"{")
    except (ValueError, RecursionError):
        pass
    return False


def _document(line: bytes) -> dict[str, Any]:
    """Parse the JSON object of a line. ValueError: the line's fault, in words."""
    if len(line) > LONGEST_LINE:
        raise ValueError(f"has {len(line):,} bytes, more than {LONGEST_LINE:,}")
    try:
        document = parse_json_text(line.decode("utf-8"), "the line")
    except InputError as error:
        raise ValueError(error.faults[0].found) from None
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 ({error})") from None

    if not isinstance(document, dict):
        raise ValueError(f"is of type {type(document).__name__}, not an object")

    version = document.get("version")
    if type(version) is not int or version < 1:
        raise ValueError(f"key version: is {shown(str(version))}, not {VERSION}")
    if version > VERSION:
        raise ValueError(f"has version {version}, but this program reads {VERSION}; update the program")
    for key in ("id", "time", "reviewer", *(("undo",) if "undo" in document else ())):
        _check_text(key, document.get(key))

    return document


def _review(document: Mapping[str, Any]) -> Review:
    """Parse the verdict of a line. ValueError: a key and its fault, in words."""
    values: dict[str, Any] = dict.fromkeys(KEYS) | {"tags": [], "note": ""}
    values |= {key: document[key] for key in KEYS if key in document}
    tags = values.pop("tags")
    verdict = values["verdict"]
    if not isinstance(tags, list) or len(tags) > MOST_TAGS:
        raise ValueError(f"key tags: is not a list of at most {MOST_TAGS} tags")
    if verdict not in VERDICTS:
        raise ValueError(f"key verdict: is {shown(str(verdict))}, not one of {', '.join(VERDICTS)}")
    for key, text in (*values.items(), *(("tags", tag) for tag in tags)):
        if key != "verdict":
            _check_text(key, text)
    return Review(**values, tags=tuple(tags))


def _check_text(key: str, value: Any) -> None:
    least = 0 if key in MAY_BE_EMPTY else 1
    if not isinstance(value, str):
        raise ValueError(f"key {key}: is {shown(repr(value))}, not a string")
    if not least <= len(value) <= LONGEST[key]:
        raise ValueError(f"key {key}: has {len(value):,} characters, not {least} to {LONGEST[key]:,}")
    if key == "time" and not _UTC.fullmatch(value):
        raise ValueError(f"key time: is {shown(value)}, not in UTC as 2026-11-22T17:40:12Z")
    if holds_half_character(value):
        raise ValueError(f"key {key}: contains half a character (a lone surrogate)")
