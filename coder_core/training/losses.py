"""Losses of a branch: CODER's diversity-sensitive losses, in the batch and against the banks (eq. 4-6), and all others
(triplet, n-pairs, InfoNCE, sigmoid, CMPM, polynomial). The pairs of all processes are candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.config.objective import ObjectiveConfig
from coder_core.config.schema import Config
from coder_core.objectives.anchors import Anchors, Keys, batch_directions
from coder_core.objectives.contrastive import info_nce, pairwise_sigmoid, projection_matching
from coder_core.objectives.coupled import DclSettings, batch_dcl, coupled_dcl
from coder_core.objectives.triplet import npairs_hinge, polynomial_hardest, triplet_hardest, triplet_sum
from coder_core.ops import parallel


@dataclass(frozen=True)
class Losses:
    """Total loss of a step and its parts."""

    total: Tensor  # () the loss for the backward pass
    per_pair: Tensor  # (B,) weighted loss of each pair, to name the samples whose loss is not finite
    parts: dict[str, Tensor] = field(default_factory=dict)  # mean of each term over the anchors, unweighted
    diversity: Tensor | None = None  # (2 · B,) of this process's anchors, both modalities

    def plus(self, name: str, per_pair: Tensor, weight: float) -> Losses:
        """Add a term: the mean of its (B,) values `per_pair`, times `weight`."""
        term = Losses(weight * per_pair.mean(), weight * per_pair.detach(), {name: per_pair.mean().detach()})
        return self._add(term, term.parts)

    def plus_branch(self, name: str, other: Losses) -> Losses:
        """Add the losses of another branch; its parts get the prefix `name`."""
        return self._add(other, {f"{name} {part}": value for part, value in other.parts.items()})

    def _add(self, other: Losses, parts: dict[str, Tensor]) -> Losses:
        per_pair = self.per_pair + other.per_pair
        return Losses(self.total + other.total, per_pair, {**self.parts, **parts}, self.diversity)


class Scale(NamedTuple):
    """Scale and bias of the logits: scale · S + bias."""

    scale: Tensor  # () above 0
    bias: Tensor | None = None  # ()

    def detached(self) -> Scale:
        """Return the same values without gradient."""
        return Scale(self.scale.detach(), None if self.bias is None else self.bias.detach())


def instance_dcl(
    anchors: Anchors, keys: Keys | None, config: Config, epoch: float, weights: Tensor | None = None
) -> Losses:
    """Compute 3·L_DCL^I + L_M_DCL^I (eq. 8) with `coupled_dcl`, without the bank's loss before `bank_start_epoch`.
    `epoch`: epochs completed, fractional. `weights`: (B,) of this process's pairs."""
    bank_loss = epoch >= config.memory.bank_start_epoch
    settings = dcl_settings(config.objective, bank_loss=bank_loss, bank_anchors=config.memory.bank_anchors)
    terms = coupled_dcl(anchors, keys, settings, weights=weights)
    named = {config.objective.loss: terms.in_batch, "m-dcl": terms.in_bank, "m-dcl-entries": terms.of_entries}
    parts = {name: values.mean().detach() for name, values in named.items() if values is not None}
    return Losses(terms.per_pair.mean(), terms.per_pair.detach(), parts, terms.diversity)


def concept_dcl(anchors: Anchors, objective: ObjectiveConfig) -> Tensor:
    """Return (B,) L_DCL^C (section 3.3): a symmetric DCL on (V^C, W^C) with batch-level diversity, regardless of the
    instance branch's loss; only dcl-i turns it into DCL_I."""
    return batch_dcl(anchors, dcl_settings(objective))


def dcl_settings(
    objective: ObjectiveConfig, *, bank_loss: bool = True, bank_anchors: bool = False
) -> DclSettings:
    """Return the DCL settings of a configuration; without `bank_loss` the bank's loss has weight 0."""
    return DclSettings(
        temperature=objective.temperature,
        margin=objective.gamma,
        positive_scale=objective.positive_scale,
        positive_clamp=objective.positive_clamp,
        diversity=None if objective.loss == "dcl-i" else objective.diversity,
        epsilon=objective.epsilon,
        entropy_temperature=objective.entropy_temperature,
        diversity_gradient=objective.diversity_gradient,
        diversity_from_bank=objective.diversity_from_bank,
        same_image_negatives=objective.same_image_negatives,
        weight_batch=objective.weight_instance,
        weight_bank=objective.weight_memory if bank_loss else 0.0,
        bank_anchors=bank_anchors,
    )


def plain_losses(
    anchors: Anchors,
    objective: ObjectiveConfig,
    epoch: float,
    weights: Tensor | None = None,
    scale: Scale | None = None,
) -> Losses:
    """Compute any loss except DCL, in both directions; (B,) `weights` multiply each pair's loss. A learned `scale` of
    the logits replaces the configured temperature and bias. `epoch`: epochs completed, fractional."""
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
    directions = batch_directions(anchors, keep_same_image=objective.same_image_negatives)
    per_pair = torch.stack([losses[objective.loss](*direction) for direction in directions]).sum(0)
    parts: dict[str, Tensor] = {objective.loss: per_pair.mean().detach()}
    if weights is not None:
        per_pair = per_pair * weights
    # Triplet losses are summed over the batch, as in VSE++: with gradient clipping, sum and mean train differently.
    summed = objective.loss.startswith("btr-")
    total = per_pair.sum() * parallel.world_size() if summed else per_pair.mean()
    return Losses(total * objective.weight_instance, per_pair.detach(), parts)
