"""How a command ends, also when nobody reads its output any more (`… --help | head`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import NoReturn

NOBODY_READS = 141  # what a shell reports for a program that SIGPIPE ended: 128 + 13


def leave(command: Callable[[], int]) -> NoReturn:
    """Run a command and end the program with its exit status; with 141, and without a traceback, when its output was
    cut off."""
    status: object
    try:
        try:
            status = command()
        except SystemExit as asked:  # --help, or what cannot be read
            status = asked.code
        sys.stdout.flush()
    except BrokenPipeError:
        # What Python still flushes at the end goes nowhere instead of raising once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = NOBODY_READS
    raise SystemExit(status)
