"""The momentum twin of an encoder. He et al. 2020 (MoCo), eq. 2; CODER section 3.3; Diao et al. 2024 (DBL), eq. 22."""

from __future__ import annotations

import copy
import math
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def momentum_twin(module: Module, *, dropout: bool = True) -> Module:
    """Copy a module without gradients, in training mode: batch norm normalises by the batch's own statistics.

    Args:
        module: to copy.
        dropout: read with dropout too.
    """
    twin = copy.deepcopy(module).requires_grad_(False)
    return twin.train() if dropout else normalise_by_batch(twin)


def normalise_by_batch(module: Module) -> Module:
    """Evaluation mode, without dropout, but for batch norm, which normalises by the batch's own statistics."""
    module.eval()
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.train()
    return module


@torch.no_grad()
def update_twin(twin: nn.Module, module: nn.Module, momentum: float) -> None:
    """twin ← momentum · twin + (1 − momentum) · module, in place. Buffers (batch norm) are copied, not averaged; what
    both share (what is frozen of a tower) stays as it is.

    Args:
        twin: has the same parameters in the same order as `module`.
        module: the trained module.
        momentum: from 0 to 1.

    Raises:
        ValueError: momentum is outside [0, 1].
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must be from 0 to 1, got {momentum}")
    both = zip(twin.parameters(), module.parameters(), strict=True)
    pairs = [(slow, fast.detach()) for slow, fast in both if slow is not fast]
    if pairs:
        torch._foreach_lerp_([slow for slow, _ in pairs], [fast for _, fast in pairs], 1 - momentum)
    for slow, fast in zip(twin.buffers(), module.buffers(), strict=True):
        if slow is not fast:
            slow.copy_(fast)


def cosine_momentum(step: int, steps: int, start: float) -> float:
    """The momentum at a step, 0 ≤ step < steps: from `start` towards 1 on half a cosine (DBL eq. 22)."""
    return 1 - (1 - start) * (1 + math.cos(math.pi * step / steps)) / 2


def share_of_start(steps: int, start: float) -> float:
    """Share of its initial weights left in a twin after `steps` steps of `cosine_momentum`."""
    return math.prod(cosine_momentum(step, steps, start) for step in range(steps))


def start_that_leaves(share: float, steps: int) -> float:
    """A start of `cosine_momentum` that leaves at most `share` of the twin's initial weights."""
    # The steps' (1 - momentum) add up to (1 - start) · (steps + 1) / 2, and log(momentum) <= momentum - 1.
    return max(0.0, 1 + 2 * math.log(share) / (steps + 1))
