"""Losses without diversity: triplet, n-pairs, InfoNCE, sigmoid, CMPM, polynomial."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.config.schema import ObjectiveConfig
from coder_core.objectives.cmpm import projection_matching
from coder_core.objectives.info_nce import info_nce
from coder_core.objectives.npairs import npairs_hinge
from coder_core.objectives.polynomial import polynomial_hardest
from coder_core.objectives.sigmoid import pairwise_sigmoid
from coder_core.objectives.triplet import triplet_hardest, triplet_sum
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, batch_directions
from coder_core.training.losses import Losses


class Scale(NamedTuple):
    """What the cosines of a loss become before its softmax or sigmoid: scale · S + bias."""

    scale: Tensor
    """() above 0."""
    bias: Tensor | None = None
    """()."""

    def detached(self) -> Scale:
        """The same values without gradient."""
        return Scale(self.scale.detach(), None if self.bias is None else self.bias.detach())


def plain_loss(objective: ObjectiveConfig, epoch: float, scale: Scale | None = None) -> Callable[..., Tensor]:
    """The loss that a configuration names, ready to be called with a direction.

    Args:
        objective: names the loss and its values.
        epoch: epochs done, with fraction; btr-hardest sums at first.
        scale: takes the place of the temperature; None for a temperature that is not learned.
    """
    hardest = triplet_sum if epoch < objective.warmup_epochs else triplet_hardest
    temperature: float | Tensor = objective.temperature if scale is None else 1 / scale.scale
    bias: float | Tensor = objective.logit_bias if scale is None or scale.bias is None else scale.bias
    losses: dict[str, Callable[..., Tensor]] = {
        "infonce": partial(info_nce, temperature=temperature),
        "sigmoid": partial(pairwise_sigmoid, scale=1 / temperature, bias=bias),
        "cmpm": partial(projection_matching, temperature=temperature),
        "polynomial": partial(polynomial_hardest, margin=objective.margin),
        "npairs-hinge": partial(npairs_hinge, margin=objective.npairs_margin),
        "btr-sum": partial(triplet_sum, margin=objective.margin),
        "btr-hardest": partial(hardest, margin=objective.margin),
    }
    return losses[objective.loss]


def plain_losses(
    anchors: Anchors,
    objective: ObjectiveConfig,
    epoch: float,
    weights: Tensor | None = None,
    scale: Scale | None = None,
) -> Losses:
    """Any loss but DCL, both directions.

    Args:
        anchors: the instance branch's pairs.
        objective: names the loss and its values.
        epoch: see `plain_loss`.
        weights: (B,) of this process's pairs, or None; they multiply a pair's loss in both directions.
        scale: see `plain_loss`.
    """
    loss = plain_loss(objective, epoch, scale)
    ways = batch_directions(anchors, keep_same_image=objective.same_image_negatives)
    per_pair = torch.stack([loss(*direction) for direction in ways]).sum(0)
    parts: dict[str, Tensor] = {objective.loss: per_pair.mean().detach()}
    if weights is not None:
        per_pair = per_pair * weights
    # Triplet losses are summed over the batch (vsepp); with the clipped gradient this decides how they train.
    summed = objective.loss.startswith("btr-")
    total = per_pair.sum() * parallel.world_size() if summed else per_pair.mean()
    return Losses(total * objective.weight_instance, per_pair.detach(), parts)
