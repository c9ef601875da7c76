"""The interface of the optional parts of a training step. Step, trainer and state know no other."""

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
from coder_core.training.dcl_losses import instance_dcl
from coder_core.training.gathering import Anchors, Keys
from coder_core.training.losses import Losses
from coder_core.training.plain_losses import Scale, plain_losses


@dataclass
class StepContext:
    """What the parts of a step read, and what they provide for the loss of the instance branch.

    Args:
        config: of the run.
        model: the model that trains, not wrapped.
        batch: this process's pairs.
        epoch: epochs done, with fraction.
        embedded: the batch under the model.
        anchors: the instance branch's pairs beside those of all processes.
        autocast: precision of the passes with gradients.
        keys: momentum keys, where a part provides them.
        weights: (B,) of this process's pairs; None where all count alike.
        scale: of the logits, where a part learns it.
        review_weights: (B,) of this process's pairs, by what people said of them; None where all count alike.
    """

    config: Config
    model: Coder
    batch: Batch
    epoch: float
    embedded: Embedded
    anchors: Anchors
    autocast: AbstractContextManager[None]
    keys: Keys | None = None
    weights: Tensor | None = None
    scale: Scale | None = None
    review_weights: Tensor | None = None

    def branch_losses(self, pairs: Anchors, keys: Keys | None = None) -> Losses:
        """The weighted losses of the configured objective, of the batch under the model or under another branch."""
        if self.config.objective.loss in ("dcl", "dcl-i"):
            return instance_dcl(pairs, keys, self.config, self.epoch, self.weights)
        scale = self.scale if self.scale is None or pairs is self.anchors else self.scale.detached()
        return plain_losses(pairs, self.config.objective, self.epoch, self.weights, scale)


@dataclass(frozen=True)
class EpochEnd:
    """What a part may need between two epochs.

    Args:
        epoch: epochs done.
        last: no epoch follows.
        embed_train: embeds the train split with the model as it stands.
    """

    epoch: int
    last: bool
    embed_train: Callable[[], SplitEmbeddings]


class Part(nn.Module):
    """An optional part of a training step. Every method does nothing unless a part says otherwise.

    In a step: `prepare` before the loss, `add_losses`, the backward pass, the optimizer, `after_step`. What a part
    keeps of a batch changes in `after_step` alone, which a step that fails never reaches.

    Attributes:
        state_file: stem of its tensors in a training state; None when it has none to save.
    """

    state_file: str | None = None

    def begin_epoch(self, epoch: int) -> None:
        """Called before the first step of an epoch, counted from 0."""

    def prepare(self, step: StepContext) -> None:
        """Called before the loss, in the order of the parts."""

    def add_losses(self, losses: Losses, step: StepContext) -> Losses:
        """The losses with this part's terms."""
        return losses

    def after_step(self, model: Coder, step: int) -> None:
        """Called after the optimizer changed `model` in step `step`, counted from 0."""

    def end_epoch(self, end: EpochEnd) -> dict[str, Any]:
        """Called between epochs on every process. Returns fields of the epoch's line in the history."""
        return {}

    def joint_parameters(self) -> dict[str, nn.Parameter]:
        """Parameters to train whose gradient is clipped together with the model's."""
        return {}

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Groups of parameters to train, each clipped by its own norm."""
        return []

    def report(self) -> dict[str, Any]:
        """Fields of a step's line in the history."""
        return {}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """What the terminal says of the history's fields that `report` or `end_epoch` gave."""
        return []

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Files kept beside the best model: stem -> tensors."""
        return {}
