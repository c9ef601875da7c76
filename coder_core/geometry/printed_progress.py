"""Progress of libraries that only print how far they are."""

from __future__ import annotations

import io
import re
from collections.abc import Callable


class PrintedProgress(io.TextIOBase):
    """A stream that finds numbers in what is printed to it and reports them.

    Args:
        pattern: of a progress message, its numbers in groups.
        report: called with these numbers.
    """

    def __init__(self, pattern: str, report: Callable[..., None]) -> None:
        self._pattern, self._report = re.compile(pattern), report

    def write(self, text: str) -> int:
        match = self._pattern.search(text)
        if match:
            self._report(*map(int, match.groups()))
        return len(text)
