"""Losses of a branch against the scores of others: boosting (DBL eq. 7-10) and distillation, over a whole batch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from coder_core.objectives.boosting import absolute_max, absolute_sum, relative_max, relative_sum
from coder_core.objectives.distillation import (
    mutual_learning,
    rank_distillation,
    relational_distillation,
    reversed_self_distillation,
    self_distillation,
)
from coder_core.objectives.pairs import Anchors, batch_directions, batch_scores

TeacherLoss = Callable[..., Tensor]
"""Loss of one direction: (target's `Direction`, teacher's scores as `Teacher`) → (Q,)."""


def teacher_loss(
    form: str,
    *,
    margin: float = 0.2,
    soft: bool = False,
    split: float = 0.5,
    temperature: float = 0.1,
    teacher_temperature: float = 0.04,
) -> TeacherLoss:
    """Return the loss of a form: "rs", "rm", "as", "am" (DBL), "rs-as", "rm-am" (the mean of two, its table IV), "dr",
    "rkd", "dml", "dino" or "dino-reversed". The other arguments are passed to the losses that have them.

    Raises:
        ValueError: an unknown form, or a margin or split out of range.

    >>> teacher_loss("rkd").__name__
    'relational_distillation'
    """
    if not (margin >= 0 and 0 <= split <= 1):
        raise ValueError(f"margin must be >= 0, and split from 0 to 1, got {margin} and {split}")

    absolute = partial(partial, margin=margin, soft=soft, split=split)
    both = partial(partial, temperature=temperature, teacher_temperature=teacher_temperature)
    forms: dict[str, TeacherLoss] = {
        "rs": partial(relative_sum, margin=margin, soft=soft),
        "rm": partial(relative_max, margin=margin, soft=soft),
        "as": absolute(absolute_sum),
        "am": absolute(absolute_max),
        "dr": partial(rank_distillation, temperature=temperature),
        "rkd": relational_distillation,
        "dml": partial(mutual_learning, temperature=temperature),
        "dino": both(self_distillation),
        "dino-reversed": both(reversed_self_distillation),
    }
    parts = [form] if form in forms else form.split("-")
    if not set(parts) <= set(forms) or len(parts) > 2:
        raise ValueError(f"form must be one of {', '.join(forms)}, rs-as or rm-am, got {form!r}")

    losses = [forms[part] for part in parts]
    return losses[0] if len(losses) == 1 else partial(_mean_loss, losses)


def _mean_loss(losses: Sequence[TeacherLoss], *branches: Any) -> Tensor:
    return torch.stack([loss(*branches) for loss in losses]).mean(0)


def against_teachers(
    target: Anchors, teachers: Sequence[Anchors], loss: TeacherLoss, *, keep_same_image: bool = False
) -> Tensor:
    """Return (B,) losses against other branches' scores of the same pairs, without gradient to them; both directions.

    With several teachers the losses are averaged, not the scores (Diao et al. 2024, section IV-B).

    >>> from coder_core.objectives.pairs import gather_anchors
    >>> pairs = gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([0, 1]))
    >>> against_teachers(pairs, [pairs], teacher_loss("rm"))
    tensor([0.4000, 0.4000])
    """
    with torch.no_grad():
        teacher_scores = [batch_scores(teacher) for teacher in teachers]
    directions = batch_directions(target, keep_same_image=keep_same_image)
    terms = [
        loss(direction, (scores[index], scores[index].diagonal(target.offset)))
        for index, direction in enumerate(directions)
        for scores in teacher_scores
    ]
    return torch.stack(terms).sum(0) / len(teachers)
