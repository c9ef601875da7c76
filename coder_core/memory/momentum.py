"""The slow twin of an encoder. He et al. 2020 (MoCo), eq. 2; CODER section 3.3."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

Module = TypeVar("Module", bound=nn.Module)


def slow_twin(module: Module) -> Module:
    """A copy that takes no gradients. It stays in training mode, so that its batch statistics are the batch's own."""
    return copy.deepcopy(module).requires_grad_(False).train()


@torch.no_grad()
def follow(twin: nn.Module, module: nn.Module, momentum: float) -> None:
    """twin ← momentum · twin + (1 − momentum) · module. Buffers (batch norm) are copied, not averaged.

    Args:
        twin: changed in place.
        module: the module it follows, with the same parameters in the same order.
        momentum: share of the twin that stays, from 0 to 1.

    Raises:
        ValueError: momentum is outside [0, 1].
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must be from 0 to 1, got {momentum}")
    torch._foreach_lerp_(list(twin.parameters()), [p.detach() for p in module.parameters()], 1 - momentum)
    for slow, fast in zip(twin.buffers(), module.buffers(), strict=True):
        slow.copy_(fast)
