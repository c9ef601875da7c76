"""Losses of one step: embed a batch, choose the objective, sum the terms of both branches. CODER eq. 8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from torch import Tensor

from coder_core.config.schema import Config
from coder_core.data.batches import Batch
from coder_core.model.coder import Coder, Embedded
from coder_core.objectives.batch_weights import batch_weights
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, Lengths, batch_scores, gather_anchors, mean_vectors
from coder_core.training.gradient_caching import encode_in_pieces
from coder_core.training.losses import Losses, instance_dcl, plain_losses
from coder_core.training.parts.part import LossInputs, Part, Step

Embed = Callable[..., Embedded]


def compute_losses(
    model: Coder,
    batch: Batch,
    config: Config,
    parts: Sequence[Part] = (),
    *,
    epoch: float,
    embed: Embed | None = None,
    autocast: AbstractContextManager[None] | None = None,
) -> Losses:
    """Compute the losses of a batch: the instance branch's first, then those of every part, in order.

    Args:
        parts: optional parts of the step.
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
    inputs = LossInputs(
        **{name: value for part in parts for name, value in part.loss_inputs(model, batch).items()}
    )
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
    """Compute the configured objective for the pairs under one branch.

    Args:
        pairs: the batch under that branch.
        inputs: from the parts.
        weights: (B,) of this process's pairs, or None.
        is_target: False for another branch, which has no bank and does not train the scale of the logits.
    """
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
    single = mean_vectors(anchors)
    weights = batch_weights(
        config.weighting.sample_weights,
        scores,
        single.all_images.detach(),
        single.all_texts.detach(),
        ids[:, None] != ids[None, :],
        scale=config.weighting.weight_scale * len(ids),
    )
    return weights[anchors.offset : anchors.offset + len(anchors.image_ids)]
