"""Display a training run: a live bar on a terminal, plain lines in a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from coder_core.console.output import say
from coder_core.console.progress import SECONDS_BETWEEN_LINES, Progress, TimedLines, silent


def best_so_far(best: float | None, choose_on: str) -> str:
    """Description of a run's best epoch; "" before the first evaluation.

    Args:
        best: R@sum of the images that choose the epoch, of a status file.
        choose_on: "dev", or "half" for a half of its images, which has fewer candidates and a higher R@sum.

    >>> best_so_far(291.68, "half")
    'best R@sum 291.7 of the chosen half'
    """
    return (
        ""
        if best is None
        else f"best R@sum {best:.1f}" + (" of the chosen half" if choose_on == "half" else "")
    )


class Display:
    """Progress of one run.

    Args:
        console: where to; lines only when it is no terminal.
        name: of the run.
        steps: in the whole run.
        per_epoch: steps in an epoch.
        choose_on: the configuration's, which images choose the best epoch.
        quiet: print nothing (all processes but the first).
    """

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
        self.console, self.name, self.steps, self.per_epoch, self.quiet = (
            console,
            name,
            steps,
            per_epoch,
            quiet,
        )
        self.choose_on = choose_on
        self.live = console.is_terminal and not quiet
        self.progress = Bars(
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
        self._last_line = time.monotonic()

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
        self,
        step: int,
        *,
        rate: float,
        parts: dict[str, float],
        quartiles: list[float] | None,
        best: float | None,
        others: Sequence[str] = (),
    ) -> None:
        """Show one step's numbers (called now and then, not every step).

        Args:
            step: steps done.
            rate: samples a second.
            parts: each loss term.
            quartiles: of the diversity.
            best: R@sum so far.
            others: further facts, in words.
        """
        facts = [f"{rate:,.0f} pairs/s", *(f"{name} {value:.3f}" for name, value in parts.items())]
        if quartiles:
            facts.append("diversity " + "/".join(f"{value:.2f}" for value in quartiles))
        facts += others
        text = " · ".join([*facts, best_so_far(best, self.choose_on)]).removesuffix(" · ")
        epoch = min(step // self.per_epoch + 1, -(-self.steps // self.per_epoch))
        if self.live and self.task is not None:
            self.progress.update(self.task, completed=step, epoch=epoch, facts=text)
        elif not self.quiet and time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            self.say(f"{self.name} step {step:,} of {self.steps:,} (epoch {epoch}) · {text}")

    def epoch(
        self,
        epoch: int,
        metrics: dict[str, float] | None,
        seconds: float,
        loss: float,
        best: bool,
        others: Sequence[str] = (),
        *,
        score: float | None = None,
    ) -> None:
        """One line an epoch, which stays on the screen, and one for each of the further facts; `score` chooses."""
        if self.quiet:
            return
        line = f"{self.name} epoch {epoch}: loss {loss:.4f}, {seconds:.0f} s"
        if metrics is not None:
            i2t = " / ".join(f"{metrics[f'i2t_r{k}']:.1f}" for k in (1, 5, 10))
            t2i = " / ".join(f"{metrics[f't2i_r{k}']:.1f}" for k in (1, 5, 10))
            line += f", dev R@1/5/10 image→text {i2t}, text→image {t2i}, R@sum {metrics['rsum']:.1f}"
            line += (
                f", of the chosen half {score:.1f}" if score is not None and self.choose_on == "half" else ""
            )
            line += " (best)" if best else ""
        say(self.console, line)
        for fact in others:
            say(self.console, f"    {fact}")

    def scoring(self, what: str) -> Progress:
        """Show the evaluation's progress on dev and the time left; called with the count done and the total."""
        return silent if self.quiet else TimedLines(self.console, what)

    def say(self, text: str) -> None:
        """A plain line."""
        if not self.quiet:
            say(self.console, text)
