"""Progress of long-running work: its protocol, its display, the display of training, and a JSON file for others."""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Protocol, Self

from rich import progress as bar
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from coder_core.console.faults import InputError
from coder_core.console.output import say
from coder_core.console.plain_files import read_plain, replace_plain

SECONDS_BETWEEN_WRITES = 0.3
SECONDS_BETWEEN_LINES = 10.0  # without a terminal for a live bar
OF_HALF = " of the chosen half"


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


@dataclass(frozen=True)
class StepReport:
    """Numbers of one step for the terminal."""

    step: int
    rate: float  # pairs per second
    parts: dict[str, float]  # of the loss
    quartiles: list[float] | None  # of the batch's diversity
    best: float | None  # R@sum of the best epoch so far
    others: Sequence[str] = ()  # facts about optional parts


@dataclass(frozen=True)
class EpochReport:
    """Result of one epoch for the terminal."""

    epoch: int
    metrics: dict[str, float] | None  # on dev
    seconds: float
    loss: float  # mean over the epoch
    best: bool  # True for the best epoch so far
    others: Sequence[str] = ()  # facts about optional parts
    score: float | None = None  # what the best epoch is chosen by


class Display:
    """Progress of one run: a live bar on a terminal, lines elsewhere, nothing if `quiet` (all ranks but 0)."""

    def __init__(
        self,
        console: Console,
        name: str,
        steps: int,
        per_epoch: int,
        *,
        choose_on: str = "dev",
        quiet: bool = False,
    ) -> None:
        self.console = console
        self.name = name
        self.choose_on = choose_on
        self.quiet = quiet
        self.steps = steps
        self.per_epoch = per_epoch
        self.live = console.is_terminal and not quiet
        titles = (TextColumn("[bold]{task.fields[name]}"), TextColumn("epoch {task.fields[epoch]}"))
        done = (BarColumn(bar_width=24), bar.MofNCompleteColumn())
        times = (bar.TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(compact=True))
        facts = TextColumn("{task.fields[facts]}")
        self.progress = Bars(*titles, *done, *times, facts, console=console, disable=not self.live)
        self.task = self.progress.add_task("train", total=steps, name=name, epoch=1, facts="", start=False)
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self.live:
            self.progress.start()
            self.progress.start_task(self.task)
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.progress.stop()

    def step(self, report: StepReport) -> None:
        """Show one step's numbers (called every few steps)."""
        facts = [f"{report.rate:,.0f} pairs/s"]
        facts += [f"{name} {value:.3f}" for name, value in report.parts.items()]
        if report.quartiles:
            facts.append("diversity " + "/".join(f"{value:.2f}" for value in report.quartiles))
        facts += [*report.others, best_so_far(report.best, self.choose_on)]
        text = " · ".join(filter(None, facts))
        epoch = min(report.step // self.per_epoch + 1, -(-self.steps // self.per_epoch))
        if self.live:
            self.progress.update(self.task, completed=report.step, epoch=epoch, facts=text)
        elif time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.say(f"{self.name} step {report.step:,} of {self.steps:,} (epoch {epoch}) · {text}")

    def epoch(self, report: EpochReport) -> None:
        """Print a lasting line for an epoch and one for each of its `others`."""
        line = f"{self.name} epoch {report.epoch}: loss {report.loss:.4f}, {report.seconds:.0f} s"
        metrics = report.metrics
        if metrics is not None:
            i2t, t2i = (
                " / ".join(f"{metrics[f'{way}_{key}']:.1f}" for key in ("r1", "r5", "r10", "mrr", "ndcg10"))
                for way in ("i2t", "t2i")
            )
            line += f", dev R@1/5/10, MRR, nDCG@10 image→text {i2t}, text→image {t2i}"
            line += f", R@sum {metrics['rsum']:.1f}"
            if report.score is not None and self.choose_on == "half":
                line += f",{OF_HALF} {report.score:.1f}"
            line += " (best)" if report.best else ""
        self.say(line)
        for fact in report.others:
            self.say(f"    {fact}")

    def scoring(self, activity: str) -> Progress:
        """Return a progress that prints lines with the time left of an evaluation on dev."""
        return silent if self.quiet else TimedLines(self.console, activity)

    def say(self, text: str) -> None:
        """Print a plain line."""
        if not self.quiet:
            say(self.console, text)
