"""Progress on the screen: a live bar on a terminal, a line now and then in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

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
def watching(console: Console, what: str, *, rate: bool = False) -> Iterator[Watch]:
    """A bar with the time left, gone when done; in a file a line every ten seconds. With `rate` also the rate."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *([_RateColumn()] if rate else []),
    )
    left = TextColumn("left"), TimeRemainingColumn()
    live = console.is_terminal
    with Bars(*columns, *left, console=console, transient=True, disable=not live) as bars:
        task = bars.add_task(what, total=None)
        lines = TimedLines(console, what, rate=rate)

        def update(done: int, total: int, now: str = "") -> None:
            nonlocal lines
            if (now or what) != lines.what:
                lines = TimedLines(console, now or what, rate=rate)
                bars.reset(task, description=lines.what, total=total)
            bars.update(task, completed=done, total=total)
            if not live:
                lines(done, total)

        yield update


class _RateColumn(ProgressColumn):
    """How many are done a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.1f} a second" if task.speed else "")


class TimedLines:
    """Print "…: 640,000 of 5,000,000, about 0:02:10 left" every ten seconds.

    Args:
        console: where to.
        what: is done.
        rate: also print how many are done a second.
    """

    def __init__(self, console: Console, what: str, *, rate: bool = False) -> None:
        self.console, self.what, self.rate = console, what, rate
        self._before: int | None = None  # done by an earlier process
        self._start = self._last_line = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._before is None:
            self._before = done if self.rate else 0
        new = done - self._before
        if now - self._last_line > SECONDS_BETWEEN_LINES and 0 < done < total and new:
            self._last_line = now
            left = timedelta(seconds=round((now - self._start) * (total - done) / new))
            rate = f", {new / (now - self._start):.1f} a second" if self.rate else ""
            say(self.console, f"{self.what}: {done:,} of {total:,}{rate}, about {left} left")
