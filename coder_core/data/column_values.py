"""Read the columns of a data set from cells of any table, and decide their kinds.

Numbers, dates (ISO 8601), lists and texts are recognized in CSV, where every cell is a text, as well as in JSON and
Parquet. What cannot be kept is named with the reason.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, Severity
from coder_core.data.columns import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    MISSING,
    MOST_COLUMNS,
    Column,
    SampleColumns,
    describe,
    first_of_images,
)
from coder_core.data.lines import shown, unwritable

LARGEST_WHOLE = 1 << 53  # larger whole numbers, such as ids, would change as floats
MOST_CHARACTERS = 1 << 28  # of the different texts of a column
MOST_LEFT_OUT = 10_000  # titles that are remembered in order to be named
FEW_VALUES = 20  # different texts of a category, or …
REPEATS = 2  # … samples per different text
LONGEST_CATEGORY = 100  # characters
LONGEST_TAG = 60
MOSTLY = 0.9  # share of numbers, or dates, from which the other values are named
SEPARATED = 0.1  # least share of values with a separator of tags
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9]\d*)(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,3})?")
DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?: ?Z| ?UTC|[+-]\d{2}:?\d{2})?)?"
)
NOT_GIVEN = frozenset({"nan", "null", "none", "n/a", "na", "-", "nat"})  # in a column of numbers or dates
SEPARATORS = "|;"

Cell = str | int | float | datetime | tuple[str, ...]


class _NotKeptError(Exception):
    """The value cannot be kept; the message is the reason."""


class RawColumn:
    """Cells of one column, in the order of its rows; equal ones are stored once."""

    def __init__(self) -> None:
        self.codes = array("i")  # of every row, the number of its cell, or −1
        self.cells: dict[Hashable, int] = {}
        self.characters = 0
        self.cut = 0  # cells longer than `LONGEST_TEXT`
        self.problem = ""  # why the column is not kept

    def put(self, row: int, value: Any) -> None:
        """Store the value of a row; rows in between have none."""
        if self.problem:
            return
        try:
            cell = _cell(value)
        except _NotKeptError as reason:
            self.problem = str(reason)
            self.codes = array("i")
            self.cells = {}
            return

        if cell is None:
            return
        if isinstance(cell, str) and len(cell) > LONGEST_TEXT:
            self.cut += 1
            cell = f"{cell[: LONGEST_TEXT - 1]}…"

        code = self.cells.setdefault(cell, len(self.cells))
        if code == len(self.cells) - 1 and isinstance(cell, str):
            self.characters += len(cell)
            if self.characters > MOST_CHARACTERS:
                self.problem = f"more than {MOST_CHARACTERS:,} characters"

        self.codes.extend([MISSING] * (row - len(self.codes)))
        self.codes.append(code)

    def numbered(self, rows: int) -> np.ndarray:
        """Return (rows,) int32, equal for equal cells; −1 without one."""
        codes = np.full(rows, MISSING, np.int32)
        codes[: len(self.codes)] = np.frombuffer(self.codes, np.int32) if self.codes else 0
        return codes

    def typed(self, codes: np.ndarray, notes: list[str]) -> Column:
        """Return the typed column of the samples with these `codes`, a part of `numbered`; add what was guessed to
        `notes`."""
        return typed_column(codes, list(self.cells), notes)


class RawColumns:
    """Columns of a data set while it is read: a row for every caption."""

    def __init__(self) -> None:
        self.columns: dict[str, RawColumn] = {}
        self.rows = 0
        self.left_out: dict[str, str] = {}  # title → reason

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the row of the next caption; a column that it lacks has no value there."""
        for title, value in row.items():
            column = self.columns.get(title) or self._new_column(title)
            if column is not None:
                column.put(self.rows, value)
        self.rows += 1

    def add_column(self, title: str, values: Sequence[Any]) -> None:
        """Add a column with a value for every row."""
        self.rows = max(self.rows, len(values))
        column = self.columns.get(title) or self._new_column(title)
        if column is None:
            return
        for row, value in enumerate(values):
            column.put(row, value)

    def _new_column(self, title: str) -> RawColumn | None:
        if title in self.left_out or len(self.left_out) >= MOST_LEFT_OUT:
            return None

        reason = ""
        if not title.strip():
            reason = "no title"
        elif len(title) > LONGEST_TITLE:
            reason = f"a title of more than {LONGEST_TITLE} characters"
        elif unwritable(title):
            reason = f"its title contains {unwritable(title)}"
        elif len(self.columns) >= MOST_COLUMNS:
            reason = f"more than {MOST_COLUMNS} columns"

        if reason:
            self.left_out[title] = reason
            return None

        self.columns[title] = RawColumn()
        return self.columns[title]

    def typed(
        self, image_of_text: np.ndarray, images: int, where: str, severity: Severity = "note"
    ) -> tuple[SampleColumns, list[Fault]]:
        """Return the typed columns, notes on what was kept and guessed, and a fault of this severity on what was left
        out. A column belongs to the images if no image has captions with different values. `image_of_text`: (m,) the
        image of every row."""
        of_images: dict[str, Column] = {}
        of_captions: dict[str, Column] = {}
        notes: list[str] = []
        left_out = dict(self.left_out)
        for title, raw in self.columns.items():
            if not raw.cells:
                left_out[title] = raw.problem or "no values"
                continue
            if raw.problem:
                left_out[title] = raw.problem
                continue
            codes = raw.numbered(self.rows)
            first = first_of_images(codes, image_of_text, images)
            guesses: list[str] = []
            if first is None:
                of_captions[title] = raw.typed(codes, guesses)
            else:
                of_images[title] = raw.typed(first, guesses)
            if raw.cut:
                guesses.append(f"{raw.cut:,} values of more than {LONGEST_TEXT:,} characters are cut")
            notes += [f"column {shown(title)}: {guess}" for guess in guesses]

        columns = SampleColumns(of_images, of_captions)
        return columns, [
            *_kept(columns, where),
            *_left_out(left_out, where, severity),
            *_remarks(notes, where),
        ]


def _kept(columns: SampleColumns, where: str) -> list[Fault]:
    parts = [("pictures", columns.images), ("captions", columns.captions)]
    facts = [f"of {what}: {describe(some)}" for what, some in parts if some]
    return [Fault(where, f"columns kept {'; '.join(facts)}", severity="note")] if facts else []


def _left_out(reasons: Mapping[str, str], where: str, severity: Severity) -> list[Fault]:
    by_reason: dict[str, list[str]] = {}
    for title, reason in reasons.items():
        by_reason.setdefault(reason, []).append(shown(title))
    named = []
    for reason, titles in by_reason.items():
        more = f" and {len(titles) - 10:,} more" if len(titles) > 10 else ""
        named.append(f"{', '.join(titles[:10])}{more} ({reason})")
    return [Fault(where, f"columns not kept: {'; '.join(named)}", severity=severity)] if named else []


def _remarks(notes: Sequence[str], where: str) -> list[Fault]:
    return [Fault(where, note, severity="note") for note in notes]


def typed_column(codes: np.ndarray, cells: Sequence[Any], notes: list[str]) -> Column:
    """Return the column with value `cells[code]` for every one of (n,) codes, −1 for none; add what was guessed to
    `notes`."""
    used = np.unique(codes[codes != MISSING])
    number = np.full(len(cells) + 1, MISSING, np.int32)
    number[used] = np.arange(len(used))
    codes = number[codes]
    cells = [cells[code] for code in used.tolist()]
    if any(isinstance(cell, tuple) for cell in cells):
        return _tags(codes, [cell if isinstance(cell, tuple) else (_text(cell),) for cell in cells])
    if cells and all(isinstance(cell, int | float) for cell in cells):
        return _numbers(codes, [float(cell) for cell in cells])
    if cells and all(isinstance(cell, datetime) for cell in cells):
        return _dates(codes, [np.datetime64(cell, "us") for cell in cells])
    return _texts_column(codes, [_text(cell) for cell in cells], notes)


def _texts_column(codes: np.ndarray, texts: list[str], notes: list[str]) -> Column:
    """Return the column of texts that may be written numbers, dates or tags."""
    numbers = _parsed(texts, _number, "numbers", codes, notes)
    if numbers is not None:
        return _numbers(codes, [np.nan if number is None else number for number in numbers])
    dates = _parsed(texts, _date, "dates in ISO 8601, such as 2026-05-31", codes, notes)
    if dates is not None:
        return _dates(
            codes, [np.datetime64("NaT") if day is None else np.datetime64(day, "us") for day in dates]
        )
    lists = _written_tags(texts, codes, notes)
    if lists is not None:
        return _tags(codes, lists)
    return _labels(codes, texts)


def _labels(codes: np.ndarray, texts: list[str]) -> Column:
    """Return a category if its texts are short and few or repeated, else a column of texts."""
    samples = int((codes != MISSING).sum())
    is_short = all(len(text) <= LONGEST_CATEGORY for text in texts)
    is_repeated = len(texts) <= FEW_VALUES or REPEATS * len(texts) <= samples
    known: dict[str, int] = {}
    number = np.array([known.setdefault(text, len(known)) for text in texts] + [MISSING], np.int32)
    return Column("category" if is_short and is_repeated else "text", number[codes], list(known))


def _numbers(codes: np.ndarray, numbers: list[float]) -> Column:
    return Column("number", np.array([*numbers, np.nan], np.float64)[codes])


def _dates(codes: np.ndarray, dates: list[np.datetime64]) -> Column:
    return Column("date", np.array([*dates, np.datetime64("NaT")], "datetime64[us]")[codes])


def _tags(codes: np.ndarray, lists: Sequence[Sequence[str]]) -> Column:
    labels: dict[str, int] = {}
    different = [list(dict.fromkeys(labels.setdefault(tag, len(labels)) for tag in tags)) for tags in lists]
    flat = np.array([tag for tags in different for tag in tags], np.int32)
    starts = np.concatenate([[0], np.cumsum([len(tags) for tags in different], dtype=np.int64)])
    of_lists = Column("tags", flat, list(labels), np.append(starts, starts[-1]))  # the last list is empty
    return of_lists.take(np.where(codes == MISSING, len(lists), codes))


def _parsed(
    texts: Sequence[str], parse: Callable[[str], Any], what: str, codes: np.ndarray, notes: list[str]
) -> list[Any] | None:
    """Return the parsed texts, None for those that stand for no value; None if one text cannot be parsed. If most can
    be, add a note that names the others."""
    values = []
    others = []
    for code, text in enumerate(texts):
        value = parse(text)
        values.append(value)
        if value is None and text.casefold() not in NOT_GIVEN:
            others.append(code)
    if not others:
        return values if any(value is not None for value in values) else None
    samples = int((codes != MISSING).sum())
    different = int(np.isin(codes, others).sum())
    if different <= (1 - MOSTLY) * samples:
        fact = f"read as texts: {different:,} of {samples:,} values are not {what}, such as {shown(texts[others[0]])}"
        notes.append(fact)
    return None


def _number(text: str) -> float | None:
    """Parse a number; None for other texts, and for whole numbers that a float cannot hold or with zeros before them."""
    if not NUMBER.fullmatch(text):
        return None
    number = float(text)
    digits = text.lstrip("+-")
    is_whole = digits.isdecimal()
    # the whole number above the largest one is rounded to it
    is_exact = abs(number) < LARGEST_WHOLE or digits == str(LARGEST_WHOLE)
    return number if np.isfinite(number) and (is_exact or not is_whole) else None


def _date(text: str) -> datetime | None:
    if not DATE.fullmatch(text):
        return None
    with suppress(ValueError, OverflowError):
        return _in_utc(datetime.fromisoformat(text.replace(" UTC", "Z").replace(" Z", "Z")))
    return None


def _in_utc(moment: datetime) -> datetime:
    """Return a moment in UTC without a time zone; one without a time zone stays as it is."""
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _written_tags(texts: Sequence[str], codes: np.ndarray, notes: list[str]) -> list[list[str]] | None:
    """Return the tags in texts that are all lists in JSON, or that one separator splits into short, repeated texts."""
    lists = [_json_texts(text) for text in texts]
    if texts and all(tags is not None for tags in lists):
        return [tags or [] for tags in lists]

    counts = np.bincount(codes[codes != MISSING], minlength=len(texts))
    for separator in SEPARATORS:
        separated = np.array([separator in text for text in texts], dtype=bool)
        if counts[separated].sum() < max(2, SEPARATED * counts.sum()):
            continue
        split = [[tag.strip() for tag in text.split(separator) if tag.strip()] for text in texts]
        different = {tag for tags in split for tag in tags}
        uses = sum(count * len(tags) for count, tags in zip(counts.tolist(), split, strict=True))
        is_short = all(len(tag) <= LONGEST_TAG and tag.count(" ") <= 2 for tag in different)
        if different and is_short and REPEATS * len(different) <= uses:
            notes.append(f"read as tags, separated by {separator}")
            return split

    return None


def _json_texts(text: str) -> list[str] | None:
    """Return the texts of a list in JSON; None for anything else."""
    if not text.startswith("["):
        return None
    with suppress(ValueError, RecursionError):
        items = json.loads(text)
        if isinstance(items, list) and all(isinstance(item, str) for item in items):
            return [item.strip() for item in items if item.strip()]
    return None


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else str(cell)


def _cell(value: Any) -> Cell | None:
    """Return a value of a table in the form that columns are read from; None if it is missing. _NotKeptError: an object, a
    list of anything but texts, bytes, or a text that UTF-8 cannot encode."""
    if isinstance(value, np.generic):
        value = value.item()

    match value:
        case None:
            return None
        case str():
            text = value.strip()
            if reason := unwritable(text):
                raise _NotKeptError(reason)
            return text or None
        case bool():
            return "true" if value else "false"
        case int():
            return value if abs(value) <= LARGEST_WHOLE else str(value)
        case float() | Decimal():
            number = float(value)
            if number != number:  # NaN
                return None
            return number if np.isfinite(number) else str(number)
        case datetime():
            return _in_utc(value) if value == value else None  # NaT is a datetime
        case date():
            return datetime(value.year, value.month, value.day)
        case list() | tuple() | np.ndarray():
            return _list_cell(list(value))
        case dict():
            raise _NotKeptError("objects within objects")
    raise _NotKeptError(f"values of type {type(value).__name__}")


def _list_cell(items: list[Any]) -> Cell | None:
    """Return a list of texts as tags; None if it is empty."""
    if any(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        raise _NotKeptError("lists of numbers")
    cells = [_cell(item) for item in items]
    if any(isinstance(cell, tuple) for cell in cells):
        raise _NotKeptError("lists within lists")
    return tuple(_text(cell) for cell in cells if cell is not None) or None
