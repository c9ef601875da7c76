"""A loss between two branches' scores, and between one branch and all it is set against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coder_core.config.boosting import BoostingConfig
from coder_core.config.schema import Config
from coder_core.objectives.boosting import absolute_max, absolute_sum, relative_max, relative_sum
from coder_core.objectives.distillation import (
    rank_distillation,
    relational_distillation,
    reversed_self_distillation,
    self_distillation,
)
from coder_core.objectives.mutual_learning import mutual_learning
from coder_core.objectives.pairs import in_batch_direction
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, batch_scores
from coder_core.training.losses import Losses

MUTUAL = ("dml",)  # every branch learns from every other where they train together
Between = Callable[..., Tensor]


def between(boosting: BoostingConfig) -> Between:
    """The loss between two branches that a configuration names, ready to be called with their scores."""
    relative: dict[str, Any] = {"margin": boosting.boosting_margin, "soft": boosting.boosting_soft}
    absolute: dict[str, Any] = {**relative, "split": boosting.boosting_split}
    sharp: dict[str, Any] = {"temperature": boosting.boosting_temperature}
    both: dict[str, Any] = {**sharp, "teacher_temperature": boosting.boosting_teacher_temperature}
    forms: dict[str, Between] = {
        "rs": partial(relative_sum, **relative), "rm": partial(relative_max, **relative),
        "as": partial(absolute_sum, **absolute), "am": partial(absolute_max, **absolute),
        "dr": partial(rank_distillation, **sharp), "rkd": relational_distillation,
        "dml": partial(mutual_learning, **sharp), "dino": partial(self_distillation, **both),
        "dino-reversed": partial(reversed_self_distillation, **both),
    }  # fmt: skip
    if boosting.boosting in forms:
        return forms[boosting.boosting]
    first, second = (forms[name] for name in boosting.boosting.split("-"))  # rs-as, rm-am: table IV #H and #I
    return lambda *given: (first(*given) + second(*given)) / 2


def boosting_losses(target: Anchors, others: Sequence[Anchors], config: Config) -> Tensor:
    """The mean over the other branches of this process's pairs' loss against each, both directions together, (B,).

    Diao et al. 2024, section IV-B: with several earlier branches their losses are averaged, not their scores.

    Args:
        target: the pairs under the branch that learns.
        others: the same pairs under the branches it is set against, one or more; they get no gradient.
        config: names the form, its margins, and whether other captions of an image are negatives.
    """
    loss = between(config.boosting)
    with torch.no_grad():
        known = [batch_scores(other) for other in others]
    found = []
    for way, scores in enumerate(batch_scores(target)):
        direction = in_batch_direction(
            scores, target.image_ids, target.all_image_ids, keep_same_image=config.objective.same_image_negatives,
            positive_offset=target.offset,
        )  # fmt: skip
        found += [loss(*direction, both[way], both[way].diagonal(target.offset)) for both in known]
    return torch.stack(found).sum(0) / len(others)


def boosted(losses: Losses, target: Anchors, others: Sequence[Anchors], config: Config) -> Losses:
    """With the loss against the other branches. It is a sum over the batch, whatever the loss it stands beside."""
    if not others:
        return losses
    per_pair = boosting_losses(target, others, config)
    pairs = len(per_pair) * parallel.world_size()  # several processes average their gradients
    return losses.plus(f"boosting-{config.boosting.boosting}", per_pair, config.boosting.boosting_weight * pairs)


def cohort_losses(
    losses: Losses, target: Anchors, earlier: Sequence[Anchors], config: Config, raw: Callable[[Anchors], Losses]
) -> Losses:
    """With the losses of the earlier branches, which train in the same step (OSS).

    Each has the raw loss, and stands against all branches before it; under mutual learning against all others.

    Args:
        losses: of the target.
        target: the pairs under the target.
        earlier: under the branches before it, in order, with gradient.
        config: of the run.
        raw: a branch's pairs -> its raw loss.
    """
    for place, branch in enumerate(earlier):
        others = list(earlier[:place])
        if config.boosting.boosting in MUTUAL:
            others += [*earlier[place + 1 :], target]
        losses = losses.beside(f"branch-{place + 1}", boosted(raw(branch), branch, others, config))
    return losses
