"""Run a command: tune the process, report faults of its input, end with the right exit status."""

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Protocol

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import lasting_outputs, open_console, print_faults, say
from coder_core.console.signals import INTERRUPTED, Interrupts, StoppedBySignalError, discard

# messages of PyTorch, the system, a GPU, Python
NO_MEMORY = re.compile(
    r"(?i)can(no|')t allocate memory|out of memory|can't start new thread|could not create a primitive"
)
REQUESTED = re.compile(r"tried to allocate (\d+) bytes")
# the last as a shell reports SIGPIPE
UNUSABLE_INPUT = 1
STOPPED = 3
READER_GONE = 141


class Command(Protocol):
    """Function that takes arguments, by default those of the process, and returns the exit status."""

    def __call__(self, arguments: Sequence[str] | None = None) -> int: ...


def tune_environment(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set variables for torch's thread pool and oneDNN, unless the user has set them. Call this before `import torch`.

    - `GOMP_SPINCOUNT=1000`: by default, an OpenMP thread spins for milliseconds after each operation and keeps its core
      from all other threads. With a short spin, a training step on two threads of a busy machine is several times
      faster, and hardly slower on an idle one. Not set if `OMP_WAIT_POLICY` is set.
    - `ONEDNN_PRIMITIVE_CACHE_CAPACITY=512`: oneDNN compiles a program for every shape of a product and keeps the last
      1,024 at 0.7 MiB each; a run uses about 300.
    """
    if "OMP_WAIT_POLICY" not in environment:
        environment.setdefault("GOMP_SPINCOUNT", "1000")
    environment.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")


def command(main: Callable[[list[str]], int], *, unusable: int = UNUSABLE_INPUT) -> Command:
    """Turn a function that takes arguments and returns an exit status into a command.

    The command takes `sys.argv` by default. It returns that status, or `unusable` for an input that cannot be used or a
    file that cannot be read or written (the faults go to stderr), 3 if a signal stopped work that was saved, 130 after
    Ctrl-C, 141 if the reader of its output is gone (`… --help | head`). A full disk for its output does not stop the
    work, but the status is then `unusable`. Torch's environment variables are set first: import torch inside `main`,
    after parsing, so that --help and mistyped flags are answered at once.
    """

    @functools.wraps(main)
    def run(arguments: Sequence[str] | None = None) -> int:
        tune_environment()
        with Interrupts() as interrupts, lasting_outputs() as (output, _):
            try:
                try:
                    status = main(list(sys.argv[1:] if arguments is None else arguments))
                finally:
                    output.flush()
                if output.error is not None:
                    fact = f"could not be written: {output.error.strerror}"
                    fix = "free space for the output; the files the command wrote are complete"
                    raise InputError.at("standard output", fact, fix=fix)
                return status
            except (Exception, KeyboardInterrupt) as error:
                return _end(KeyboardInterrupt() if interrupts.came else error, unusable)

    return run


def _end(error: BaseException, unusable: int) -> int:
    """Print what ended a command and return its exit status; re-raise an error of the program itself."""
    if faults := _input_faults(error):
        print_faults(open_console(stderr=True), faults)
        return unusable
    if isinstance(error, StoppedBySignalError):
        say(open_console(), str(error))
        return STOPPED
    if isinstance(error, KeyboardInterrupt):
        say(open_console(stderr=True), "interrupted; everything saved before is intact")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        discard(sys.stdout.fileno())
        return READER_GONE
    raise error


def _input_faults(error: BaseException) -> Sequence[Fault]:
    """Return the faults of an input, of missing memory or of a file; none for other errors."""
    if isinstance(error, InputError):
        return error.faults
    text = str(error)
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and NO_MEMORY.search(text)):
        fact = text.splitlines()[0].rstrip(".") if text else "there is not enough"
        if requested := REQUESTED.search(text):
            fact = f"there is not enough: another {int(requested[1]):,} bytes were requested"
        return [Fault("memory", fact, fix="close other programs, or request less")]
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return [Fault(os.fsdecode(error.filename), f"cannot be read or written: {error.strerror}")]
    return []


def run_subcommand(
    arguments: list[str], commands: Mapping[str, Callable[[list[str]], int]], usage: str
) -> int:
    """Run the command that the first argument names. Otherwise print the usage and return 2, or 0 for --help."""
    if arguments and arguments[0] in commands:
        return commands[arguments[0]](arguments[1:])
    helped = asks_for_help(arguments)
    print(usage, file=sys.stdout if helped else sys.stderr)
    return 0 if helped else 2


def asks_for_help(arguments: Sequence[str]) -> bool:
    """True if -h or --help is among the arguments."""
    return bool({"-h", "--help"} & set(arguments))
