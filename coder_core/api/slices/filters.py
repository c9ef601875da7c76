"""Filters by the user's columns, as conditions of a slice's expression: chosen categories or tags, and ranges.

A slice is a list of conditions joined by `and`; a filter is one of them, in the form that `condition` writes. So the
slice holds all filters, and they can be read from an address or a typed expression.
"""

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import numpy as np

from coder_core.api.slices.expressions import LONGEST_EXPRESSION, UNREADABLE, Columns, plain_query
from coder_core.api.slices.own_columns import condition_on_label, parse_date, quoted, written, written_value
from coder_core.console.faults import InputError
from coder_core.data.columns import Column

BARS = 24  # of a histogram
MOST_OFFERED = 200  # categories or tags


@dataclass(frozen=True)
class Filter:
    """What a filter keeps: samples with one of the `labels` (of a column of texts: that contain its one label), or with
    a value from `low` to `high`, numbers or dates as an expression writes them; "" for no limit."""

    labels: tuple[str, ...] = ()
    low: str = ""
    high: str = ""

    def __bool__(self) -> bool:
        return bool(self.labels or self.low or self.high)


@dataclass(frozen=True)
class Values:
    """The values of a column: the most frequent labels with their captions, or a histogram of `BARS` bins from `low` to
    `high`."""

    labels: dict[str, int]
    low: Any = None
    high: Any = None
    bars: tuple[int, ...] = ()


def condition(name: str, column: Column, chosen: Filter) -> str:
    """Write a filter as a condition; "" for one that keeps everything."""
    own = written(name)
    if column.kind == "text":
        return " and ".join(f"{quoted(label)} in {own}" for label in chosen.labels)
    if len(chosen.labels) == 1:
        return condition_on_label(name, column, chosen.labels[0])
    if chosen.labels and column.kind == "tags":
        return f"({' or '.join(condition_on_label(name, column, label) for label in chosen.labels)})"
    if chosen.labels:
        return f"{own} in ({', '.join(map(quoted, chosen.labels))})"
    if chosen.low and chosen.high:
        return f"{chosen.low} <= {own} <= {chosen.high}"
    if chosen.low:
        return f"{own} >= {chosen.low}"
    return f"{own} <= {chosen.high}" if chosen.high else ""


def filter_of(expression: str, name: str, columns: Columns) -> Filter:
    """Return the filter of a column in a slice; an empty one if it has none."""
    found = [chosen for part in conditions(expression, columns) if (chosen := _read(part, name, columns))]
    return found[0] if found else Filter()


def with_filter(expression: str, name: str, columns: Columns, chosen: Filter) -> str:
    """Return the slice with another filter of this column, or without one if it is empty. InputError: too long."""
    others = [part for part in conditions(expression, columns) if not _read(part, name, columns)]
    added = condition(name, columns.own[name], chosen)
    return _joined([*others, *([added] if added else [])])


def with_slice(expression: str, added: str, columns: Columns) -> str:
    """Return a slice together with the filters of the user's columns in `expression`, except those of a column that it
    filters, too; other conditions of `expression` are dropped. InputError: too long."""
    parts = conditions(added, columns)
    filtered = {name for part in parts for name in columns.own if _read(part, name, columns)}
    kept = [
        part
        for part in conditions(expression, columns)
        if (names := {name for name in columns.own if _read(part, name, columns)}) and not names & filtered
    ]
    return _joined([*kept, *parts])


def _joined(parts: Sequence[str]) -> str:
    """Join conditions by `and`. InputError: the slice is too long."""
    joined = " and ".join(parts)
    if len(joined) > LONGEST_EXPRESSION:
        fact = f"would have {len(joined):,} characters"
        raise InputError.at("the slice", fact, f"at most {LONGEST_EXPRESSION:,}", "choose fewer values")
    return joined


def conditions(expression: str, columns: Columns) -> list[str]:
    """Split a slice into the conditions that `and` joins. Plain words become conditions; an expression that cannot be
    parsed is left out."""
    if not expression.strip():
        return []
    if (plain := plain_query(expression, columns.names)) is not None:
        words = [f"{quoted(word)} in words" for word in plain.words]
        return [*words, *(f"{quoted(phrase)} in caption" for phrase in plain.phrases)]
    try:
        node = ast.parse(expression.strip(), mode="eval").body
        parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
        texts = [ast.get_source_segment(expression.strip(), part) or "" for part in parts]
    except UNREADABLE:
        return []
    is_either = [isinstance(part, ast.BoolOp) and isinstance(part.op, ast.Or) for part in parts]
    return [f"({text})" if either else text for text, either in zip(texts, is_either, strict=True)]


def _read(part: str, name: str, columns: Columns) -> Filter:
    """Return the filter of a column that a condition is; an empty one if it is another condition."""
    node = ast.parse(part, mode="eval").body
    candidates = [Filter(tuple(_labels(node)))]
    match node:
        case ast.Compare(left=least, ops=[ast.LtE(), ast.LtE()], comparators=[_, most]):
            candidates.append(Filter(low=ast.unparse(least), high=ast.unparse(most)))
        case ast.Compare(ops=[ast.GtE()], comparators=[least]):
            candidates.append(Filter(low=ast.unparse(least)))
        case ast.Compare(ops=[ast.LtE()], comparators=[most]):
            candidates.append(Filter(high=ast.unparse(most)))
    quoted_limits = [replace(one, low=_requoted(one.low), high=_requoted(one.high)) for one in candidates]
    own = columns.own[name]
    return next((one for one in quoted_limits if one and condition(name, own, one) == part), Filter())


def _requoted(limit: str) -> str:
    """Write a date in quotes as `condition` does; `ast.unparse` uses single ones."""
    return quoted(limit.strip("'")) if limit.startswith("'") else limit


def _labels(node: ast.expr) -> list[str]:
    """Return the texts that a condition compares a column with."""
    match node:
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=str() as label)]):
            return [label]
        case ast.Compare(left=ast.Constant(value=str() as label), ops=[ast.In()]):
            return [label]
        case ast.Compare(ops=[ast.In()], comparators=[ast.Tuple(elts=parts)]):
            return [
                part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
        case ast.BoolOp(op=ast.Or(), values=values):
            return [label for value in values for label in _labels(value)]
    return []


def values_of(column: Column) -> Values:
    """Return the values of a column, for a filter to offer; of texts, whose values are too many, none."""
    if column.kind in ("category", "tags"):
        counts = np.bincount(column.values[column.values >= 0], minlength=len(column.labels))
        order = np.argsort(-counts, kind="stable")[:MOST_OFFERED]
        return Values({column.labels[code]: int(counts[code]) for code in order.tolist() if counts[code]})
    if column.kind == "text" or not column.present.any():
        return Values({})
    values = column.values[column.present]
    low = values.min()
    high = values.max()
    is_date = column.kind == "date"
    numbers = values.astype("datetime64[us]").astype(np.float64) if is_date else values
    bars = tuple(np.histogram(numbers, BARS)[0].tolist())
    return Values({}, low.item(), high.item(), bars)


def fitting_step(low: float, high: float, steps: int) -> float:
    """Return a round step of a slider with about so many steps from `low` to `high`.

    >>> fitting_step(0, 100, 200), fitting_step(3.5, 4.0, 200)
    (0.5, 0.005)
    """
    rough = (high - low) / steps
    power = 10.0 ** math.floor(math.log10(rough))
    return next(round(factor * power, 15) for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)


def written_limit(value: float | date) -> str:
    """Write a number or a day as the limit of a filter."""
    return written_value(np.datetime64(value) if isinstance(value, date) else value)


def parsed_limit(limit: str) -> Any:
    """Return the number, or the day, that a limit writes."""
    if limit.startswith('"'):
        day = parse_date(limit.strip('"'))
        return None if day is None else day.astype("datetime64[D]").item()
    return float(limit)
