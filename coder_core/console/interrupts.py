"""Leave quietly at Ctrl-C while a command still imports what it needs."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

INTERRUPTED = 130  # as a shell reports SIGINT


class Interrupts:
    """Context of a command in which Ctrl-C raises KeyboardInterrupt and is remembered in `came`.

    A library that is being imported may answer it with an error of its own.
    """

    def __init__(self) -> None:
        self.came = False
        self._before: object = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        raise KeyboardInterrupt

    def __enter__(self) -> Interrupts:
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
