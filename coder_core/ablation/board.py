"""What a person watching a table sees: a bar for all of it, one for every run that is going, and the time left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from coder_core.ablation.running import TableProgress
from coder_core.console.display import say

SECONDS_BETWEEN_LINES = 60.0  # where there is no terminal for live bars


def left(progress: TableProgress) -> str:
    """Time left for the whole table."""
    if progress.seconds_left is None:
        return "time left: not known yet"
    return f"{timedelta(seconds=round(progress.seconds_left))} left"


@contextmanager
def watching(console: Console, runs: int) -> Iterator[Callable[[TableProgress], None]]:
    """Hands out the function that shows progress."""
    if console.is_terminal:
        with _bars(console) as bars:
            yield _live(bars, runs)
    else:
        yield _lines(console, runs)


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=30), TaskProgressColumn(),
        TextColumn("{task.fields[facts]}"), console=console, transient=True,
    )  # fmt: skip


def _live(bars: Progress, runs: int) -> Callable[[TableProgress], None]:
    whole = bars.add_task("[bold]table", total=1.0, facts="")
    tasks: dict[str, TaskID] = {}

    def tell(progress: TableProgress) -> None:
        facts = f"{len(progress.done)} of {runs} runs · {left(progress)}"
        facts += f" · {len(progress.failed)} failed" if progress.failed else ""
        bars.update(whole, completed=progress.share, facts=facts)
        for name in [name for name in tasks if name not in progress.active]:
            bars.remove_task(tasks.pop(name))
        for name, (step, steps, best) in progress.active.items():
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=None, facts="")
            told = f"step {step:,} of {steps:,}" if steps else "reading data"
            told += f" · best R@sum {best:.1f}" if best is not None else ""
            bars.update(tasks[name], total=steps or None, completed=step, facts=told)

    return tell


def _lines(console: Console, runs: int) -> Callable[[TableProgress], None]:
    said: set[str] = set()
    last = 0.0

    def tell(progress: TableProgress) -> None:
        nonlocal last
        for name in progress.active:
            if name not in said:
                said.add(name)
                say(console, f"begins: {name}")
        for one in progress.failed:
            if (key := f"{one.folder.name} failed") not in said:
                said.add(key)
                say(console, f"failed: {one.folder.name}")
        if time.monotonic() - last > SECONDS_BETWEEN_LINES and progress.seconds_left is not None:
            last = time.monotonic()
            going = ", ".join(
                f"{name} step {step:,} of {steps:,}" for name, (step, steps, _) in progress.active.items()
            )
            say(console, f"{len(progress.done)} of {runs} runs done · {going} · {left(progress)}")

    return tell
