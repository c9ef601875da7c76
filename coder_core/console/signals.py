"""SIGTERM and Ctrl-C, noted instead of raised, so that what is under way can be saved first."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class StopSignals:
    """While it is entered, both signals only call `noted`; the handlers of before stand again afterwards."""

    def __init__(self) -> None:
        self._before: dict[int, object] = {}

    def noted(self, number: int) -> None:
        """A signal came. It may come at any point of the program: do little."""
        raise NotImplementedError

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted(number)

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
