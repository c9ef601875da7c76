"""Write the numbers of a run's history as TensorBoard events too, in the run's folder `tensorboard/`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coder_core.console.faults import Fault, InputError

FOLDER = "tensorboard"


class EventWriter:
    """Scalars of the history's lines, named `step/losses/dcl`, `epoch/metrics/rsum`, …; the x-axis is the step.

    Args:
        run: the run folder.
        resume_step: training goes on after this step; TensorBoard leaves out what was written of later ones.

    Raises:
        InputError: tensorboard is not installed.
    """

    def __init__(self, run: Path, *, resume_step: int) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError(
                Fault("--tensorboard", "needs a package", fix="pip install tensorboard")
            ) from error
        # Flushed with every line: what a killed run has written is there.
        self._writer = SummaryWriter(str(run / FOLDER), purge_step=resume_step + 1 if resume_step else None)

    def write(self, event: str, step: int, fields: Mapping[str, Any]) -> None:
        """Write every number of a line of the history."""
        for name, value in _numbers(fields, event):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


def _numbers(fields: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in fields.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}/{key}")
        elif isinstance(value, int | float):
            yield f"{prefix}/{key}", float(value)
