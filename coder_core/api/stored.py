"""Results that a command computed and stored beside a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from coder_core.console.faults import InputError

T = TypeVar("T")


@dataclass(frozen=True)
class StoredResult(Generic[T]):
    """A stored layout or clustering, or why there is none."""

    state: Literal["there", "missing", "damaged"]
    name: str  # of the result and of the job that computes it
    value: T | None = None  # when it is there
    fault: str = ""  # the damage


def read_stored(name: str, read: Callable[[], T | None]) -> StoredResult[T]:
    """Call `read`, which returns None for a missing result and raises InputError for a damaged one."""
    try:
        value = read()
    except InputError as error:
        return StoredResult("damaged", name, fault=str(error))
    return StoredResult("missing" if value is None else "there", name, value)
