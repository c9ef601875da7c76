"""What a person watching the terminal sees: a live bar on a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from coder_core.console.faults import Fault

SECONDS_BETWEEN_LINES = 10.0  # where there is no terminal for a live bar
WAYS = {"i2t": "image→text", "t2i": "text→image"}
STYLES = {"error": "bold red", "warning": "yellow", "note": "cyan"}


def say(console: Console, text: str, style: str = "") -> None:
    """One line of plain text: nothing in it is read as markup, and it is not broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_faults(console: Console, faults: Iterable[Fault]) -> None:
    """Errors, warnings and notes, one a line."""
    for fault in faults:
        say(console, f"{fault.severity}: {fault}", STYLES[fault.severity])


@contextmanager
def preparing(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each thing made before training; it shows itself only when there is something to make."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=console) as bar:
        tasks: dict[str, TaskID] = {}

        def update(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done)

        yield update


class Watch(Protocol):
    """Shows how much is done of how much there is; `now` names what is being done where that has changed."""

    def __call__(self, done: int, total: int, now: str = "") -> None: ...


@contextmanager
def watching(console: Console, what: str) -> Iterator[Watch]:
    """A bar with the time left, gone when done; in a file a line now and then, when it takes long."""
    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("left")
    live = console.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True, disable=not live) as bar:
        task = bar.add_task(what, total=None)
        lines = TimedLines(console, what)

        def update(done: int, total: int, now: str = "") -> None:
            nonlocal lines
            if (now or what) != lines.what:
                lines = TimedLines(console, now or what)
                bar.reset(task, description=lines.what, total=total)
            bar.update(task, completed=done, total=total)
            if not live:
                lines(done, total)

        yield update


class TimedLines:
    """ "…: 640,000 of 5,000,000, about 0:02:10 left", every ten seconds.

    Args:
        console: where to.
        what: is done.
    """

    def __init__(self, console: Console, what: str) -> None:
        self.console, self.what = console, what
        self._began = self._said_at = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._said_at > SECONDS_BETWEEN_LINES and 0 < done < total:
            self._said_at = now
            left = timedelta(seconds=round((now - self._began) * (total - done) / done))
            say(self.console, f"{self.what}: {done:,} of {total:,}, about {left} left")


class Display:
    """Progress of one run.

    Args:
        console: where to; lines only when it is no terminal.
        name: of the run.
        steps: in the whole run.
        per_epoch: steps in an epoch.
        quiet: print nothing (all processes but the first).
    """

    def __init__(self, console: Console, name: str, steps: int, per_epoch: int, *, quiet: bool = False) -> None:
        self.console, self.name, self.steps, self.per_epoch, self.quiet = console, name, steps, per_epoch, quiet
        self.live = console.is_terminal and not quiet
        self.progress = Progress(
            TextColumn("[bold]{task.fields[name]}"),
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[facts]}"),
            console=console,
            disable=not self.live,
        )
        self.task: TaskID | None = None
        self._said_at = time.monotonic()

    def __enter__(self) -> Display:
        if self.live:
            self.progress.start()
            self.task = self.progress.add_task("train", total=self.steps, name=self.name, epoch=1, facts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.progress.stop()

    def step(
        self, step: int, *, rate: float, parts: dict[str, float], quartiles: list[float] | None, best: float | None,
        prototypes: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Show one step's numbers (called now and then, not every step).

        Args:
            step: steps done.
            rate: samples a second.
            parts: each loss term.
            quartiles: of the diversity.
            best: R@sum so far.
            prototypes: what the guide reports.
        """
        facts = [f"{rate:,.0f} pairs/s", *(f"{name} {value:.3f}" for name, value in parts.items())]
        if quartiles:
            facts.append("diversity " + "/".join(f"{value:.2f}" for value in quartiles))
        if prototypes:
            facts.append(prototypes_in_words(prototypes))
        if best is not None:
            facts.append(f"best R@sum {best:.1f}")
        text = " · ".join(facts)
        epoch = min(step // self.per_epoch + 1, -(-self.steps // self.per_epoch))
        if self.live and self.task is not None:
            self.progress.update(self.task, completed=step, epoch=epoch, facts=text)
        elif not self.quiet and time.monotonic() - self._said_at > SECONDS_BETWEEN_LINES:
            self._said_at = time.monotonic()
            self.say(f"{self.name} step {step:,} of {self.steps:,} (epoch {epoch}) · {text}")

    def epoch(
        self, epoch: int, metrics: dict[str, float] | None, seconds: float, loss: float, best: bool,
        prototypes: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """One line an epoch, which stays on the screen."""
        if self.quiet:
            return
        line = f"{self.name} epoch {epoch}: loss {loss:.4f}, {seconds:.0f} s"
        if metrics is not None:
            i2t = " / ".join(f"{metrics[f'i2t_r{k}']:.1f}" for k in (1, 5, 10))
            t2i = " / ".join(f"{metrics[f't2i_r{k}']:.1f}" for k in (1, 5, 10))
            line += f", dev R@1/5/10 image→text {i2t}, text→image {t2i}, R@sum {metrics['rsum']:.1f}"
            line += " (best)" if best else ""
        say(self.console, line)
        if prototypes:
            say(self.console, f"    {prototypes_in_words(prototypes)}")

    def scoring(self, what: str) -> Callable[[int, int], None]:
        """Called with what is done and what there is in all while dev is evaluated: tells how long it will take."""
        return (lambda done, total: None) if self.quiet else TimedLines(self.console, what)

    def say(self, text: str) -> None:
        """A plain line."""
        if not self.quiet:
            say(self.console, text)


def prototypes_in_words(found: Mapping[str, Any]) -> str:
    """981 prototypes used, 3 dead, largest 120 · inertia 0.612 · 12% moved · named right 8% / 9%."""
    text = f"{found['used']:,} prototypes used, {found['dead']:,} dead, largest {found['largest']:,}"
    text += f" · inertia {found['inertia']:.3f}"
    text += f" · {found['changed']:.0%} moved" if "changed" in found else ""
    text += f" · named right {found['image_accuracy']:.0%} / {found['text_accuracy']:.0%}"
    if "kept" in found:
        text += f" · clustered anew, {found['kept']:.0%} kept their number"
    return text


def metrics_table(rows: dict[str, dict[str, float]], title: str) -> Table:
    """The field's table: recalls, MedR and MeanR both ways, R@sum, MD and ties; one row a name."""
    table = _table(title)
    for way in WAYS.values():
        table.add_column(f"{way}\nR@1/5/10", justify="right", no_wrap=True)
        table.add_column("MedR\nMeanR", justify="right", no_wrap=True)
    table.add_column("R@sum", justify="right", style="bold", no_wrap=True)
    table.add_column("MD", justify="right", no_wrap=True)
    table.add_column("ties %", justify="right", no_wrap=True)
    for name, m in rows.items():
        cells = [name]
        for way in WAYS:
            cells.append("/".join(f"{m[f'{way}_r{k}']:.1f}" for k in (1, 5, 10)))
            cells.append(f"{m[f'{way}_medr']:.0f} · {m[f'{way}_meanr']:.1f}")
        md = f"{m['md']:.3f}" if "md" in m else "–"
        table.add_row(*cells, f"{m['rsum']:.1f}", md, f"{m['i2t_ties']:.1f} · {m['t2i_ties']:.1f}")
    return table


def choices_table(rows: dict[str, dict[str, float]], options: Sequence[int], title: str) -> Table:
    """c-way accuracy both ways, mean ± half of the 95% interval; a dash where the split is too small."""
    table = _table(title)
    for way in WAYS:
        for c in options:
            table.add_column(f"{WAYS[way]}\n{c}-way %", justify="right", no_wrap=True)
    for name, m in rows.items():
        keys = [f"{way}_{c}way" for way in WAYS for c in options]
        table.add_row(name, *(f"{m[key]:.1f} ± {m[f'{key}_interval']:.1f}" if key in m else "–" for key in keys))
    return table


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0))
    table.add_column("run", min_width=8, overflow="fold")
    return table
