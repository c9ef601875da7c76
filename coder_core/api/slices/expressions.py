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

Other columns (cluster, rank, tenth, tags …) depend on the run; for a name that is not a column, the error message lists
the columns. Nothing is executed: calls, attributes and everything else of Python are refused.

A text is plain if it contains only words, phrases in double quotes and . , ; ! ? - ' and is not an attempt at an
expression: no column name alone, before a number, or beside `and`, `or`, `not`; no quoted text before `in`; nothing
that Python parses as a condition joined by `and`, `or`, `not`, `in`. So a mistyped expression is an error and not a
search, and a single word is an expression only if it is the name of a column.
"""

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.plain_files import LARGEST
from coder_core.data.words import tokenise

LONGEST_EXPRESSION = 500  # characters
UNREADABLE = SyntaxError, ValueError, MemoryError, RecursionError  # what ast.parse raises
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
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

    @property
    def names(self) -> list[str]:
        """Names that an expression may use."""
        return sorted([*self.numbers, *self.sets, *self.texts, *self.labels])


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
        raise _refusal(f"has {len(expression):,} characters", f"at most {LONGEST_EXPRESSION}")
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
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Name(id=name)]):
            if not isinstance(left, ast.Constant) or not isinstance(left.value, str | int | float):
                fact = f"tests whether {ast.unparse(left)[:60]!r} is in {name}"
                raise _refusal(fact, 'a text in quotes, such as "dog"')
            mask = holding(str(left.value), name, columns)
            return mask if isinstance(op, ast.In) else ~mask
        case ast.Compare(
            left=ast.Name(id=name),
            ops=[ast.Eq() | ast.NotEq() as op],
            comparators=[ast.Constant(value=str() as label)],
        ) if name in columns.labels:
            mask = _rows_of(columns.labels[name], label, columns.count)
            return mask if isinstance(op, ast.Eq) else ~mask
        case ast.Compare(left=left, ops=ops, comparators=parts) if {*map(type, ops)} <= {*_COMPARISONS}:
            pairs = list(pairwise(_number(part, columns) for part in (left, *parts)))
            for a, b in pairs:
                if not isinstance(a, np.ndarray) and not isinstance(b, np.ndarray):
                    raise _refusal(f"compares {a:.6g} with {b:.6g}", "a column of numbers on one side")
            results = [_COMPARISONS[type(op)](*pair) for op, pair in zip(ops, pairs, strict=True)]
            return np.broadcast_to(np.logical_and.reduce(results), (columns.count,)).copy()
        case ast.Name(id=name) if name in columns.numbers:
            return np.asarray(columns.numbers[name] > 0)
    raise _refusal(f"contains {ast.unparse(node)[:60]!r}, which is not a condition")


def holding(text: str, name: str, columns: Columns) -> np.ndarray:
    """Return (m,) bool: the captions whose text `name` contains `text`, or whose set `name` has it as a member; in any
    case. InputError: `columns` has neither such a text nor such a set."""
    if name in columns.texts:
        needle = text.casefold()
        return np.array([needle in caption.casefold() for caption in columns.texts[name]], dtype=bool)
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
        case ast.Name(id=name) if name in columns.numbers:
            return columns.numbers[name]
        case ast.Name(id=name) if name in columns.sets or name in columns.texts:
            raise _refusal(f"compares {name} with a number", f'"word" in {name}')
        case ast.Name(id=name):
            raise _unusable(name, columns)
    raise _refusal(f"compares {ast.unparse(node)[:60]!r}", "a number, or the name of a column of numbers")


def _unusable(name: str, columns: Columns) -> InputError:
    """Return the error for a name that is unknown, or a label without a value."""
    if name in columns.labels:
        return _refusal(f"does not specify which {name}", f'{name} == "dog"')
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
