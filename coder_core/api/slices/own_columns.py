"""The user's columns in expressions: their names, conditions on labels and dates, and the slices that they suggest."""

import json
import keyword
import operator
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from coder_core.data.columns import Column

PREFIX = "column."  # of the name of a column whose title is the name of something else
BUILT_IN = frozenset(
    {
        *(
            "length",
            "image",
            "rank",
            "tenth",
            "cluster",
            "words",
            "neighbours",
            "image_neighbours",
            "caption",
        ),
        *("concept", "numbers", "colours", "spatial", "negations", "column", "diversity", "word", "tag"),
    }
)
TAGS = "tags"  # of the reviews, or a column of this name
MOST_VALUES = 50  # of a column, and …
MOST_SLICES = 400  # … of all columns, with a slice
FEW_NUMBERS = 10  # different numbers, such as stars, that have a slice each
DATE = re.compile(r"\d{4}(-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2})?)?)?)?")
Comparison = Callable[[Any, Any], Any]
FLIPPED: dict[Comparison, Comparison] = {
    operator.lt: operator.gt,
    operator.le: operator.ge,
    operator.gt: operator.lt,
    operator.ge: operator.le,
    operator.eq: operator.eq,
    operator.ne: operator.ne,
}


def _month(dates: np.ndarray) -> np.ndarray:
    return dates.astype("datetime64[M]").astype(np.int64) % 12 + 1


def _day(dates: np.ndarray) -> np.ndarray:
    return (dates.astype("datetime64[D]") - dates.astype("datetime64[M]")).astype(np.int64) + 1


def _weekday(dates: np.ndarray) -> np.ndarray:
    return (dates.astype("datetime64[D]").astype(np.int64) + 3) % 7 + 1  # day 0 was a Thursday


def _hour(dates: np.ndarray) -> np.ndarray:
    return (dates.astype("datetime64[h]") - dates.astype("datetime64[D]")).astype(np.int64)


PARTS_OF_DATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda dates: dates.astype("datetime64[Y]").astype(np.int64) + 1970,
    "month": _month,
    "day": _day,
    "weekday": _weekday,  # 1 is Monday
    "hour": _hour,
}


def own_names(columns: Mapping[str, Column]) -> dict[str, Column]:
    """Return the columns under their names in expressions: the title, or column.title if it names something else."""
    named = {}
    for title, column in columns.items():
        taken = title in BUILT_IN or (title == TAGS and column.kind != "tags") or title.startswith(PREFIX)
        named[f"{PREFIX}{title}" if taken else title] = column
    return named


def written(name: str) -> str:
    """Write a column's name for an expression; in quotes unless Python reads it as a name.

    >>> written("price"), written("unit price"), written("column.caption")
    ('price', '"unit price"', 'column.caption')
    """
    bare = name.removeprefix(PREFIX)
    is_plain = (
        bare.isidentifier() and not keyword.iskeyword(bare) and unicodedata.normalize("NFKC", bare) == bare
    )
    return name if is_plain else quoted(name)


def quoted(text: str) -> str:
    """Write a text for an expression."""
    return json.dumps(text, ensure_ascii=False)


def with_label(column: Column, text: str) -> np.ndarray:
    """Return (m,) bool: the captions with this category, text or tag, in any case."""
    wanted = text.casefold()
    return column.having(code for code, label in enumerate(column.folded_labels) if label == wanted)


def containing(column: Column, text: str) -> np.ndarray:
    """Return (m,) bool: the captions whose category or text contains this text, in any case; or that have this tag."""
    if column.kind == "tags":
        return with_label(column, text)
    found = np.append(
        column.searchable_labels.containing(text), False
    )  # the last for samples without a value
    return np.asarray(found[column.values])


def parse_date(text: str) -> np.datetime64 | None:
    """Parse a date as precise as it is written, 2026, 2026-05, 2026-05-31 or 2026-05-31T10:00; None for other texts."""
    if not DATE.fullmatch(text):
        return None
    try:
        return np.datetime64(text)
    except ValueError:
        return None


def compare_dates(compare: Comparison, left: Any, right: Any) -> np.ndarray:
    """Compare dates, or dates with one that may be less precise: 2026-05-31 is the whole day."""
    if isinstance(left, np.datetime64):
        return compare_dates(FLIPPED[compare], right, left)
    if not isinstance(right, np.datetime64):
        return np.asarray(compare(left, right))
    start = right.astype("datetime64[us]")
    end = (right + 1).astype("datetime64[us]")  # of the day, month or year
    is_from = left >= (end if compare is operator.gt else start)
    is_before = left < (start if compare is operator.lt else end)
    if compare in (operator.ge, operator.gt):
        return np.asarray(is_from)
    if compare in (operator.le, operator.lt):
        return np.asarray(is_before)
    inside = is_from & is_before
    return np.asarray(inside if compare is operator.eq else ~inside)


def part_of_dates(part: str, dates: np.ndarray) -> np.ndarray:
    """Return (m,) float64: a part of every date, such as its month; NaN without a date."""
    numbers = PARTS_OF_DATES[part](dates).astype(np.float64)
    numbers[np.isnat(dates)] = np.nan
    return numbers


def example(name: str, column: Column) -> str:
    """Write a condition on a column, for messages."""
    if column.kind == "number":
        return f"{written(name)} > 20"
    if column.kind == "date":
        return f'{written(name)} >= "2026-05"'
    label = next(iter(column.labels), "…")[:40]
    return condition_on_label(name, column, label)


def suggested(name: str, column: Column) -> Iterator[tuple[str, str]]:
    """Yield (expression, label) of the slices that a column suggests: its most frequent categories or tags, or quarters
    of its numbers or dates; none for texts."""
    if column.kind in ("category", "tags"):
        for label in frequent_labels(column)[:MOST_VALUES]:
            yield condition_on_label(name, column, label), f"{name} “{label}”"
    elif column.kind in ("number", "date"):
        yield from _quarters(name, column)


def frequent_labels(column: Column) -> list[str]:
    """List the labels that a sample has, the most frequent first."""
    counts = np.bincount(column.values[column.values >= 0], minlength=len(column.labels))
    order = np.argsort(-counts, kind="stable")
    return [column.labels[code] for code in order.tolist() if counts[code]]


def condition_on_label(name: str, column: Column, label: str) -> str:
    """Write the condition that a sample has a category or tag."""
    if column.kind == "tags":
        return f"{quoted(label)} in {written(name)}"
    return f"{written(name)} == {quoted(label)}"


def _quarters(name: str, column: Column) -> Iterator[tuple[str, str]]:
    """Yield quarters of the values or, of few different numbers, each of them."""
    values = np.sort(column.values[column.present])
    own = written(name)
    different = np.unique(values)
    if column.kind == "number" and len(different) <= FEW_NUMBERS:
        for value in different:
            yield f"{own} == {written_value(value)}", f"{name} {value:g}"
        return

    starts = [values[len(values) * part // 4] for part in range(4) if len(values)]
    if len(set(starts)) < 4:  # many values are equal
        return

    _, first, second, third = starts
    lowest, middle, highest = (written_value(edge) for edge in (first, second, third))
    shown = [edge.strip('"') for edge in (lowest, middle, highest)]
    yield f"{own} < {lowest}", f"{name} below {shown[0]} (lowest quarter)"
    yield f"{lowest} <= {own} < {middle}", f"{name} {shown[0]} to {shown[1]}"
    yield f"{middle} <= {own} < {highest}", f"{name} {shown[1]} to {shown[2]}"
    yield f"{own} >= {highest}", f"{name} from {shown[2]} (highest quarter)"


def written_value(value: Any) -> str:
    """Write a number or a date for an expression."""
    if isinstance(value, np.datetime64):
        day = value.astype("datetime64[D]")
        return quoted(str(day if day == value else value.astype("datetime64[s]")))
    return f"{float(value):.15g}"
