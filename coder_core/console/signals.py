"""SIGTERM and Ctrl-C, noted instead of raised, so that work can be saved first."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self


class StoppedBySignalError(Exception):
    """A signal stopped work that is saved; the message says how to continue. A command ends with status 3."""


class StopSignals:
    """Context in which both signals only call `noted`; it restores the handlers on leaving."""

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
