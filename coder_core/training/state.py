"""Training state: capture it in a save, restore it exactly, manage a run's saves.

A continued run equals an uninterrupted one bit for bit. Neither the random state nor the learning rate is stored, since
the seed, the configuration and the position determine them for every step.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import LARGEST, NUMBER, check_values, trusting
from coder_core.model.coder import Coder
from coder_core.model.device import no_grad_precision, product_library
from coder_core.ops import parallel
from coder_core.ops.shapes import shapes_only
from coder_core.runs.load import load_weights
from coder_core.runs.saves import Save, SaveStore
from coder_core.training.comparison import Comparison
from coder_core.training.optim import load_optimizer, optimizer_tensors
from coder_core.training.step import SAMPLES_NAMED, NotFiniteError, Part

STATES_KEPT = 2
COMPARISON = "comparison"  # stem of the file with the ranks of earlier evaluations
ENVIRONMENT_FILE = "circumstances"  # document in a save
ENVIRONMENT = {  # key in that document → its name in a warning
    "torch": "torch version",
    "threads": "CPU threads",
    "device": "device",
    "processes": "processes",
    "products": "matrix product library",
    "twin": "precision of the passes without gradients",
    "pieces": "pairs per piece",
}


@dataclass
class Position:
    """Progress of a run."""

    step: int = 0  # steps done
    evaluated: int = 0  # epochs evaluated and recorded
    best: float | None = None  # highest R@sum on dev, or on half of it (`choose_on`)
    best_step: int = 0  # step of that R@sum
    without_gain: int = 0  # evaluations since then
    reductions: int = 0  # drops of the learning rate by the plateau schedule
    seconds: float = 0.0  # training time, without evaluations and saves
    loss_sum: float = 0.0  # over the steps of the current epoch


COUNTERS = ("step", "evaluated", "best_step", "without_gain", "reductions")
POSITION: dict[str, type | tuple[type, ...]] = dict.fromkeys(COUNTERS, int)
POSITION |= {"seconds": NUMBER, "best": (*NUMBER, type(None))}


def environment(config: Config, device: torch.device) -> dict[str, Any]:
    """Return the properties of this process that can change the last bits of a run, under the keys of `ENVIRONMENT`."""
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
    """Return a warning for every property that differs from the process that wrote a state."""
    fix = "the run continues, but its numbers will differ in the last digits from an uninterrupted run's"
    return [
        Fault(f"resume, {text}", f"is {now[key]}, was {before[key]}", fix=fix, severity="warning")
        for key, text in ENVIRONMENT.items()
        if key in before and before[key] != now[key]
    ]


@dataclass
class TrainingState:
    """The state of training that changes from step to step: the model, its optimizer, the parts, the position, and what
    evaluations are compared with (None without a dev split)."""

    model: Coder
    optimizer: torch.optim.Optimizer
    parts: Sequence[Part] = ()
    position: Position = field(default_factory=Position)
    comparison: Comparison | None = None

    def capture(self) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
        """Return the tensors and documents of a save."""
        tensors = {"model": self.model.state_dict(), "optimizer": optimizer_tensors(self.optimizer)}
        tensors |= {part.state_file: part.state_dict() for part in self.parts if part.state_file is not None}
        if self.comparison is not None and (ranks := self.comparison.tensors()):
            tensors[COMPARISON] = ranks
        return tensors, {"position": asdict(self.position)}

    def restore(self, save: Save) -> None:
        """Restore a save. InputError: names or shapes differ, or the save lacks a part of the configuration."""
        of_parts = ((part.state_file, part) for part in self.parts if part.state_file is not None)
        for stem, module in (("model", self.model), *of_parts):
            load_weights(module, save.tensors(stem), str(save.path / f"{stem}.safetensors"))
        load_optimizer(self.optimizer, save)
        if self.comparison is not None and f"{COMPARISON}.safetensors" in save.manifest["files"]:
            place = str(save.path / f"{COMPARISON}.safetensors")
            self.comparison.load(save.tensors(COMPARISON), place)
        file = str(save.path / "position.json")
        document = save.document("position")
        check_values(document, POSITION, file, least=0)
        check_values(document, {"loss_sum": NUMBER}, file, least=-LARGEST)
        with trusting(file):
            self.position = Position(**document)


def check_parts(config: Config, save: Save, build_branch: Callable[[], Coder]) -> None:
    """Check that a state is large enough for the configured bank, prototypes and branches, before allocating memory.

    `build_branch` builds an online branch. InputError: the state is too small.
    """
    memory = config.memory
    width = config.model.dimension
    parts = [("memory", memory.bank_size, width, "rows"), ("prototypes", memory.prototypes, width, "rows")]
    if config.boosting.online:
        with shapes_only():
            numbers = sum(weights.numel() for weights in build_branch().state_dict().values())
        parts.append(("anchor", config.boosting.boosting_branches - 1, numbers, "branches"))
    for stem, count, size, unit in parts:
        stored = save.manifest["files"].get(f"{stem}.safetensors", {"bytes": 0})["bytes"]
        needed = 4 * count * size
        if needed > stored:
            expected = f"at least {needed:,} for {count:,} {unit} of {size:,} numbers"
            raise InputError(Fault(str(save.path / f"{stem}.safetensors"), f"has {stored:,} bytes", expected))


class Checkpoints:
    """Saves of a run: its newest training states and its best model."""

    def __init__(self, folder: Path, environment: Mapping[str, Any]) -> None:
        self.environment = environment
        self.states = SaveStore(folder / "state", keep=STATES_KEPT)
        self.best = SaveStore(folder / "best", keep=1)
        self.saved_at = time.monotonic()

    def resume(self, state: TrainingState) -> list[Fault]:
        """Restore the newest intact state, if any; return warnings."""
        save = self.states.newest()
        if save is None:
            return []
        state.restore(save)
        damaged = [replace(fault, place=f"skipped a damaged save: {fault.place}") for fault in save.skipped]
        before = save.document(ENVIRONMENT_FILE)
        check_values(before, {}, str(save.path / f"{ENVIRONMENT_FILE}.json"))
        return damaged + environment_changes(before, self.environment)

    def save(self, state: TrainingState) -> None:
        """Save a state. NotFiniteError: it contains NaN or Inf."""
        tensors, documents = state.capture()
        check_state(tensors, state.position.step)
        documents[ENVIRONMENT_FILE] = dict(self.environment)
        self.states.write(str(state.position.step), tensors, documents)
        self.saved_at = time.monotonic()

    def save_best(self, state: TrainingState, epoch: int, metrics: dict[str, float] | None) -> None:
        """Save the current model as the best one, with the exports of the parts."""
        tensors = {"model": state.model.state_dict()}
        for part in state.parts:
            tensors |= part.exports()
        step = state.position.step
        self.best.write(str(step), tensors, {"metrics": {"step": step, "epoch": epoch, "metrics": metrics}})


def check_state(tensors: Mapping[str, Mapping[str, Tensor]], step: int) -> None:
    """Raise NotFiniteError, naming the tensors, if a state to be saved contains NaN or Inf; without this check, only
    the next step's loss would reveal it. `tensors`: file stem → name → tensor."""
    every = {f"{stem} {name}": tensor for stem, named in tensors.items() for name, tensor in named.items()}
    decimals = {name: tensor for name, tensor in every.items() if tensor.is_floating_point()}
    bad = [name for name, tensor in decimals.items() if not bool(tensor.isfinite().all())]
    if bad:
        message = f"{', '.join(bad[:SAMPLES_NAMED])} would be saved with values that are not finite"
        raise NotFiniteError.in_step(step, message, "weights, moments and keys", "lower --learning-rate")
