"""Report on a run: on the terminal, in `history.jsonl`, in `status.json` and, on request, to TensorBoard."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from coder_core.config.training import TrainingConfig
from coder_core.console.faults import InputError
from coder_core.console.plain_files import subfolder
from coder_core.console.progress import Display, StepReport
from coder_core.model.device import peak_mebibytes
from coder_core.ops import parallel
from coder_core.runs.history import HISTORY, REPEATABLE, HistoryWriter
from coder_core.runs.status import write_status
from coder_core.training.state import Position
from coder_core.training.step import Losses

TENSORBOARD = "tensorboard"  # folder in a run folder
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
        self.tensorboard = training.tensorboard
        self.first = parallel.rank() == 0
        self.display = Display(
            console, folder.name, self.steps, per_epoch, choose_on=training.choose_on, quiet=not self.first
        )
        self.history: HistoryWriter | None = None
        self.events: EventWriter | None = None

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
                if self.tensorboard:
                    self.events = EventWriter(self.folder, resume_step=position.step)
                self._write_status("running", position)
            try:
                yield
            finally:
                for writer in (self.history, self.events):
                    if writer is not None:
                        writer.close()

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
        """Write a line of the history. `event`: "step", "epoch" or "stop"."""
        if self.history is not None:
            self.history.write(event, step=position.step, **fields)
        if self.events is not None and event in REPEATABLE:
            self.events.write(event, position.step, fields)

    def _write_status(self, state: str, position: Position, **fields: Any) -> None:
        if self.first:
            values = {key: value for key, value in asdict(position).items() if key != "loss_sum"}
            peak = round(peak_mebibytes(self.device), 1)
            write_status(self.folder, state, steps=self.steps, peak_mebibytes=peak, **values, **fields)


class EventWriter:
    """TensorBoard writer of the history's scalars (`step/losses/dcl`, `epoch/metrics/rsum`, …) over the step.
    Scalars already written for steps after `resume_step` are hidden. InputError: tensorboard is not installed."""

    def __init__(self, run: Path, *, resume_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            problem = "needs the package tensorboard"
            fix = "pip install tensorboard"
            raise InputError.at("--tensorboard", problem, fix=fix) from error
        self._writer = SummaryWriter(str(subfolder(run, TENSORBOARD)), purge_step=resume_step + 1)

    def write(self, event: str, step: int, fields: Mapping[str, Any]) -> None:
        """Write every number in a line of the history."""
        for name, value in _numbers(fields, event):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # a killed run keeps its lines

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def _numbers(fields: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}/{key}")
        elif isinstance(value, int | float):
            yield f"{prefix}/{key}", float(value)
