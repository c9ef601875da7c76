"""Print from commands: a console as wide as its output, plain lines, faults, and the progress of long-running work, on
a terminal or as a JSON file for other processes."""

import json
import math
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from rich import progress as bar
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import read_plain, replace_plain
from coder_core.console.signals import discard

UNLIMITED = 1000  # columns of a file or a pipe; no table is wider
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}
SECONDS_BETWEEN_WRITES = 0.3
SECONDS_BETWEEN_LINES = 10.0  # without a terminal for a live bar
OF_HALF = " of the chosen half"


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


class Progress(Protocol):
    """Function called with the amount done, the total, and the current phase if the work has several. It may raise to
    stop the work."""

    def __call__(self, done: float, total: float, phase: str = "") -> None: ...


def silent(done: float, total: float, phase: str = "") -> None:
    """Report nothing."""


def within(progress: Progress, start: float, end: float) -> Progress:
    """Map the progress of a part onto the shares `start` to `end` of the whole."""

    def report(done: float, total: float, phase: str = "") -> None:
        progress(start + (end - start) * min(max(done / total, 0.0), 1.0), 1.0, phase)

    return report


def named(progress: Progress, name: str) -> Progress:
    """Name the phase of a part, or prefix the phases it has."""
    return lambda done, total, phase="": progress(done, total, f"{name}: {phase}" if phase else name)


@contextmanager
def watching(
    console: Console, label: str = "", *, rate: bool = False, file: Path | None = None
) -> Iterator[Progress]:
    """Draw a bar with the time left on a terminal; elsewhere print a line every ten seconds. InputError: the file
    cannot be written.

    Args:
        console: to draw on.
        label: shown while no phase is named.
        rate: also show the number done per second.
        file: also write the progress, and at the end success or the reason for failure, to this JSON file.
    """
    record = ProgressFile(file) if file else None
    columns = (TextColumn("{task.description}"), BarColumn(), bar.TaskProgressColumn())
    left = (*([_RateColumn()] if rate else []), TextColumn("left"), TimeRemainingColumn())
    live = console.is_terminal
    try:
        with Bars(*columns, *left, console=console, transient=True, disable=not live) as bars:
            task = bars.add_task(label, total=None, visible=bool(label))
            lines = TimedLines(console, label, rate=rate)

            def report(done: float, total: float, phase: str = "") -> None:
                nonlocal lines
                if (phase or label) != lines.label:
                    lines = TimedLines(console, phase or label, rate=rate)
                    bars.reset(task, description=lines.label, total=total, visible=True)
                bars.update(task, completed=done, total=total)
                if not live:
                    lines(done, total)
                if record:
                    record(done, total, phase)

            yield report
    except (InputError, MemoryError) as error:
        if record:
            record.write(JobProgress(0.0, "failed", "failed", str(error) or "there is not enough memory"))
        raise
    if record:
        record.write(JobProgress(1.0, "finished", "finished"))


class _RateColumn(ProgressColumn):
    """Number done per second."""

    def render(self, task: bar.Task) -> Text:
        return Text(f"{task.speed:.1f} per second" if task.speed else "")


class TimedLines:
    """Lines like "…: 640,000 of 5,000,000, about 0:02:10 left" every ten seconds, with `rate` also items per second."""

    def __init__(self, console: Console, label: str, *, rate: bool = False) -> None:
        self.console = console
        self.label = label
        self.rate = rate
        self._before: float | None = None  # done by an earlier process
        self._start = self._last_line = time.monotonic()

    def __call__(self, done: float, total: float, phase: str = "") -> None:
        now = time.monotonic()
        if self._before is None:
            self._before = done if self.rate else 0
        new = done - self._before
        if now - self._last_line > SECONDS_BETWEEN_LINES and 0 < done < total and new:
            self._last_line = now
            left = timedelta(seconds=round((now - self._start) * (total - done) / new))
            amount = f"{done:,} of {total:,}" if total > 1 else f"{done / total:.0%}"
            rate = f", {new / (now - self._start):.1f} per second" if self.rate else ""
            say(self.console, f"{self.label}: {amount}{rate}, about {left} left")


@dataclass(frozen=True)
class JobProgress:
    """Progress for another process; `message` is the reason for a failure."""

    fraction: float  # from 0 to 1
    phase: str
    state: str = "running"  # or "finished", "failed"
    message: str = ""


class ProgressFile:
    """A `Progress` that replaces a file a few times a second, and whenever the phase changes."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._phase = ""
        self._written = 0.0

    def __call__(self, done: float, total: float, phase: str = "") -> None:
        now = time.monotonic()
        if phase == self._phase and now - self._written < SECONDS_BETWEEN_WRITES:
            return
        self._phase = phase
        self._written = now
        self.write(JobProgress(min(max(done / total, 0.0), 1.0), phase))

    def write(self, progress: JobProgress) -> None:
        """Replace the file (InputError: it cannot be written)."""
        try:
            replace_plain(self.path, json.dumps(asdict(progress)))
        except OSError as error:
            raise InputError.at(self.path, f"could not be written ({error.strerror})") from error


def read_progress(path: Path) -> JobProgress | None:
    """Read the progress in a file; None if it is missing or invalid."""
    try:
        record = json.loads(read_plain(Path(path)))
        fraction = float(record["fraction"])
        if not math.isfinite(fraction):
            return None
        fraction = min(max(fraction, 0.0), 1.0)
        return JobProgress(fraction, str(record["phase"]), str(record["state"]), str(record["message"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def best_so_far(best: float | None, choose_on: str) -> str:
    """Describe a run's best epoch; "" before the first evaluation.

    >>> best_so_far(291.68, "half")
    'best R@sum 291.7 of the chosen half'
    """
    return "" if best is None else f"best R@sum {best:.1f}{OF_HALF if choose_on == 'half' else ''}"
