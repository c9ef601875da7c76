"""One training step: embed a batch, sum the losses of both branches and of the optional parts. CODER eq. 8.

`Part` is the interface through which step, trainer and state use the optional parts.
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
    """Inputs of the instance branch's loss from the parts; None if no part provides one. B: this process's pairs."""

    keys: Keys | None = None  # momentum keys of this process's pairs, with the bank of earlier ones
    neighbour_weights: Tensor | None = None  # (B,) weights by neighbourhood (complementary samples)
    review_weights: Tensor | None = None  # (B,) weights from reviewers' verdicts
    scale: Scale | None = None  # learned scale of the logits


@dataclass(frozen=True)
class Step:
    """Data of a step, once the instance branch's loss is computed."""

    config: Config
    batch: Batch  # this process's pairs
    epoch: float  # epochs completed, fractional
    embedded: Embedded  # the batch, embedded by the model
    anchors: Anchors  # the instance branch's pairs, with those of all processes as candidates
    autocast: AbstractContextManager[None]  # precision of the forward passes with gradients
    branch_losses: Callable[[Anchors], Losses]  # configured objective, for another branch's pairs


@dataclass(frozen=True)
class EpochEnd:
    """Values for the parts at the end of an epoch."""

    epoch: int  # epochs completed
    last: bool  # True if no epoch follows
    embed_train: Callable[[], SplitEmbeddings]  # embeds the train split with the current model


class Part(nn.Module):
    """An optional part of a training step. A method that a part does not override does nothing.

    In a step: `loss_inputs`, the loss, `add_losses`, backward pass, optimizer, `after_step`. A part changes its state
    only in `after_step`, which a failed step never reaches; only momentum encoders change in `loss_inputs`."""

    # stem of the file with its tensors in a training state; None if it saves none
    state_file: str | None = None

    def begin_epoch(self, epoch: int) -> None:
        """Prepare for an epoch, counted from 0, before its first step."""

    def loss_inputs(self, model: Coder, batch: Batch) -> dict[str, Any]:
        """Return fields of `LossInputs` for this process's pairs; `model` is the model in training, unwrapped."""
        return {}

    def add_losses(self, losses: Losses, step: Step) -> Losses:
        """Return the losses with this part's terms."""
        return losses

    def after_step(self, model: Coder, step: int) -> None:
        """Update the part's state after the optimizer has updated `model` in step `step`, counted from 0."""

    def end_epoch(self, end: EpochEnd) -> dict[str, Any]:
        """Return fields of the epoch's line in the history; called on every process."""
        return {}

    def joint_parameters(self) -> dict[str, nn.Parameter]:
        """Return trained parameters whose gradient is clipped together with the model's."""
        return {}

    def separate_parameters(self) -> list[dict[str, nn.Parameter]]:
        """Return groups of trained parameters; the gradient of each group is clipped separately."""
        return []

    def report(self) -> dict[str, Any]:
        """Return fields of a step's line in the history."""
        return {}

    def facts(self, fields: Mapping[str, Any]) -> list[str]:
        """Return the fields of `report` or `end_epoch` as text for the terminal."""
        return []

    def exports(self) -> dict[str, dict[str, Tensor]]:
        """Return the files to save with the best model: stem → tensors."""
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
    """Compute the losses of a batch: first the instance branch's, then those of every part, in order.

    Args:
        epoch: epochs completed, fractional.
        embed: forward pass of the wrapped model (pieces, several processes, compiled); None uses `model` itself.
        autocast: context of every forward pass with gradients; None uses float32.
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
    """Compute the configured objective for pairs encoded by one branch; `weights`: (B,) of this process's pairs.
    Branches other than the target have no bank and do not train the scale of the logits."""
    if config.objective.loss in ("dcl", "dcl-i"):
        return instance_dcl(pairs, inputs.keys if is_target else None, config, epoch, weights)
    scale = inputs.scale
    if scale is not None and not is_target:
        scale = scale.detached()
    return plain_losses(pairs, config.objective, epoch, weights, scale)


def pair_weights(anchors: Anchors, config: Config, inputs: LossInputs) -> Tensor | None:
    """Return (B,) weights of this process's pairs, without gradient; None if all are equal.

    A weight multiplies its pair's loss in the instance branch, in the batch and against the banks, in both directions.
    Boosting, the concept branch and the prototypes use no sample weights, as in the papers.

    With the n-pairs hinge the weights of a batch sum to λ (eq. 1). With any other loss they are divided by λ and
    multiplied by the batch size, so their mean is 1, the loss keeps its scale, and λ only sets the spread.
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
    """Return (B,) weights by HAL, MITHUN or AMRANI, computed over the pairs of all processes as one batch."""
    scores = parallel.gather_rows(batch_scores(anchors)[0].detach())
    ids = anchors.all_image_ids
    single = mean_vectors(anchors)
    weighting = config.weighting
    samples = single.all_images.detach(), single.all_texts.detach()
    negatives = ids[:, None] != ids[None, :]
    scale = weighting.weight_scale * len(ids)
    weights = batch_weights(weighting.sample_weights, scores, *samples, negatives, scale=scale)
    return weights[anchors.offset : anchors.offset + len(anchors.image_ids)]
