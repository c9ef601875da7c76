"""The training state: captured into a save, given back from one. Exact: continued equals never stopped.

What is random about a step follows from the seed and the step's number, and the learning rate is a function of the
step, so neither random states nor a schedule have to be stored.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.cpu.products import DEFAULT_PRODUCTS
from coder_core.model.coder import Coder
from coder_core.runs.files.saves import PROTOTYPES, Save
from coder_core.runs.load import load_weights
from coder_core.training.optim import load_optimizer, optimizer_tensors
from coder_core.training.parts.boosting import Boosting
from coder_core.training.parts.memory import Memory
from coder_core.training.parts.neighbourhoods import Neighbourhoods
from coder_core.training.parts.prototypes import PrototypeGuide

DROPOUT = 2  # the stream of random numbers of a step that dropout draws from (see data/batches.py)


@dataclass
class Position:
    """How far a run is.

    Args:
        step: steps done.
        evaluated: epochs evaluated and recorded.
        best: highest R@sum on dev; None before the first.
        best_step: where it was reached.
        without_gain: evaluations since.
        seconds: of training so far.
        loss_sum: of the steps of the epoch under way.
    """

    step: int = 0
    evaluated: int = 0
    best: float | None = None
    best_step: int = 0
    without_gain: int = 0
    seconds: float = 0.0
    loss_sum: float = 0.0


@dataclass(frozen=True)
class Circumstances:
    """What may change the last bits of a run when it changes."""

    torch: str
    threads: int
    device: str
    processes: int
    products: str = DEFAULT_PRODUCTS
    twin: str = "float32"


def seed_step(seed: int, step: int, process: int) -> None:
    """Set every random number torch draws in a step (dropout)."""
    drawn = np.random.SeedSequence((seed, DROPOUT, step, process)).generate_state(1, np.uint64)[0]
    torch.manual_seed(int(drawn) % 2**63)


def capture(
    model: Coder,
    optimizer: torch.optim.Optimizer,
    memory: Memory | None,
    position: Position,
    around: Circumstances,
    guide: PrototypeGuide | None = None,
    boosting: Boosting | None = None,
    neighbourhoods: Neighbourhoods | None = None,
) -> tuple[dict[str, dict[str, Tensor]], dict[str, Any]]:
    """Tensors and documents of a save."""
    tensors = {"model": model.state_dict(), "optimizer": optimizer_tensors(optimizer)}
    if memory is not None:
        tensors["memory"] = memory.state_dict()
    if guide is not None:
        tensors[PROTOTYPES] = guide.state_dict()
    if boosting is not None and boosting.moves:
        tensors["anchor"] = boosting.state_dict()
    if neighbourhoods is not None:
        tensors["neighbourhoods"] = neighbourhoods.state_dict()
    documents = {"position": asdict(position), "circumstances": asdict(around)}
    return tensors, documents


def restore(
    save: Save,
    model: Coder,
    optimizer: torch.optim.Optimizer,
    memory: Memory | None,
    guide: PrototypeGuide | None = None,
    boosting: Boosting | None = None,
    neighbourhoods: Neighbourhoods | None = None,
) -> tuple[Position, Circumstances]:
    """Give model, optimizer, memory, prototypes, other branches and cached embeddings their state back.

    Raises:
        InputError: names or shapes differ, or the save lacks what the configuration asks for.
    """
    load_weights(model, save.tensors("model"), str(save.path / "model.safetensors"))
    if memory is not None:
        load_weights(memory, save.tensors("memory"), str(save.path / "memory.safetensors"))
    if guide is not None:
        load_weights(guide, save.tensors(PROTOTYPES), str(save.path / f"{PROTOTYPES}.safetensors"))
    if boosting is not None and boosting.moves:
        load_weights(boosting, save.tensors("anchor"), str(save.path / "anchor.safetensors"))
    if neighbourhoods is not None:
        place = str(save.path / "neighbourhoods.safetensors")
        load_weights(neighbourhoods, save.tensors("neighbourhoods"), place)
    load_optimizer(optimizer, save)
    try:
        return Position(**save.document("position")), Circumstances(**save.document("circumstances"))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(Fault(str(save.path), f"is not a state of this configuration: {error}")) from error


def changed_circumstances(before: Circumstances, now: Circumstances) -> list[Fault]:
    """Warnings for everything that differs from the process that wrote the state."""
    names = {"torch": "torch version", "threads": "CPU threads", "device": "device", "processes": "processes"}
    names |= {"products": "library of matrix products", "twin": "precision of the passes without gradients"}
    return [
        Fault(
            f"resume, {text}",
            f"is {getattr(now, key)}, was {getattr(before, key)}",
            fix="the run goes on, but its last bits will differ from a run that was never stopped",
            severity="warning",
        )
        for key, text in names.items()
        if getattr(before, key) != getattr(now, key)
    ]
