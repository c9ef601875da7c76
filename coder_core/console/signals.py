"""SIGTERM, SIGHUP (a closed terminal) and Ctrl-C, noted instead of raised, so that work can be saved first."""

from __future__ import annotations

import os
import signal
import stat
from types import FrameType, TracebackType
from typing import Self


class StoppedBySignalError(Exception):
    """A signal stopped work that is saved; the message says how to continue. A command ends with status 3."""


class StopSignals:
    """Context in which these signals only call `noted`; it restores the handlers on leaving.

    A process that ignores SIGHUP (nohup) goes on ignoring it.
    """

    def __init__(self) -> None:
        self._before: dict[int, object] = {}

    def noted(self, number: int) -> None:
        """A signal came. It may come at any point of the program: do little."""
        raise NotImplementedError

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted(number)
        if number == signal.SIGHUP:
            _leave_terminal()

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _leave_terminal() -> None:
    """Send what would still be printed nowhere: writing to a terminal that is gone raises errors."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)
