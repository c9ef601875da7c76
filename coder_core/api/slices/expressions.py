"""Select captions by an expression, parsed by Python and evaluated here, or search them by plain words.

    length > 15 and "dog" in caption     an expression
    dog frisbee, "a phrase" dog          captions that contain every word, and every phrase in quotes

An expression may contain

    "dog" in words                       the caption has the word
    "a dog" in caption                   the caption contains this text, in any case
    length > 15, 5 < length <= 10        number of words
    colours, numbers, spatial, negations number of such words; without a comparison: it has any
    image == 12                          captions of this image
    concept == "dog"                     the concept with the caption's highest attention
    12 in neighbours                     the captions most similar to caption 12
    12 in image_neighbours               the captions of the images most similar to image 12
    and, or, not, (…)

Columns of the user's own, by their titles (`coder_core.data.columns`); a title that is not a name of Python is written
in quotes, and one that names something above as column.title:

    price > 20, "unit price" <= 5        numbers
    brand == "Acme"                      a category or a text, in any case
    brand in ("Acme", "Bolt")            one of these
    "acm" in brand                       contains this text
    "sale" in tags                       has the tag
    date >= "2026-05", month(date) == 6  dates, as precise as they are written; year, month, day, weekday, hour

A sample without a value meets no condition but !=. Other columns (cluster, rank, tenth, tags …) depend on the run; for
a name that is not a column, the error message lists the columns. Nothing is executed: other calls, attributes and
everything else of Python are refused.

A text is plain if it contains only words, phrases in double quotes and . , ; ! ? - ' and is not an attempt at an
expression: no column name alone, before a number, or beside `and`, `or`, `not`; no quoted text before `in`; nothing
that Python parses as a condition joined by `and`, `or`, `not`, `in`. So a mistyped expression is an error and not a
search, and a single word is an expression only if it is the name of a column.
"""

import ast
import math
import operator
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from coder_core.api.slices import own_columns
from coder_core.console.faults import InputError
from coder_core.console.plain_files import LARGEST
from coder_core.data.columns import Column, SearchableTexts
from coder_core.data.words import tokenise

LONGEST_EXPRESSION = 2_000  # characters, so that an address holds it
UNREADABLE = SyntaxError, ValueError, MemoryError, RecursionError  # what ast.parse raises
_COMPARISONS: dict[type[ast.cmpop], own_columns.Comparison] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_PHRASE = re.compile(r'"([^"“”]*)"|“([^"“”]*)”')
_PLAIN = re.compile(r"(?:[^\W_]|[\s.,;!?'’-])*")
_QUOTED_IN = re.compile(r"""(?:["”]|(?:^|\s)'[^']*')\s*(?:not\s+)?in\b""")
_JOINING = frozenset({"and", "or", "not"})


@dataclass(frozen=True)
class Columns:
    """Facts about m captions."""

    count: int  # m
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)  # name → (m,) numbers
    # name → member → sorted numbers of the rows that contain it, for `"dog" in words`
    sets: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    # name → m texts, for `"a dog" in caption`
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # name → label → sorted numbers of the rows that have it, one label per row, for `concept == "dog"`
    labels: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    own: Mapping[str, Column] = field(default_factory=dict)  # name → the user's column, of the m captions
    # (m,) the captions' numbers in the split, ascending; None: all of the split
    rows: np.ndarray | None = None
    _searchable: dict[str, SearchableTexts] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def searchable(self, name: str) -> SearchableTexts:
        """Return the texts of this name, prepared once for searches."""
        if name not in self._searchable:
            self._searchable[name] = SearchableTexts(self.texts[name])
        return self._searchable[name]

    @property
    def names(self) -> list[str]:
        """Names that an expression may use."""
        return sorted({*self.numbers, *self.sets, *self.texts, *self.labels, *self.own})

    def own_column(self, name: str) -> Column | None:
        """Return the user's column that is written as its name or as column.title; None without one."""
        return self.own.get(name) or self.own.get(name.removeprefix(own_columns.PREFIX))


def select(expression: str, columns: Columns) -> np.ndarray:
    """Return (m,) bool: the captions that an expression selects. InputError: it is too long, cannot be parsed, or uses
    something that is not in `columns`.

    >>> columns = Columns(3, {"length": np.array([4, 9, 20])}, {}, {"caption": ["A dog.", "a cat", "two dogs"]})
    >>> select('length > 5 and not "dog" in caption', columns)
    array([False,  True, False])
    """
    if not expression.strip():
        raise _refusal("is empty")
    if len(expression) > LONGEST_EXPRESSION:
        raise _refusal(f"has {len(expression):,} characters", f"at most {LONGEST_EXPRESSION:,}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except UNREADABLE as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _refusal(f"cannot be read: {reason}") from None
    try:
        return _mask(tree.body, columns)
    except RecursionError:
        raise _refusal("is nested too deeply") from None


def _mask(node: ast.expr, columns: Columns) -> np.ndarray:
    match node:
        case ast.BoolOp(op=op, values=values):
            joined = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return np.asarray(joined.reduce([_mask(value, columns) for value in values]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_mask(operand, columns)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[container]):
            mask = _contained(left, container, columns)
            return mask if isinstance(op, ast.In) else ~mask
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq() as op], comparators=[right]) if (
            equal := _equal_label(left, right, columns)
        ) is not None:
            return equal if isinstance(op, ast.Eq) else ~equal
        case ast.Compare(left=left, ops=ops, comparators=parts) if {*map(type, ops)} <= {*_COMPARISONS}:
            values = _comparable([left, *parts], columns)
            results = [
                _compared(_COMPARISONS[type(op)], a, b)
                for op, (a, b) in zip(ops, pairwise(values), strict=True)
            ]
            return np.broadcast_to(np.logical_and.reduce(results), (columns.count,)).copy()
    name = _column_name(node, columns)
    if name in columns.numbers:
        return np.asarray(columns.numbers[name] > 0)
    if (own := columns.own_column(name)) is None:
        raise _refusal(f"contains {ast.unparse(node)[:60]!r}, which is not a condition")
    if own.kind == "number":
        return np.asarray(own.values > 0)
    if own.kind == "category" and {*own.folded_labels} <= {"true", "false"}:
        return own_columns.with_label(own, "true")

    raise _unusable(name, columns)


def _column_name(node: ast.expr, columns: Columns) -> str:
    """Return the name of the column that a part of an expression stands for: a name, column.title, or the title of the
    user's column in quotes; "" for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="column"), attr=title):
            return f"{own_columns.PREFIX}{title}"
        case ast.Constant(value=str() as text) if columns.own_column(text) is not None:
            return text
    return ""


def _contained(left: ast.expr, container: ast.expr, columns: Columns) -> np.ndarray:
    """Return (m,) bool of `"dog" in words`, or of `brand in ("Acme", "Bolt")`."""
    if isinstance(container, ast.Tuple | ast.List | ast.Set):
        masks = [_mask(ast.Compare(left, [ast.Eq()], [value]), columns) for value in container.elts]
        return np.asarray(np.logical_or.reduce([np.zeros(columns.count, dtype=bool), *masks]))
    name = _column_name(container, columns)
    if not name:
        raise _refusal(f"contains {ast.unparse(container)[:60]!r}, which is not a column")
    if not isinstance(left, ast.Constant) or not isinstance(left.value, str | int | float):
        fact = f"tests whether {ast.unparse(left)[:60]!r} is in {name}"
        raise _refusal(fact, 'a text in quotes, such as "dog"')
    return holding(str(left.value), name, columns)


def _equal_label(left: ast.expr, right: ast.expr, columns: Columns) -> np.ndarray | None:
    """Return (m,) bool of `brand == "Acme"`, or of the two exchanged; None unless one is a column of labels and the
    other a text, a number, True or False."""
    for column, value in ((left, right), (right, left)):
        name = _column_name(column, columns)
        if not isinstance(value, ast.Constant) or not isinstance(value.value, str | int | float):
            continue
        label = str(value.value)
        if name in columns.labels:
            return _rows_of(columns.labels[name], label, columns.count)
        own = columns.own_column(name)
        if own is not None and own.kind in ("category", "text"):
            return own_columns.with_label(own, label)
    return None


def _comparable(nodes: Sequence[ast.expr], columns: Columns) -> list[Any]:
    """Return the values of the parts of a comparison: arrays of a column, and numbers; or dates, if one is a column of
    dates. InputError: a part is something else, or none of two neighbours is a column."""
    has_dates = any(_dates(node, columns) is not None for node in nodes)
    read = _date if has_dates else _number
    values = [read(node, columns) for node in nodes]
    for a, b in pairwise(values):
        if np.ndim(a) == 0 and np.ndim(b) == 0:
            shown = [str(value) if isinstance(value, np.datetime64) else f"{value:.6g}" for value in (a, b)]
            raise _refusal(f"compares {shown[0]} with {shown[1]}", "a column of numbers on one side")
    return values


def _compared(compare: own_columns.Comparison, a: Any, b: Any) -> Any:
    is_of_dates = any(np.asarray(value).dtype.kind == "M" for value in (a, b))
    return own_columns.compare_dates(compare, a, b) if is_of_dates else compare(a, b)


def holding(text: str, name: str, columns: Columns) -> np.ndarray:
    """Return (m,) bool: the captions whose text `name` contains `text`, or whose set `name` has it as a member; in any
    case. InputError: `columns` has neither such a text nor such a set."""
    if name in columns.texts:
        return columns.searchable(name).containing(text)
    own = columns.own_column(name)
    if own is not None and own.labels:
        mask = own_columns.containing(own, text)
        return mask | _rows_of(columns.sets.get(name, {}), text, columns.count)
    if name in columns.sets:
        return _rows_of(columns.sets[name], text, columns.count)
    raise _unusable(name, columns)


def _rows_of(rows: Mapping[str, np.ndarray], member: str, count: int) -> np.ndarray:
    """Return (count,) bool: the rows of one member, in any case. Keys are casefolded; those of words are in lower case."""
    mask = np.zeros(count, dtype=bool)
    mask[rows.get(member.casefold(), rows.get(member.lower(), []))] = True
    return mask


def _number(node: ast.expr, columns: Columns) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value if value < LARGEST else math.inf  # floats cannot represent more digits
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float())):
            return -_number(node.operand, columns)
        case ast.Call(func=ast.Name(id=part), args=[of], keywords=[]) if part in own_columns.PARTS_OF_DATES:
            dates = _dates(of, columns)
            if dates is None:
                raise _refusal(f"takes the {part} of {ast.unparse(of)[:60]!r}", "a column of dates")
            return own_columns.part_of_dates(part, dates)
    name = _column_name(node, columns)
    if name in columns.numbers:
        return columns.numbers[name]

    own = columns.own_column(name)
    if own is not None and own.kind == "number":
        return own.values
    if name in columns.sets or name in columns.texts:
        raise _refusal(f"compares {name} with a number", f'"word" in {name}')
    if name:
        raise _unusable(name, columns)

    raise _refusal(f"compares {ast.unparse(node)[:60]!r}", "a number, or the name of a column of numbers")


def _dates(node: ast.expr, columns: Columns) -> np.ndarray | None:
    """Return the (m,) dates of the user's column that a part of an expression stands for; None for anything else."""
    own = columns.own_column(_column_name(node, columns))
    return own.values if own is not None and own.kind == "date" else None


def _date(node: ast.expr, columns: Columns) -> Any:
    """Return a column of dates, or a date in quotes."""
    dates = _dates(node, columns)
    if dates is not None:
        return dates
    written = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    date = own_columns.parse_date(written)
    if date is None:
        raise _refusal(f"compares a date with {ast.unparse(node)[:60]}", 'a date such as "2026-05-31"')
    return date


def _unusable(name: str, columns: Columns) -> InputError:
    """Return the error for a name that is unknown, or a label without a value."""
    if name in columns.labels:
        return _refusal(f"does not specify which {name}", f'{name} == "dog"')
    if (own := columns.own_column(name)) is not None:
        return _refusal(f"does not specify which {name}", own_columns.example(name, own))
    return _refusal(f"uses the unknown name {name[:40]!r}", f"one of {', '.join(columns.names)}")


def _refusal(fact: str, expected: str = 'a condition like length > 15 and "dog" in caption') -> InputError:
    return InputError.at("the slice", fact, expected)


@dataclass(frozen=True)
class PlainWords:
    """Requirements on captions: whole `words`, and `phrases` anywhere in the text; case is ignored."""

    words: tuple[str, ...]
    phrases: tuple[str, ...]

    def __str__(self) -> str:
        *first, last = [f"“{text}”" for text in (*self.words, *self.phrases)]
        return f"{', '.join(first)} and {last}" if first else last


def plain_query(text: str, names: Collection[str]) -> PlainWords | None:
    """Split a plain text into words and phrases; None for an expression, or an attempt at one, with columns `names`.

    >>> str(plain_query('Dog "on the grass"', ["length"]))
    '“dog” and “on the grass”'
    >>> plain_query("lenght > 3", ["length"]) is None
    True
    """
    rest = _PHRASE.sub(" ", text)
    if not _PLAIN.fullmatch(rest) or _QUOTED_IN.search(text) or _is_condition(text):
        return None
    beside = any(
        (a in _JOINING and b in names) or (a in names and (b in _JOINING or b.isdecimal()))
        for a, b in pairwise(rest.split())
    )
    if beside or text.strip() in names:
        return None
    phrases = (" ".join((straight or curly).split()) for straight, curly in _PHRASE.findall(text))
    plain = PlainWords(tuple(dict.fromkeys(tokenise(rest))), tuple(dict.fromkeys(filter(None, phrases))))
    return plain if plain.words or plain.phrases else None


def search(text: str, columns: Columns) -> np.ndarray:
    """Return (m,) bool: the captions with these plain words, or those that an expression selects. InputError: the text
    is too long or an expression that `select` refuses, or no caption has the words and one is a column's singular."""
    plain = plain_query(text, columns.names) if len(text) <= LONGEST_EXPRESSION else None
    if plain is None:
        try:
            return select(text, columns)
        except InputError as error:
            if not text.strip() or not _PLAIN.fullmatch(text):
                raise
            fix = f'to find captions with these words, put them in quotes: "{text.strip()[:60]}"'
            raise InputError(replace(error.faults[0], fix=fix)) from None

    masks = [holding(word, "words", columns) for word in plain.words]
    masks += [holding(phrase, "caption", columns) for phrase in plain.phrases]
    mask = np.asarray(np.logical_and.reduce(masks))
    column = next((f"{word}s" for word in plain.words if f"{word}s" in columns.numbers), "")
    if column and not mask.any():
        fix = f"write {column} for the captions that have any, or put a condition after it: {column} >= 2"
        raise InputError.at("the slice", f"no caption contains {plain}", fix=fix)

    return mask


def _is_condition(text: str) -> bool:
    """True if Python parses the text as a condition joined by `and`, `or`, `not` or `in`."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except UNREADABLE:
        return False
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], ast.In | ast.NotIn)
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
