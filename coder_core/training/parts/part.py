"""Interface of the optional parts of a training step. Step, trainer and state know no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.model.encode import SplitEmbeddings
from coder_core.training.gathering import Anchors, Keys
from coder_core.training.losses import Losses, Scale


@dataclass(frozen=True)
class LossInputs:
    """Inputs of the instance branch's loss from the parts; None where no part provides one."""

    keys: Keys | None = None  # momentum keys of this process's pairs, with the bank of earlier ones
    neighbour_weights: Tensor | None = None  # (B,) of complementary samples, of this process's pairs
    review_weights: Tensor | None = None  # (B,) by people's verdicts, of this process's pairs
    scale: Scale | None = None  # learned scale of the logits


@dataclass(frozen=True)
class Step:
    """A step after the instance branch's loss."""

    config: Config  # of the run
    batch: Batch  # this process's pairs
    epoch: float  # epochs done, with fraction
    embedded: Embedded  # the batch under the model
    anchors: Anchors  # the instance branch's pairs beside those of all processes
    autocast: AbstractContextManager[None]  # precision of the passes with gradients
    # Pairs under another branch → its losses by the configured objective.
    branch_losses: Callable[[Anchors], Losses]


@dataclass(frozen=True)
class EpochEnd:
    """Values for the parts between two epochs."""

    epoch: int  # epochs done
    last: bool  # no epoch follows
    embed_train: Callable[[], SplitEmbeddings]  # embeds the train split with the present model


class Part(nn.Module):
    """An optional part of a training step. A method that a part does not override does nothing.

    In a step: `loss_inputs` before the loss, `add_losses`, the backward pass, the optimizer, `after_step`. A part
    changes its state only in `after_step`, which a failed step never reaches; momentum encoders move in `loss_inputs`.

    Attributes:
        state_file: stem of its tensors in a training state; None without any.
    """

    state_file: str | None = None

    def begin_epoch(self, epoch: int) -> None:
        """Prepare the epoch, counted from 0, before its first step."""

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return fields of `LossInputs` for this process's pairs; `model` is the one that trains, not wrapped."""
        return {}

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Return the losses with this part's terms."""
        return losses

    def after_step(self, model: Coder, step: int) -> None:
        """Update the part's state; the optimizer has changed `model` in step `step`, counted from 0."""

    def end_epoch(self, end: EpochEnd) -> dict[str, Any]:
        """Return fields of the epoch's line in the history; called on every process."""
        return {}

    def joint_parameters(self) -> dict[str, nn.Parameter]:
        """Return trained parameters whose gradient is clipped together with the model's."""
        return {}

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return groups of trained parameters, each clipped by its own norm."""
        return []

    def report(self) -> dict[str, Any]:
        """Return fields of a step's line in the history."""
        return {}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return texts for the terminal from the fields that `report` or `end_epoch` returned."""
        return []

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Return files to keep beside the best model: stem → tensors."""
        return {}
