"""How long work says how far it is."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[float, str], None]
"""Called with the share done, from 0 to 1, and what is being done."""


def silent(fraction: float, phase: str) -> None:
    """Tell nobody."""


def within(tell: Tell, start: float, end: float) -> Tell:
    """A part of the work that runs from `start` to `end` of the whole."""
    return lambda fraction, phase: tell(start + (end - start) * min(max(fraction, 0.0), 1.0), phase)
