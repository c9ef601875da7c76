"""Several processes, one batch: gathering embeddings with their gradients, keys without, and the largest diversity.

With one process every function hands back what it got. Start several with torchrun.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def start(device: torch.device) -> None:
    """Join the processes that torchrun started; does nothing without torchrun."""
    if "WORLD_SIZE" in os.environ and int(os.environ["WORLD_SIZE"]) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")


def finish() -> None:
    """Leave the process group."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def rank() -> int:
    """Which process this is; 0 writes."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world_size() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class _Gather(torch.autograd.Function):
    """Rows of all processes; the backward pass sums what all processes want from this one's rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        ctx.count = len(rows)
        return gather_rows(rows)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        return total[rank() * ctx.count : (rank() + 1) * ctx.count]


def gather_with_gradient(rows: Tensor) -> Tensor:
    """(B, D) of each process -> (world · B, D) on every process, differentiable."""
    return rows if world_size() == 1 else _Gather.apply(rows)


class _Average(torch.autograd.Function):
    """The values themselves; the backward pass averages their gradient over all processes, as DDP does."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return mean(gradients[0].contiguous())


def averaging_gradient(values: Tensor) -> Tensor:
    """A parameter that DDP does not see: the same values, its gradient the mean over all processes."""
    return values if world_size() == 1 else _Average.apply(values)


@torch.no_grad()
def from_first_tensors(tensors: Iterable[Tensor]) -> None:
    """Overwrite every tensor with the first process's, on every process."""
    if world_size() > 1:
        for tensor in tensors:
            dist.broadcast(tensor, src=0)


@torch.no_grad()
def gather_rows(rows: Tensor) -> Tensor:
    """(B, …) of each process -> (world · B, …) on every process, without gradient."""
    if world_size() == 1:
        return rows
    parts = [torch.empty_like(rows) for _ in range(world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


@torch.no_grad()
def largest(values: Tensor) -> Tensor:
    """The largest value over all processes."""
    top = values.detach().amax()
    if world_size() > 1:
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
    return top


@torch.no_grad()
def mean(values: Tensor) -> Tensor:
    """The mean over all processes of equally many values each."""
    values = values.detach().clone()
    if world_size() > 1:
        dist.all_reduce(values)
        values /= world_size()
    return values


def average_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """What DDP does for the module it wraps, for parameters of another."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = mean(parameter.grad)


def from_first(value: float, device: torch.device) -> float:
    """The first process's value, on every process."""
    if world_size() == 1:
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return float(shared)


def agree(flag: bool, device: torch.device) -> bool:
    """True on every process as soon as it is true on one."""
    if world_size() == 1:
        return flag
    return bool(largest(torch.tensor([float(flag)], device=device)) > 0)


def wait() -> None:
    """Wait until every process is here."""
    if world_size() > 1:
        dist.barrier()


def local_rank() -> int:
    """Which process of this machine this is, as torchrun says; 0 without it."""
    return int(os.environ.get("LOCAL_RANK", 0))
