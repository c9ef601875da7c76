"""A mapping whose values are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class Lazy(Mapping[str, T]):
    """Mapping from names to values, each computed once, when it is first read.

    >>> numbers = Lazy({"length": lambda: print("counting") or 3})
    >>> "length" in numbers
    True
    >>> numbers["length"], numbers["length"]
    counting
    (3, 3)
    """

    def __init__(self, computed: Mapping[str, Callable[[], T]]) -> None:
        self._computed = dict(computed)
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._values:
            self._values[name] = self._computed[name]()
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._computed

    def __iter__(self) -> Iterator[str]:
        return iter(self._computed)

    def __len__(self) -> int:
        return len(self._computed)
