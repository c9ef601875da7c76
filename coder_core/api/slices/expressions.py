"""Select captions by an expression: `length > 15 and "dog" in caption`. Parsed by Python, evaluated here.

    "dog" in words                       the caption has the word
    "a dog" in caption                   the caption holds this text, in any case
    length > 15, 5 < length <= 10        number of words
    colours, numbers, spatial, negations how many such words it has; alone, whether it has any
    image == 12                          captions of this image
    concept == "dog"                     the concept that the caption's attention is highest on
    12 in neighbours                     the captions most similar to caption 12
    12 in image_neighbours               the captions of the images most similar to image 12
    and, or, not, (…)

What else there is (cluster, concepts, diversity, tags …) depends on the run; a name that is not there is an error that
lists those that are. Nothing is executed: calls, attributes and everything else of Python are refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError

LONGEST_EXPRESSION = 500  # characters
_PLACE = "the slice"
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


@dataclass(frozen=True)
class Columns:
    """Facts about m captions.

    Args:
        numbers: name → (m,) numbers.
        sets: name → member → sorted row numbers that hold it, for `"dog" in words`.
        texts: name → m texts, for `"a dog" in caption`.
        labels: name → label → sorted row numbers that have it, one label a row, for `concept == "dog"`.
        count: m.
    """

    count: int
    numbers: Mapping[str, np.ndarray] = field(default_factory=dict)
    sets: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names that an expression may use."""
        return sorted([*self.numbers, *self.sets, *self.texts, *self.labels])


def select(expression: str, columns: Columns) -> np.ndarray:
    """(m,) bool: the captions that an expression selects.

    >>> columns = Columns(3, {"length": np.array([4, 9, 20])}, {}, {"caption": ["A dog.", "a cat", "two dogs"]})
    >>> select('length > 5 and not "dog" in caption', columns)
    array([False,  True, False])

    Raises:
        InputError: it is too long, cannot be parsed, or asks for something else than `columns` holds.
    """
    if not expression.strip():
        raise _refusal("is empty")
    if len(expression) > LONGEST_EXPRESSION:
        raise _refusal(f"has {len(expression):,} characters", f"at most {LONGEST_EXPRESSION}")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _refusal(f"cannot be read: {reason}") from None
    return _mask(tree.body, columns)


def _mask(node: ast.expr, columns: Columns) -> np.ndarray:
    match node:
        case ast.BoolOp(op=op, values=values):
            joined = np.logical_and if isinstance(op, ast.And) else np.logical_or
            return np.asarray(joined.reduce([_mask(value, columns) for value in values]))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ~_mask(operand, columns)
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as op], comparators=[ast.Name(id=name)]):
            inside = _holding(left, name, columns)
            return inside if isinstance(op, ast.In) else ~inside
        case ast.Compare(
            left=ast.Name(id=name),
            ops=[ast.Eq() | ast.NotEq() as op],
            comparators=[ast.Constant(value=str() as label)],
        ) if name in columns.labels:
            inside = _rows_of(columns.labels[name], label, columns.count)
            return inside if isinstance(op, ast.Eq) else ~inside
        case ast.Compare(left=left, ops=ops, comparators=comparators) if all(
            type(op) in _COMPARISONS for op in ops
        ):
            values = [_number(part, columns) for part in (left, *comparators)]
            parts = [
                _COMPARISONS[type(op)](a, b) for op, a, b in zip(ops, values[:-1], values[1:], strict=True)
            ]
            return np.broadcast_to(np.logical_and.reduce(parts), (columns.count,)).copy()
        case ast.Name(id=name) if name in columns.numbers:
            return np.asarray(columns.numbers[name] > 0)
    raise _refusal(f"holds {ast.unparse(node)[:60]!r}, which is no condition")


def _holding(left: ast.expr, name: str, columns: Columns) -> np.ndarray:
    """True for captions that hold a text, or rows that have a member."""
    if not isinstance(left, ast.Constant) or not isinstance(left.value, str | int | float):
        raise _refusal(f"asks whether {ast.unparse(left)[:60]!r} is in {name}", 'a text in quotes, as "dog"')
    return holding(str(left.value), name, columns)


def holding(wanted: str, name: str, columns: Columns) -> np.ndarray:
    """(m,) bool: the captions whose text `name` holds `wanted`, or whose set `name` has it as a member; in any case.

    Raises:
        InputError: there is no such text and no such set.
    """
    if name in columns.texts:
        needle = wanted.casefold()
        return np.array([needle in text.casefold() for text in columns.texts[name]], dtype=bool)
    if name in columns.sets:
        return _rows_of(columns.sets[name], wanted, columns.count)
    raise _about_label(name) if name in columns.labels else _unknown(name, columns)


def _rows_of(rows: Mapping[str, np.ndarray], wanted: str, count: int) -> np.ndarray:
    """(count,) bool: the rows of one member, in any case."""
    mask = np.zeros(count, dtype=bool)
    chosen = rows.get(wanted.casefold())
    if chosen is not None:
        mask[chosen] = True
    return mask


def _number(node: ast.expr, columns: Columns) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.Name(id=name) if name in columns.numbers:
            return columns.numbers[name]
        case ast.Name(id=name) if name in columns.sets or name in columns.texts:
            raise _refusal(f"compares {name} with a number", f'"word" in {name}')
        case ast.Name(id=name) if name in columns.labels:
            raise _about_label(name)
        case ast.Name(id=name):
            raise _unknown(name, columns)
    raise _refusal(f"compares {ast.unparse(node)[:60]!r}", "a number, or a name that stands for numbers")


def _about_label(name: str) -> InputError:
    return _refusal(f"does not say which {name}", f'{name} == "dog"')


def _unknown(name: str, columns: Columns) -> InputError:
    return _refusal(f"asks for {name[:40]!r}", f"one of {', '.join(columns.names)}")


def _refusal(fact: str, expected: str = 'a condition, as length > 15 and "dog" in caption') -> InputError:
    return InputError(Fault(_PLACE, fact, expected))
