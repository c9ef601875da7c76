"""Search captions by plain words, or select them by an expression: which of the two a text is, and what it selects.

    dog frisbee, "a phrase" dog          captions that hold every word, and every phrase in quotes
    length > 15 and "dog" in caption     an expression

A text is plain where it holds nothing but words, phrases in double quotes and . , ; ! ? - ' and is no attempt at an
expression: no name of a column alone, before a number, or beside `and`, `or`, `not`; no quoted text before `in`;
nothing that Python reads as a condition joined by `and`, `or`, `not`, `in`. So an expression with a typing error is an
error and no search; a single word is an expression only where it is the name of a column.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from coder_core.api.slices.expressions import LONGEST_EXPRESSION, Columns, holding, select
from coder_core.console.faults import InputError
from coder_core.data.words import tokenise

_PHRASE = re.compile(r'"([^"“”]*)"|“([^"“”]*)”')
_PLAIN = re.compile(r"(?:[^\W_]|[\s.,;!?'’-])*")
_QUOTED_IN = re.compile(r"""(?:["”]|(?:^|\s)'[^']*')\s*(?:not\s+)?in\b""")
_JOINING = frozenset({"and", "or", "not"})


@dataclass(frozen=True)
class PlainWords:
    """Requirements on captions: whole `words`, and `phrases` anywhere in the text; case is ignored."""

    words: tuple[str, ...]
    phrases: tuple[str, ...]

    def __str__(self) -> str:
        *first, last = [f"“{text}”" for text in (*self.words, *self.phrases)]
        return f"{', '.join(first)} and {last}" if first else last


def plain_words(text: str, names: Collection[str]) -> PlainWords | None:
    """The words and phrases of a plain text; None where it is an expression, or an attempt at one.

    Args:
        names: of the columns that an expression may ask for.

    >>> str(plain_words('Dog "on the grass"', ["length"]))
    '“dog” and “on the grass”'
    >>> plain_words("lenght > 3", ["length"]) is None
    True
    """
    if not _is_plain(text) or _QUOTED_IN.search(text) or _is_condition(text):
        return None
    rest = _PHRASE.sub(" ", text)
    parts = rest.split()
    beside = any(
        (a in _JOINING and b in names) or (a in names and (b in _JOINING or b.isdecimal()))
        for a, b in pairwise(parts)
    )
    if beside or text.strip() in names:
        return None
    phrases = (" ".join((straight or curly).split()) for straight, curly in _PHRASE.findall(text))
    wanted = PlainWords(tuple(dict.fromkeys(tokenise(rest))), tuple(dict.fromkeys(filter(None, phrases))))
    return wanted if wanted.words or wanted.phrases else None


def search(text: str, columns: Columns) -> np.ndarray:
    """(m,) bool: the captions with these plain words, or those that an expression selects.

    Raises:
        InputError: the text is too long, or an expression that `select` refuses.
    """
    wanted = plain_words(text, columns.names) if len(text) <= LONGEST_EXPRESSION else None
    if wanted is None:
        try:
            return select(text, columns)
        except InputError as error:
            if not text.strip() or not _PLAIN.fullmatch(text):
                raise
            fix = f'for captions with these words put them in quotes: "{text.strip()[:60]}"'
            raise InputError(replace(error.faults[0], fix=fix)) from None
    mask = np.ones(columns.count, dtype=bool)
    for name, members in (("words", wanted.words), ("caption", wanted.phrases)):
        for member in members:
            mask &= holding(member, name, columns)
    return mask


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(_PHRASE.sub(" ", text)) is not None


def _is_condition(text: str) -> bool:
    """True if Python parses it as a condition joined by words alone."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    if isinstance(node, ast.Compare):
        return isinstance(node.ops[0], ast.In | ast.NotIn)
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))
