"""Signals: SIGTERM, SIGHUP and Ctrl-C noted instead of raised, and Ctrl-C during the imports of a command."""

import os
import signal
import stat
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Self

INTERRUPTED = 130  # as a shell reports SIGINT


class StoppedBySignalError(Exception):
    """A signal stopped work that is saved; the message says how to continue. A command ends with status 3."""


class StopSignals:
    """Context in which SIGTERM, SIGHUP (a closed terminal) and Ctrl-C only call `noted`, so that work can be saved
    first. A process that ignores SIGHUP (nohup) goes on ignoring it."""

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
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def _leave_terminal() -> None:
    """Discard further output: writing to a closed terminal raises errors."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if stat.S_ISCHR(os.fstat(stream).st_mode):
            os.dup2(nowhere, stream)
    os.close(nowhere)


class StopRequestedError(Exception):
    """A signal came during an evaluation."""


class StopRequest(StopSignals):
    """Note SIGTERM, SIGHUP or Ctrl-C, which save and stop; a second one stops at once. `signal` is 0 before."""

    def __init__(self) -> None:
        super().__init__()
        self.signal = 0

    def noted(self, number: int) -> None:
        if self.signal:
            os._exit(128 + number)
        self.signal = number
        message = f"\n{signal.Signals(number).name}: saving, then stopping (send it again to stop at once)\n"
        with suppress(OSError):  # the terminal may be gone
            os.write(sys.stderr.fileno(), message.encode())


class Interrupts:
    """Context of a command in which Ctrl-C raises KeyboardInterrupt and is remembered in `came`. A library that is
    being imported may answer it with an error of its own."""

    def __init__(self) -> None:
        self.came = False
        self._before: object = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt

    def __enter__(self) -> Self:
        if _may_handle(signal.default_int_handler, _leave):
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def leave_quietly() -> None:
    """Until the command begins, let Ctrl-C end a process of ours without a traceback.

    Ours are python -m coder_core.…, whose first argument reads -m while the package is imported, and the coder-…
    scripts. Any other program that imports coder_core keeps its handlers.
    """
    program = sys.argv[0] if sys.argv else ""
    ours = program == "-m" or os.path.basename(program).startswith("coder-")
    if ours and _may_handle(signal.default_int_handler):
        signal.signal(signal.SIGINT, _leave)


def _may_handle(*known: object) -> bool:
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) in known


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted before anything began\n")
    os._exit(INTERRUPTED)
