"""One training step: embed a batch, sum the losses of both branches and of the optional parts. CODER eq. 8.

`Part` is the interface of the optional parts; step, trainer and state know no other.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.model.encode import SplitEmbeddings
from coder_core.objectives.anchors import Anchors, Keys, Lengths, batch_scores, gather_anchors, mean_vectors
from coder_core.objectives.batch_weights import batch_weights
from coder_core.ops import parallel
from coder_core.training.gradient_caching import encode_in_pieces
from coder_core.training.losses import Losses, Scale, instance_dcl, plain_losses


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

    config: Config
    batch: Batch  # this process's pairs
    epoch: float  # epochs done, with fraction
    embedded: Embedded  # the batch under the model
    anchors: Anchors  # the instance branch's pairs beside those of all processes
    autocast: AbstractContextManager[None]  # precision of the passes with gradients
    branch_losses: Callable[[Anchors], Losses]  # of the configured objective, for pairs under another branch


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


def compute_losses(
    model: Coder,
    batch: Batch,
    config: Config,
    parts: Sequence[Part] = (),
    *,
    epoch: float,
    embed: Callable[..., Embedded] | None = None,
    autocast: AbstractContextManager[None] | None = None,
) -> Losses:
    """Compute the losses of a batch: the instance branch's first, then those of every part, in order.

    Args:
        embed: the model as it trains (in pieces, in several processes, compiled); None uses the bare model.
        autocast: for every forward pass with gradients; None uses float32.
    """
    autocast = autocast or nullcontext()
    if embed is None:
        embed = partial(encode_in_pieces, model, config.training.piece_size)
    with autocast:
        embedded = embed(batch.regions, batch.region_lengths, batch.words, batch.word_lengths)
    lengths = Lengths(batch.region_lengths, batch.word_lengths)
    anchors = gather_anchors(embedded.images, embedded.texts, batch.image_groups, model.scorer, lengths)
    values = {name: value for part in parts for name, value in part.loss_inputs(model, batch).items()}
    inputs = LossInputs(**values)
    weights = pair_weights(anchors, config, inputs)
    instance_losses = partial(branch_losses, config=config, epoch=epoch, inputs=inputs, weights=weights)
    losses = instance_losses(anchors)
    step = Step(config, batch, epoch, embedded, anchors, autocast, partial(instance_losses, is_target=False))
    for part in parts:
        losses = part.add_losses(losses, step)
    return losses


def branch_losses(
    pairs: Anchors,
    *,
    config: Config,
    epoch: float,
    inputs: LossInputs,
    weights: Tensor | None,
    is_target: bool = True,
) -> Losses:
    """Compute the configured objective for the pairs under one branch; (B,) `weights` of this process's pairs. A branch
    that is not the target has no bank and does not train the scale of the logits."""
    if config.objective.loss in ("dcl", "dcl-i"):
        return instance_dcl(pairs, inputs.keys if is_target else None, config, epoch, weights)
    scale = inputs.scale
    if scale is not None and not is_target:
        scale = scale.detached()
    return plain_losses(pairs, config.objective, epoch, weights, scale)


def pair_weights(anchors: Anchors, config: Config, inputs: LossInputs) -> Tensor | None:
    """Return (B,) weights of this process's pairs, without gradient; None if all count alike.

    A weight multiplies its pair's loss of the instance branch, in the batch and against the banks, in both directions.
    Boosting, the concept branch and the prototypes carry no sample weights, as in the papers.

    Under the n-pairs hinge the weights of a batch sum to λ (eq. 1). Under any other loss they are divided by λ and
    multiplied by the batch size: their mean is 1, the loss keeps its size, and λ only sets the spread of the weights.
    """
    review_weights = inputs.review_weights
    if config.weighting.sample_weights == "none":
        return review_weights
    weights = inputs.neighbour_weights
    if weights is None:
        weights = _weights_from_batch(anchors, config)
    if config.objective.loss != "npairs-hinge":
        weights = weights / config.weighting.weight_scale
    return weights if review_weights is None else weights * review_weights


@torch.no_grad()
def _weights_from_batch(anchors: Anchors, config: Config) -> Tensor:
    """(B,) weights by HAL, MITHUN or AMRANI, over the pairs of all processes as one batch."""
    scores, ids = parallel.gather_rows(batch_scores(anchors)[0].detach()), anchors.all_image_ids
    single, weighting = mean_vectors(anchors), config.weighting
    samples = single.all_images.detach(), single.all_texts.detach()
    negatives, scale = ids[:, None] != ids[None, :], weighting.weight_scale * len(ids)
    weights = batch_weights(weighting.sample_weights, scores, *samples, negatives, scale=scale)
    return weights[anchors.offset : anchors.offset + len(anchors.image_ids)]
