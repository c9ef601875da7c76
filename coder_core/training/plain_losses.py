"""The losses that know nothing of diversity, in the batch: triplet, n-pairs, InfoNCE, CMPM, polynomial."""

from __future__ import annotations

import torch
from torch import Tensor

from coder_core.config.schema import ObjectiveConfig
from coder_core.objectives.cmpm import projection_matching
from coder_core.objectives.info_nce import info_nce
from coder_core.objectives.npairs import npairs_hinge
from coder_core.objectives.pairs import Direction, in_batch_direction
from coder_core.objectives.polynomial import polynomial_hardest
from coder_core.objectives.triplet import triplet_hardest, triplet_sum
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, batch_scores
from coder_core.training.losses import Losses


def plain_losses(anchors: Anchors, objective: ObjectiveConfig, epoch: float, weights: Tensor | None = None) -> Losses:
    """Any loss but DCL, both directions.

    Args:
        anchors: the instance branch's pairs.
        objective: names the loss and its values.
        epoch: epochs done, with fraction; btr-hardest sums at first.
        weights: (B,) of this process's pairs, or None; they multiply a pair's loss in both directions.
    """

    def loss(direction: Direction) -> Tensor:
        if objective.loss == "infonce":
            return info_nce(*direction, temperature=objective.temperature)
        if objective.loss == "cmpm":
            return projection_matching(*direction, temperature=objective.temperature)
        if objective.loss == "polynomial":
            return polynomial_hardest(*direction, margin=objective.margin)
        if objective.loss == "npairs-hinge":
            return npairs_hinge(*direction, margin=objective.npairs_margin)
        if objective.loss == "btr-sum" or epoch < objective.warmup_epochs:
            return triplet_sum(*direction, margin=objective.margin)
        return triplet_hardest(*direction, margin=objective.margin)

    per_pair = torch.stack(
        [
            loss(
                in_batch_direction(
                    scores,
                    anchors.image_ids,
                    anchors.all_image_ids,
                    keep_same_image=objective.same_image_negatives,
                    positive_offset=anchors.offset,
                )
            )
            for scores in batch_scores(anchors)
        ]
    ).sum(0)
    parts: dict[str, Tensor] = {objective.loss: per_pair.mean().detach()}
    if weights is not None:
        per_pair = per_pair * weights
    # Triplet losses are summed over the batch (vsepp); with the clipped gradient this decides how they train.
    summed = objective.loss.startswith("btr-")
    total = per_pair.sum() * parallel.world_size() if summed else per_pair.mean()
    return Losses(total * objective.weight_instance, parts, per_pair.detach())
