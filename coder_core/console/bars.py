"""Progress on the screen: a live bar on a terminal, a line now and then in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from coder_core.console.faults import InputError
from coder_core.console.output import say
from coder_core.console.progress import Progress, ProgressFile, Tell

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal for a live bar


@contextmanager
def preparing(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing made before training; yields a function of its name, what is done and the total."""
    with Bars(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console) as bars:
        tasks: dict[str, TaskID] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done)

        yield update


@contextmanager
def reporting(console: Console, file: Path | None) -> Iterator[Tell]:
    """A bar of the share done, also as JSON in a file that another process reads; it says in the end how work ended.

    Raises:
        InputError: the file cannot be written.
    """
    record = ProgressFile(file) if file else None
    try:
        with Bars(console=console, transient=True, disable=not console.is_terminal) as bars:
            task = bars.add_task("", total=1.0)

            def tell(fraction: float, phase: str) -> None:
                bars.update(task, completed=fraction, description=phase)
                if record:
                    record(fraction, phase)

            yield tell
    except (InputError, MemoryError) as error:
        if record:
            record.write(Progress(0.0, "failed", "failed", str(error) or "there is not enough memory"))
        raise
    if record:
        record.write(Progress(1.0, "finished", "finished"))


class Watch(Protocol):
    """Shows how much is done of a total; `now` names the present phase where it has changed."""

    def __call__(self, done: int, total: int, now: str = "") -> None: ...


@contextmanager
def watching(console: Console, what: str) -> Iterator[Watch]:
    """A bar with the time left, gone when done; in a file a line every ten seconds."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("left")
    live = console.is_terminal
    with Bars(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not live) as bars:
        task = bars.add_task(what, total=None)
        lines = TimedLines(console, what)

        def update(done: int, total: int, now: str = "") -> None:
            nonlocal lines
            if (now or what) != lines.what:
                lines = TimedLines(console, now or what)
                bars.reset(task, description=lines.what, total=total)
            bars.update(task, completed=done, total=total)
            if not live:
                lines(done, total)

        yield update


class TimedLines:
    """Print "…: 640,000 of 5,000,000, about 0:02:10 left" every ten seconds.

    Args:
        console: where to.
        what: is done.
    """

    def __init__(self, console: Console, what: str) -> None:
        self.console, self.what = console, what
        self._start = self._last_line = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._last_line > SECONDS_BETWEEN_LINES and 0 < done < total:
            self._last_line = now
            left = timedelta(seconds=round((now - self._start) * (total - done) / done))
            say(self.console, f"{self.what}: {done:,} of {total:,}, about {left} left")
