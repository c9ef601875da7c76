"""Momentum encoders and the coupled banks of their keys. He et al. 2020 (MoCo), eq. 2; CODER section 3.3, eq. 6;
Diao et al. 2024 (DBL), eq. 22."""

import copy
import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from coder_core.ops import EMPTY_ID

BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
Module = TypeVar("Module", bound=nn.Module)


def momentum_encoder(module: Module, *, dropout: bool = True) -> Module:
    """Copy a module without gradients, in training mode, so that batch norm uses the batch's own statistics; `dropout`
    False disables only dropout.

    >>> momentum_encoder(nn.Linear(2, 2)).weight.requires_grad
    False
    """
    encoder = copy.deepcopy(module).requires_grad_(False)
    return encoder.train() if dropout else normalise_by_batch(encoder)


def normalise_by_batch(module: Module) -> Module:
    """Set evaluation mode, which disables dropout, except that batch norm uses the batch's own statistics where it does
    in training mode: a frozen tower uses and keeps its stored ones, which all copies share.

    >>> [part.training for part in normalise_by_batch(nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2)))]
    [False, True]
    """
    by_batch = [part for part in module.train().modules() if isinstance(part, BATCH_NORMS) and part.training]
    module.eval()
    for part in by_batch:
        part.train()
    return module


@torch.no_grad()
def update_momentum(encoder: nn.Module, module: nn.Module, momentum: float) -> None:
    """Set encoder ← momentum · encoder + (1 − momentum) · module, in place, parameter by parameter in the same order.

    Buffers (batch norm) are copied, not averaged. Tensors that both share (frozen weights of a tower) are unchanged.
    ValueError: momentum is outside [0, 1].

    >>> encoder, module = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.zeros_(encoder.weight), nn.init.ones_(module.weight)
    >>> update_momentum(encoder, module, momentum=0.75)
    >>> encoder.weight.item()
    0.25
    """
    if not 0 <= momentum <= 1:
        raise ValueError(f"momentum must be from 0 to 1, got {momentum}")
    pairs = zip(encoder.parameters(), module.parameters(), strict=True)
    averaged: list[tuple[Tensor, Tensor]] = [(slow, fast) for slow, fast in pairs if slow is not fast]
    if averaged:  # a few kernels on a GPU instead of one a parameter; the same loop on a CPU
        slow_ones = [slow for slow, _ in averaged]
        fast_ones = [fast for _, fast in averaged]
        torch._foreach_lerp_(slow_ones, fast_ones, 1 - momentum)
    for old, new in zip(encoder.buffers(), module.buffers(), strict=True):
        if old is not new:
            old.copy_(new)


def cosine_momentum(step: int, steps: int, start: float) -> float:
    """Return the momentum of a step, 0 ≤ step < steps: from `start` towards 1 on half a cosine (DBL eq. 22).

    >>> cosine_momentum(0, 10, start=0.9), round(cosine_momentum(5, 10, start=0.9), 3)
    (0.9, 0.95)
    """
    return 1 - (1 - start) * (1 + math.cos(math.pi * step / steps)) / 2


def share_of_start(steps: int, start: float) -> float:
    """Return the share of its initial weights left in an encoder after `steps` steps of `cosine_momentum`.

    >>> share_of_start(1, start=0.9)
    0.9
    """
    return math.prod(cosine_momentum(step, steps, start) for step in range(steps))


def start_that_leaves(share: float, steps: int) -> float:
    """Return a start of `cosine_momentum` that leaves at most `share` of the initial weights after `steps` steps.

    >>> share_of_start(40, start_that_leaves(0.01, 40)) <= 0.01
    True
    """
    # The steps' (1 - momentum) add up to (1 - start) · (steps + 1) / 2, and log(momentum) <= momentum - 1.
    return max(0.0, 1 + 2 * math.log(share) / (steps + 1))


class CoupledBank(nn.Module):
    """Ring buffers of momentum keys with shared slots: slot k has a pair's image key, text key and ids. Ids are one number
    a pair, (size,), or K numbers, (size, K), as the pairs have them (see `same_image_negatives`)."""

    images: Tensor
    texts: Tensor
    image_ids: Tensor
    position: Tensor
    filled: Tensor

    def __init__(self, size: int, dimension: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f"a bank needs at least one slot, got {size}")
        self.size = size
        self.register_buffer("images", torch.zeros(size, dimension))
        self.register_buffer("texts", torch.zeros(size, dimension))
        self.register_buffer("image_ids", torch.full((size,), EMPTY_ID, dtype=torch.int64))
        self.register_buffer("position", torch.zeros((), dtype=torch.int64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))
        # The same two numbers on the host, so that nobody waits for a GPU; None: read the buffers.
        self._on_host: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Number of slots that hold a key."""
        return self._position_and_filled()[1]

    def _position_and_filled(self) -> tuple[int, int]:
        if self._on_host is None:
            self._on_host = int(self.position), int(self.filled)
        return self._on_host

    def set_columns(self, columns: tuple[int, ...]) -> None:
        """Prepare an empty bank for ids with these further dimensions: (), (K,) or (2, K). ValueError: it has keys with
        others."""
        if self.image_ids.shape[1:] == columns:
            return
        if self.count:
            raise ValueError(
                f"ids of a pair have shape {columns}, those in the bank {tuple(self.image_ids.shape[1:])}"
            )
        self.image_ids = self.image_ids.new_full((self.size, *columns), EMPTY_ID)

    def _load_from_state_dict(self, state: dict[str, Tensor], prefix: str, *further: Any) -> None:
        """Take over the number of ids per pair from a stored bank."""
        stored = state.get(f"{prefix}image_ids")
        if stored is not None and stored.shape[:1] == (self.size,):
            self.image_ids = self.image_ids.new_full(stored.shape, EMPTY_ID)
        self._on_host = None
        super()._load_from_state_dict(state, prefix, *further)

    @torch.no_grad()
    def enqueue(self, images: Tensor, texts: Tensor, image_ids: Tensor) -> None:
        """Overwrite the oldest keys with those of a batch, (B, D) from all processes. Call it after backward(), which
        still reads the slots. `image_ids`: (B,), (B, K) or (B, 2, K). ValueError: the arguments differ in length, or the
        ids in shape."""
        if not len(images) == len(texts) == len(image_ids):
            raise ValueError(f"{len(images)} image keys, {len(texts)} text keys, {len(image_ids)} ids")
        self.set_columns(tuple(image_ids.shape[1:]))
        position, filled = self._position_and_filled()
        end = position + len(images)
        newest = torch.arange(max(position, end - self.size), end, device=images.device)
        for ring, keys in ((self.images, images), (self.texts, texts), (self.image_ids, image_ids)):
            ring[newest % self.size] = keys[len(keys) - len(newest) :].to(ring.dtype)
        self._on_host = end % self.size, min(self.size, filled + len(images))
        self.position.fill_(self._on_host[0])
        self.filled.fill_(self._on_host[1])
