"""Run a command: tune the process, report what is wrong with its input, end with the right exit status."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from coder_core.console.environment import tune_environment
from coder_core.console.faults import Fault, InputError
from coder_core.console.interrupts import INTERRUPTED, Interrupts
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.signals import StoppedBySignalError

NO_MEMORY = re.compile(
    r"can't allocate memory|cannot allocate memory|out of memory|can't start new thread", re.IGNORECASE
)  # in the words of PyTorch, the system, a GPU, Python
ASKED_FOR = re.compile(r"tried to allocate (\d+) bytes")
UNUSABLE_INPUT, STOPPED, READER_GONE = 1, 3, 141  # the last as a shell reports SIGPIPE


class Command(Protocol):
    """Takes arguments, those of the process by default, and returns the exit status."""

    def __call__(self, arguments: Sequence[str] | None = None) -> int: ...


def command(main: Callable[[list[str]], int]) -> Command:
    """Make a command of a function that takes arguments and returns an exit status.

    The command takes `sys.argv` by default. It returns that status, or 1 for an input that cannot be used or a file
    that cannot be read or written (the faults go to stderr), 3 when a signal stopped work that was saved, 130 after
    Ctrl-C, 141 when nobody reads its output any more (`… --help | head`). Torch's environment variables are set first:
    import torch inside `main`, after parsing, so that --help and a mistyped flag are answered at once.
    """

    @functools.wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        tune_environment()
        with Interrupts() as interrupts:
            try:
                try:
                    return main(list(sys.argv[1:] if arguments is None else arguments))
                finally:
                    sys.stdout.flush()
            except (Exception, KeyboardInterrupt) as error:
                return _end(KeyboardInterrupt() if interrupts.came else error)

    return run


def _end(error: BaseException) -> int:
    """Say what ended a command and return its exit status; a fault of the program keeps its traceback."""
    if isinstance(error, InputError):
        print_faults(open_console(stderr=True), error.faults)
        return UNUSABLE_INPUT
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(str(error))):
        print_faults(open_console(stderr=True), [_memory_fault(str(error))])
        return UNUSABLE_INPUT
    if isinstance(error, StoppedBySignalError):
        say(open_console(), str(error))
        return STOPPED
    if isinstance(error, KeyboardInterrupt):
        say(open_console(stderr=True), "interrupted; everything saved before is intact")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # What Python still flushes at the end goes nowhere instead of raising once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        fault = Fault(os.fsdecode(error.filename), f"cannot be read or written: {error.strerror}")
        print_faults(open_console(stderr=True), [fault])
        return UNUSABLE_INPUT
    raise error


def _memory_fault(text: str) -> Fault:
    """The fault of a command that got no memory; `text` is what the library said."""
    asked = ASKED_FOR.search(text)
    fact = text.splitlines()[0].rstrip(".") if text else "there is not enough"
    if asked:
        fact = f"there is not enough: another {int(asked[1]):,} bytes were asked for"
    return Fault("memory", fact, fix="close other programs, or ask for less")


def asks_for_help(arguments: Sequence[str]) -> bool:
    """True if -h or --help is among the arguments."""
    return bool({"-h", "--help"} & set(arguments))
