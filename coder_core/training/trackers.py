"""Write the history's numbers for programs that track experiments: TensorBoard, and Weights & Biases offline.

Both packages are optional and are imported only for a run that asks for them.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from coder_core.config.training import TENSORBOARD, WANDB, TrainingConfig
from coder_core.console.plain_files import subfolder
from coder_core.runs.record import run_key

ID_DIGITS = 16  # of the run's key, by which Weights & Biases knows a run that continues


class Tracker(Protocol):
    """A writer of numbers over the steps of one run."""

    def write(self, event: str, step: int, fields: Mapping[str, Any]) -> None:
        """Write every number in a line of the history."""

    def close(self) -> None:
        """Finish the files."""


def open_trackers(folder: Path, training: TrainingConfig, *, resume_step: int) -> list[Tracker]:
    """Open the trackers that a run asks for; `resume_step`: step from which it continues, 0 for a new run."""
    trackers: list[Tracker] = []
    if training.tensorboard:
        trackers.append(EventWriter(folder, resume_step=resume_step))
    if training.wandb:
        trackers.append(OfflineRun(folder))
    return trackers


class EventWriter:
    """TensorBoard writer of the history's scalars (`step/losses/dcl`, `epoch/metrics/rsum`, …) over the step.
    Scalars already written for steps after `resume_step` are hidden."""

    def __init__(self, run: Path, *, resume_step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(subfolder(run, TENSORBOARD)), purge_step=resume_step + 1)

    def write(self, event: str, step: int, fields: Mapping[str, Any]) -> None:
        """Write every number in a line of the history."""
        for name, value in numbers_of(fields, event):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()  # a killed run keeps its lines

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class OfflineRun:
    """Weights & Biases writer of the same scalars into the run's folder `wandb/`.

    Nothing is sent: the command `wandb sync` uploads such a folder later. It holds the numbers, the run's name, this
    machine's name and the versions of Python and wandb: no settings, code, console output or measurements of this
    machine. Continuing a run adds a folder of the same id, which `wandb sync` joins."""

    def __init__(self, run: Path) -> None:
        import wandb

        subfolder(run, WANDB).mkdir(exist_ok=True)
        settings = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            save_code=False,
            x_disable_machine_info=True,
            x_disable_meta=True,
            x_disable_stats=True,
            x_save_requirements=False,
            silent=True,
        )
        self._run = wandb.init(
            mode="offline",
            dir=str(run),  # wandb adds /wandb
            project="coder-lab",
            name=run.name,
            id=run_key(run)[:ID_DIGITS] or None,
            settings=settings,
        )
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def write(self, event: str, step: int, fields: Mapping[str, Any]) -> None:
        """Write every number in a line of the history."""
        self._run.log({"step": step, **dict(numbers_of(fields, event))})

    def close(self) -> None:
        """Finish the folder."""
        self._run.finish()


def numbers_of(fields: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Yield every number in nested fields with its path.

    >>> list(numbers_of({"losses": {"dcl": 0.5}, "best": True}, "step"))
    [('step/losses/dcl', 0.5), ('step/best', 1.0)]
    """
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{prefix}/{key}")
        elif isinstance(value, int | float):
            yield f"{prefix}/{key}", float(value)
