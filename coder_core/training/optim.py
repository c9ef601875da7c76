"""Parameter groups and the learning rate, a pure function of the step."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from coder_core.config.schema import TrainingConfig

DECAY_FACTOR = 0.1


def learning_rate(step: int, steps: int, config: TrainingConfig) -> float:
    """The rate of step 0 … steps-1: a linear rise, then a step, a cosine, or nothing.

    Args:
        step: from 0.
        steps: of the whole run.
        config: of the run.
    """
    rate = config.learning_rate
    if step < config.warmup_steps:
        return rate * (step + 1) / config.warmup_steps
    if config.schedule == "step":
        return rate * (DECAY_FACTOR if step >= config.decay_at * steps else 1.0)
    if config.schedule == "cosine":
        done = (step - config.warmup_steps) / max(1, steps - config.warmup_steps)
        return rate * 0.5 * (1 + math.cos(math.pi * done))
    return rate


def make_optimizer(
    model: nn.Module, config: TrainingConfig, device: torch.device, extra: Iterable[nn.Parameter] = (),
    branches: Iterable[nn.Module] = (),
) -> torch.optim.AdamW:  # fmt: skip
    """AdamW (fused) in two groups: BERT's own weights at a share of the rate, everything else, `extra` among it.

    Branches that train beside the model join both groups: AdamW treats every number alone, so one optimizer is as good
    as one for each.
    """
    modules = (model, *branches)
    named = [pair for module in modules for pair in module.named_parameters() if pair[1].requires_grad]
    bert = [parameter for name, parameter in named if name.startswith("words.bert.")]
    others = [*(parameter for name, parameter in named if not name.startswith("words.bert.")), *extra]
    groups = [{"params": others, "share": 1.0}, {"params": bert, "share": config.bert_rate}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        fused=device.type in ("cpu", "cuda"),
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give every group its share of the rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]
