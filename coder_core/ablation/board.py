"""Show the progress of a table: bars for all runs and for each active one; plain lines where there is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from coder_core.ablation.running import TableProgress
from coder_core.console.output import say

SECONDS_BETWEEN_LINES = 60.0  # where there is no terminal for live bars


def time_left(progress: TableProgress) -> str:
    """Time left for all runs."""
    if progress.seconds_left is None:
        return "time left: not known yet"
    return f"{timedelta(seconds=round(progress.seconds_left))} left"


@contextmanager
def watching(console: Console, runs: int) -> Iterator[Callable[[TableProgress], None]]:
    """Yield the function that shows progress."""
    if not console.is_terminal:
        yield _lines(console, runs)
        return
    columns = TextColumn("{task.description}"), BarColumn(bar_width=30), TaskProgressColumn()
    with Progress(*columns, TextColumn("{task.fields[facts]}"), console=console, transient=True) as bars:
        yield _bars(bars, runs)


def _bars(bars: Progress, runs: int) -> Callable[[TableProgress], None]:
    table = bars.add_task("[bold]table", total=1.0, facts="")
    tasks: dict[str, TaskID] = {}

    def tell(progress: TableProgress) -> None:
        facts = f"{len(progress.done)} of {runs} runs · {time_left(progress)}"
        facts += f" · {len(progress.failed)} failed" if progress.failed else ""
        bars.update(table, completed=progress.share, facts=facts)
        for name in tasks.keys() - progress.active.keys():
            bars.remove_task(tasks.pop(name))
        for name, (step, steps, best) in progress.active.items():
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=None, facts="")
            facts = f"step {step:,} of {steps:,}" if steps else "reading data"
            facts += f" · {best}" if best else ""
            bars.update(tasks[name], total=steps or None, completed=step, facts=facts)

    return tell


def _lines(console: Console, runs: int) -> Callable[[TableProgress], None]:
    said: set[str] = set()
    said_at = 0.0

    def tell(progress: TableProgress) -> None:
        nonlocal said_at
        events = [f"begins: {name}" for name in progress.active]
        events += [f"failed: {run.folder.name}" for run in progress.failed]
        for event in events:
            if event not in said:
                said.add(event)
                say(console, event)
        if time.monotonic() - said_at > SECONDS_BETWEEN_LINES and progress.seconds_left is not None:
            said_at = time.monotonic()
            steps = ", ".join(
                f"{name} step {step:,} of {of:,}" for name, (step, of, _) in progress.active.items()
            )
            say(console, f"{len(progress.done)} of {runs} runs done · {steps} · {time_left(progress)}")

    return tell
