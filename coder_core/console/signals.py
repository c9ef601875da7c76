"""Record SIGTERM, SIGHUP and Ctrl-C instead of ending at once, and handle Ctrl-C during the imports of a command."""

import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Self

INTERRUPTED = 130  # as a shell reports SIGINT


class StoppedBySignalError(Exception):
    """A signal stopped work that is saved; the message describes how to continue. A command ends with status 3."""


class StopSignals:
    """Context in which SIGTERM, SIGHUP (a closed terminal) and Ctrl-C only call `noted`, so that work can be saved
    first. A process that ignores SIGHUP (nohup) continues to ignore it."""

    def __init__(self) -> None:
        self._before: dict[int, object] = {}

    def noted(self, number: int) -> None:
        """Handle a signal, which may arrive at any point of the program: do little."""
        raise NotImplementedError

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.noted(number)
        if number == signal.SIGHUP:  # writing to a closed terminal raises errors
            discard(*(stream for stream in (1, 2) if stat.S_ISCHR(os.fstat(stream).st_mode)))

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


def discard(*streams: int) -> None:
    """Discard further output to these descriptors, including what Python flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(nowhere, stream)
    os.close(nowhere)


class StopRequestedError(Exception):
    """A signal arrived during an evaluation or an embedding."""


class StopRequest(StopSignals):
    """Context that records SIGTERM, SIGHUP or Ctrl-C as a request to save and stop in `signal`, which is 0 before; a
    second one ends the process at once."""

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

    def watched(self, progress: Callable[[float, float, str], None]) -> Callable[..., None]:
        """Return a progress whose first report after a signal raises StopRequestedError."""

        def report(done: float, total: float, phase: str = "") -> None:
            progress(done, total, phase)
            if self.signal:
                raise StopRequestedError

        return report


class Interrupts:
    """Context of a command in which Ctrl-C raises KeyboardInterrupt and sets `came`, because a library that is being
    imported may raise an error of its own instead."""

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
    """Let Ctrl-C end one of this package's commands without a traceback until it begins.

    These are python -m coder_core.…, whose sys.argv[0] is "-m" while the package is imported, and the coder-… scripts.
    Other programs that import coder_core keep their handlers."""
    program = sys.argv[0] if sys.argv else ""
    ours = program == "-m" or os.path.basename(program).startswith("coder-")
    if ours and _may_handle(signal.default_int_handler):
        signal.signal(signal.SIGINT, _leave)


def _may_handle(*known: object) -> bool:
    return threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) in known


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted before anything began\n")
    os._exit(INTERRUPTED)
