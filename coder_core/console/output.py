"""Print from commands: a console as wide as its output, plain lines, faults."""

import os
from collections.abc import Iterable

from rich.console import Console

from coder_core.console.faults import Fault

UNLIMITED = 1000  # columns of a file or a pipe: no table of ours is wider
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


class _CommandConsole(Console):
    def on_broken_pipe(self) -> None:
        """Let the runner handle a closed pipe: it sets the exit status."""
        raise BrokenPipeError


def open_console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr. A file or a pipe is as wide as any table, unless COLUMNS says otherwise."""
    console = _CommandConsole(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = UNLIMITED
    return console


def say(console: Console, text: str, style: str = "") -> None:
    """Print plain text: nothing in it is read as markup, and lines are not broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_faults(console: Console, faults: Iterable[Fault]) -> None:
    """Print errors, warnings and notes, one a line. Characters that a terminal would obey are spelt out."""
    for fault in faults:
        line = f"{fault.severity}: {fault}"
        text = "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in line)
        say(console, text, STYLES[fault.severity])
