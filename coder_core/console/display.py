"""Display a training run: a live bar on a terminal, plain lines in a file."""

import time
from collections.abc import Sequence
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from coder_core.console.output import say
from coder_core.console.progress import SECONDS_BETWEEN_LINES, Progress, TimedLines, silent

OF_HALF = " of the chosen half"


def best_so_far(best: float | None, choose_on: str) -> str:
    """Description of a run's best epoch; "" before the first evaluation.

    >>> best_so_far(291.68, "half")
    'best R@sum 291.7 of the chosen half'
    """
    return "" if best is None else f"best R@sum {best:.1f}{OF_HALF if choose_on == 'half' else ''}"


class Display:
    """Progress of one run: a live bar on a terminal, lines elsewhere, nothing if `quiet` (all processes but the first)."""

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
        self.console, self.name, self.choose_on, self.quiet = console, name, choose_on, quiet
        self.steps, self.per_epoch = steps, per_epoch
        self.live = console.is_terminal and not quiet
        texts = (TextColumn("[bold]{task.fields[name]}"), TextColumn("epoch {task.fields[epoch]}"))
        times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(compact=True))
        bar, facts = (BarColumn(bar_width=24), MofNCompleteColumn()), TextColumn("{task.fields[facts]}")
        self.progress = Bars(*texts, *bar, *times, facts, console=console, disable=not self.live)
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
        """Show one step's numbers (called now and then, not every step)."""
        facts = [f"{rate:,.0f} pairs/s", *(f"{name} {value:.3f}" for name, value in parts.items())]
        if quartiles:
            facts.append("diversity " + "/".join(f"{value:.2f}" for value in quartiles))
        text = " · ".join(filter(None, [*facts, *others, best_so_far(best, self.choose_on)]))
        epoch = min(step // self.per_epoch + 1, -(-self.steps // self.per_epoch))
        if self.live:
            self.progress.update(self.task, completed=step, epoch=epoch, facts=text)
        elif time.monotonic() - self._last_line > SECONDS_BETWEEN_LINES:
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
        line = f"{self.name} epoch {epoch}: loss {loss:.4f}, {seconds:.0f} s"
        if metrics is not None:
            i2t, t2i = (
                " / ".join(f"{metrics[f'{way}_r{k}']:.1f}" for k in (1, 5, 10)) for way in ("i2t", "t2i")
            )
            line += f", dev R@1/5/10 image→text {i2t}, text→image {t2i}, R@sum {metrics['rsum']:.1f}"
            if score is not None and self.choose_on == "half":
                line += f",{OF_HALF} {score:.1f}"
            line += " (best)" if best else ""
        self.say(line)
        for fact in others:
            self.say(f"    {fact}")

    def scoring(self, activity: str) -> Progress:
        """Show the evaluation's progress on dev and the time left; called with the count done and the total."""
        return silent if self.quiet else TimedLines(self.console, activity)

    def say(self, text: str) -> None:
        """A plain line."""
        if not self.quiet:
            say(self.console, text)
