"""Report on a run: on the terminal, in `history.jsonl`, in `status.json` and, on request, to TensorBoard or Weights &
Biases."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import torch
from rich import progress as bar
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from torch import Tensor

from coder_core.config.training import TrainingConfig
from coder_core.console.faults import Fault
from coder_core.console.output import (
    OF_HALF,
    SECONDS_BETWEEN_LINES,
    Progress,
    TimedLines,
    best_so_far,
    print_faults,
    say,
    silent,
)
from coder_core.model.device import peak_mebibytes
from coder_core.ops import parallel
from coder_core.runs.record import HISTORY, REPEATABLE, HistoryWriter, write_status
from coder_core.training.state import Position
from coder_core.training.step import Losses
from coder_core.training.trackers import Tracker, open_trackers

QUARTILES = {"min": 0.0, "q1": 0.25, "median": 0.5, "q3": 0.75, "max": 1.0}


class Reporter:
    """Reporter of one run. Every process has one, because losses are averaged over processes; only rank 0 writes."""

    def __init__(
        self, folder: Path, console: Console, training: TrainingConfig, per_epoch: int, device: torch.device
    ) -> None:
        self.folder = folder
        self.per_epoch = per_epoch
        self.device = device
        self.steps = training.steps(per_epoch)
        self.training = training
        self.first = parallel.rank() == 0
        self.display = Display(
            console, folder.name, self.steps, per_epoch, choose_on=training.choose_on, quiet=not self.first
        )
        self.history: HistoryWriter | None = None
        self.trackers: list[Tracker] = []

    @contextmanager
    def open(self, position: Position) -> Iterator[None]:
        """Show progress and keep the history open from `position` on."""
        with self.display:
            if self.first:
                path = self.folder / HISTORY
                # It exists at step 0 if the run was killed before its first save. Lines of later steps do not count.
                resumed = path.exists()
                self.history = HistoryWriter(path, resume_step=position.step if resumed else None)
                if not resumed:
                    self.history.write("start", step=0, steps=self.steps, per_epoch=self.per_epoch)
                if self.training.tensorboard or self.training.wandb:
                    self.trackers = open_trackers(self.folder, self.training, resume_step=position.step)
                self._write_status("running", position)
            try:
                yield
            finally:
                for tracker in self.trackers:
                    tracker.close()
                if self.history is not None:
                    self.history.close()

    def step(
        self,
        position: Position,
        losses: Losses,
        norm: Tensor,
        part_reports: Mapping[str, Any],
        part_facts: Sequence[str],
        *,
        learning_rate: float,
        rate: float,
    ) -> None:
        """Report a step. `norm`: gradient norm before clipping. `rate`: pairs per second. `part_reports`: history
        fields of the optional parts; `part_facts`: the same as text for the terminal."""
        terms = {name: float(parallel.mean(value)) for name, value in losses.parts.items()}
        further = dict(part_reports)
        quartiles = None
        if losses.diversity is not None:
            points = torch.tensor(list(QUARTILES.values()), device=losses.diversity.device)
            quartiles = [round(value, 5) for value in losses.diversity.quantile(points).tolist()]
            further = {"diversity": dict(zip(QUARTILES, quartiles, strict=True)), **part_reports}

        self.write_event(
            "step",
            position,
            epoch=position.step / self.per_epoch,
            learning_rate=learning_rate,
            losses=terms,
            gradient_norm=float(norm),
            pairs_per_second=round(rate, 1),
            **further,
        )
        self._write_status("running", position)
        shown = quartiles[1:4] if quartiles else None
        self.display.step(StepReport(position.step, rate, terms, shown, position.best, part_facts))

    def end(self, state: str, position: Position, message: str | None = None) -> None:
        """Report the end of the run: its state ("finished", "stopped" or "failed") and the error message, if any."""
        if message is None:
            self.write_event("stop", position, state=state, seconds=position.seconds)
            self._write_status(state, position)
        else:
            self.write_event("stop", position, state=state, message=message)
            self._write_status(state, position, message=message)

    def write_event(self, event: str, position: Position, **fields: Any) -> None:
        """Write a line of the history. `event`: "before", "step", "epoch" or "stop"."""
        if self.history is not None:
            self.history.write(event, step=position.step, **fields)
        for tracker in self.trackers if event in REPEATABLE else ():
            tracker.write(event, position.step, fields)

    def _write_status(self, state: str, position: Position, **fields: Any) -> None:
        if self.first:
            values = {key: value for key, value in asdict(position).items() if key != "loss_sum"}
            peak = round(peak_mebibytes(self.device), 1)
            write_status(self.folder, state, steps=self.steps, peak_mebibytes=peak, **values, **fields)


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
        self.progress = Bars(
            TextColumn("[bold]{task.fields[name]}"),
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            bar.MofNCompleteColumn(),
            bar.TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[facts]}"),
            console=console,
            disable=not self.live,
        )
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

    def warn(self, fault: Fault | None) -> None:
        """Print a warning, if there is one."""
        if fault is not None and not self.quiet:
            print_faults(self.console, [fault])

    def scoring(self, activity: str) -> Progress:
        """Return a progress that prints lines with the time left of an evaluation on dev."""
        return silent if self.quiet else TimedLines(self.console, activity)

    def say(self, text: str) -> None:
        """Print a plain line."""
        if not self.quiet:
            say(self.console, text)
