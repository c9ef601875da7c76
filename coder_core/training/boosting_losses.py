"""The loss of one branch against its teachers: Deep Boosting Learning, distillation, mutual learning."""

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
from coder_core.training import parallel
from coder_core.training.gathering import Anchors, batch_directions, batch_scores
from coder_core.training.losses import Losses

MUTUAL = ("dml",)  # every branch learns from every other where they train together


def loss_against_teacher(boosting: BoostingConfig) -> Callable[..., Tensor]:
    """The loss against a teacher that a configuration names, ready to be called with both branches' scores."""
    relative: dict[str, Any] = {"margin": boosting.boosting_margin, "soft": boosting.boosting_soft}
    absolute: dict[str, Any] = {**relative, "split": boosting.boosting_split}
    student: dict[str, Any] = {"temperature": boosting.boosting_temperature}
    both: dict[str, Any] = {**student, "teacher_temperature": boosting.boosting_teacher_temperature}
    forms: dict[str, Callable[..., Tensor]] = {
        "rs": partial(relative_sum, **relative),
        "rm": partial(relative_max, **relative),
        "as": partial(absolute_sum, **absolute),
        "am": partial(absolute_max, **absolute),
        "dr": partial(rank_distillation, **student),
        "rkd": relational_distillation,
        "dml": partial(mutual_learning, **student),
        "dino": partial(self_distillation, **both),
        "dino-reversed": partial(reversed_self_distillation, **both),
    }
    if boosting.boosting in forms:
        return forms[boosting.boosting]
    first, second = (forms[name] for name in boosting.boosting.split("-"))  # rs-as, rm-am: table IV #H and #I
    return lambda *scores: (first(*scores) + second(*scores)) / 2


def boosting_losses(target: Anchors, teachers: Sequence[Anchors], config: Config) -> Tensor:
    """The mean over the teachers of this process's pairs' loss against each, both directions together, (B,).

    Diao et al. 2024, section IV-B: with several earlier branches their losses are averaged, not their scores.

    Args:
        target: the pairs under the branch that learns.
        teachers: the same pairs under one or more other branches; they get no gradient.
        config: names the form, its margins, and whether other captions of an image are negatives.
    """
    loss = loss_against_teacher(config.boosting)
    with torch.no_grad():
        teacher_scores = [batch_scores(teacher) for teacher in teachers]
    losses = []
    ways = batch_directions(target, keep_same_image=config.objective.same_image_negatives)
    for way, direction in enumerate(ways):
        losses += [loss(*direction, both[way], both[way].diagonal(target.offset)) for both in teacher_scores]
    return torch.stack(losses).sum(0) / len(teachers)


def boosted(losses: Losses, target: Anchors, teachers: Sequence[Anchors], config: Config) -> Losses:
    """Add the loss against the teachers. It is a sum over the batch, whatever the loss it stands beside."""
    if not teachers:
        return losses
    per_pair = boosting_losses(target, teachers, config)
    pairs = len(per_pair) * parallel.world_size()  # several processes average their gradients
    return losses.plus(
        f"boosting-{config.boosting.boosting}", per_pair, config.boosting.boosting_weight * pairs
    )


def cohort_losses(
    losses: Losses,
    target: Anchors,
    earlier: Sequence[Anchors],
    config: Config,
    raw: Callable[[Anchors], Losses],
) -> Losses:
    """Add the losses of the earlier branches, which train in the same step (OSS).

    Each has the raw loss, and all branches before it as teachers; under mutual learning all others.

    Args:
        losses: of the target.
        target: the pairs under the target.
        earlier: under the branches before it, in order, with gradient.
        config: of the run.
        raw: a branch's pairs -> its raw loss.
    """
    for place, branch in enumerate(earlier):
        teachers = list(earlier[:place])
        if config.boosting.boosting in MUTUAL:
            teachers += [*earlier[place + 1 :], target]
        losses = losses.plus_branch(f"branch-{place + 1}", boosted(raw(branch), branch, teachers, config))
    return losses
