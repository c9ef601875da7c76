"""Print from commands: a console as wide as its output, plain lines, faults."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console

from coder_core.console.faults import Fault
from coder_core.console.signals import discard

UNLIMITED = 1000  # columns of a file or a pipe; no table is wider
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


class Output:
    """A stream whose failure, on a full disk, does not stop the work: it sets `error` and discards further output."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, unless the stream has failed. BrokenPipeError: its reader is gone."""
        self._attempt(self._stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush; errors as for `write`."""
        self._attempt(self._stream.flush)

    def _attempt(self, action: Any, *arguments: str) -> None:
        try:
            action(*arguments)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.error = self.error or error
            with suppress(OSError):
                discard(self._stream.fileno())


@contextmanager
def lasting_outputs() -> Iterator[list[Output]]:
    """Keep a full disk or a missing stream from stopping a command; yield stdout and stderr as `Output`."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        outputs = [Output(stream or nowhere) for stream in before]
        sys.stdout, sys.stderr = outputs
        try:
            yield outputs
        finally:
            sys.stdout, sys.stderr = before


class _CommandConsole(Console):
    def on_broken_pipe(self) -> None:
        """Let the runner handle a closed pipe: it sets the exit status."""
        raise BrokenPipeError


def open_console(*, stderr: bool = False) -> Console:
    """Open a console on stdout or stderr. Unless COLUMNS is set, a file or a pipe is wide enough for any table."""
    console = _CommandConsole(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print plain text, without markup and without breaking its lines."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_faults(console: Console, faults: Iterable[Fault]) -> None:
    """Print errors, warnings and notes, one per line. Control characters are escaped."""
    for fault in faults:
        line = f"{fault.severity}: {fault}"
        text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in line)
        say(console, text, STYLES[fault.severity])
