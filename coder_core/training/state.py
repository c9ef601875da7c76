"""The training state: capture it into a save, restore it exactly, and keep a run's saves.

A run that is stopped and continued equals one that was never stopped, bit for bit. The random numbers of a step follow
from the seed and the step's number, and the learning rate is a function of the step, so neither is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.console.documents import NUMBER, check_values, trusting
from coder_core.console.faults import Fault, InputError
from coder_core.model.coder import Coder
from coder_core.model.products import product_library
from coder_core.ops.shapes import shapes_only
from coder_core.runs.load import load_weights
from coder_core.runs.saves import Save, SaveStore
from coder_core.training import parallel
from coder_core.training.device import no_grad_precision
from coder_core.training.optim import load_optimizer, optimizer_tensors
from coder_core.training.parts.part import Part
from coder_core.training.stopping import check_state

STATES_KEPT = 2
ENVIRONMENT_FILE = "circumstances"  # of a save
ENVIRONMENT = {
    "torch": "torch version",
    "threads": "CPU threads",
    "device": "device",
    "processes": "processes",
    "products": "library of matrix products",
    "twin": "precision of the passes without gradients",
    "pieces": "pairs in a piece",
}
DROPOUT = 2  # stream of random numbers that the dropout of a step draws from (see data/batches.py)


@dataclass
class Position:
    """How far a run is.

    Args:
        step: steps done.
        evaluated: epochs evaluated and recorded.
        best: highest R@sum on dev; None before the first.
        best_step: where it was reached.
        without_gain: evaluations since.
        reductions: how often the plateau schedule has divided the rate.
        seconds: of training so far.
        loss_sum: of the steps of the epoch under way.
    """

    step: int = 0
    evaluated: int = 0
    best: float | None = None
    best_step: int = 0
    without_gain: int = 0
    reductions: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0


POSITION: dict[str, type | tuple[type, ...]] = {
    "step": int,
    "evaluated": int,
    "best_step": int,
    "without_gain": int,
    "reductions": int,
    "seconds": NUMBER,
    "best": (*NUMBER, type(None)),
}


def environment(config: Config, device: torch.device) -> dict[str, Any]:
    """What may change the last bits of a run when it changes, as it is in this process; keys of `ENVIRONMENT`."""
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": str(device),
        "processes": parallel.world_size(),
        "products": product_library(),
        "twin": no_grad_precision(config.training, device),
        "pieces": config.training.piece_size,
    }


def environment_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Fault]:
    """Warnings for everything that differs from the process that wrote a state."""
    fix = "the run goes on, but its last bits will differ from a run that was never stopped"
    return [
        Fault(f"resume, {text}", f"is {now[key]}, was {before[key]}", fix=fix, severity="warning")
        for key, text in ENVIRONMENT.items()
        if key in before and before[key] != now[key]
    ]


@dataclass
class TrainingState:
    """Everything that changes from step to step.

    Args:
        model: that trains.
        optimizer: of the model's parameters and the parts'.
        parts: optional parts of the step.
        position: how far the run is.
    """

    model: Coder
    optimizer: torch.optim.Optimizer
    parts: Sequence[Part] = ()
    position: Position = field(default_factory=Position)

    def capture(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Tensors and documents of a save."""
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer_tensors(self.optimizer)}
        tensors |= {part.state_file: part.state_dict() for part in self.parts if part.state_file is not None}
        return tensors, {"position": asdict(self.position)}

    def restore(self, save: Save) -> None:
        """Take over what a save holds.

        Raises:
            InputError: names or shapes differ, or the save lacks what the configuration asks for.
        """
        modules = {"model": self.model} | {
            part.state_file: part for part in self.parts if part.state_file is not None
        }
        for stem, module in modules.items():
            load_weights(module, save.tensors(stem), str(save.path / f"{stem}.safetensors"))
        load_optimizer(self.optimizer, save)
        place = str(save.path / "position.json")
        document = save.document("position")
        check_values(document, POSITION, place, least=0)
        with trusting(place):
            self.position = Position(**document)


def check_parts(config: Config, save: Save, build: Callable[..., Coder]) -> None:
    """Compare the bank, the prototypes and the branches of a configuration with a state's, before memory is taken.

    Args:
        config: of the run. save: its state.
        build: the run's model, from `check_size`; without concepts it is a branch.

    Raises:
        InputError: the state holds fewer.
    """
    memory, width, boosting = config.memory, config.model.dimension, config.boosting
    parts = [("memory", memory.bank_size, width, "rows"), ("prototypes", memory.prototypes, width, "rows")]
    if boosting.boosting != "none" and boosting.boosting_scenario == "online":
        with shapes_only():
            numbers = sum(weights.numel() for weights in build(concepts=None).state_dict().values())
        parts.append(("anchor", boosting.boosting_branches - 1, numbers, "branches"))
    for stem, count, size, what in parts:
        stored = save.manifest["files"].get(f"{stem}.safetensors", {"bytes": 0})["bytes"]
        needed = 4 * count * size
        if needed > stored:
            expected = f"at least {needed:,} for {count:,} {what} of {size:,} numbers"
            raise InputError(Fault(str(save.path / f"{stem}.safetensors"), f"has {stored:,} bytes", expected))


class Checkpoints:
    """The saves of a run: its newest training states and its best model.

    Args:
        folder: of the run.
        environment: of this process.
    """

    def __init__(self, folder: Path, environment: Mapping[str, Any]) -> None:
        self.environment = environment
        self.states = SaveStore(folder / "state", keep=STATES_KEPT)
        self.best = SaveStore(folder / "best", keep=1)
        self.saved_at = time.monotonic()

    def tidy(self) -> None:
        """Delete what a killed writer left."""
        self.states.tidy()
        self.best.tidy()

    def resume(self, state: TrainingState) -> list[Fault]:
        """Restore the newest state that verifies, if there is any. Returns warnings."""
        save = self.states.newest()
        if save is None:
            return []
        state.restore(save)
        damaged = [
            replace(fault, place=f"passed over a damaged save: {fault.place}") for fault in save.skipped
        ]
        before = save.document(ENVIRONMENT_FILE)
        check_values(before, {}, str(save.path / f"{ENVIRONMENT_FILE}.json"))
        return damaged + environment_changes(before, self.environment)

    def save(self, state: TrainingState) -> None:
        """Save a state, unless it holds NaN or Inf."""
        tensors, documents = state.capture()
        check_state(tensors, state.position.step)
        documents[ENVIRONMENT_FILE] = dict(self.environment)
        self.states.write(str(state.position.step), tensors, documents)
        self.saved_at = time.monotonic()

    def save_best(self, state: TrainingState, epoch: int, metrics: dict[str, float] | None) -> None:
        """Keep this model as the best one, with what the parts export."""
        tensors = {"model": state.model.state_dict()}
        for part in state.parts:
            tensors |= part.exports()
        about = {"step": state.position.step, "epoch": epoch, "metrics": metrics}
        self.best.write(str(state.position.step), tensors, {"metrics": about})


def seed_step(seed: int, step: int, process: int) -> None:
    """Set every random number torch draws in a step (dropout)."""
    state = np.random.SeedSequence((seed, DROPOUT, step, process)).generate_state(1, np.uint64)[0]
    torch.manual_seed(int(state) % 2**63)
