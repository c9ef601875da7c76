"""Communication between the processes of one run: embeddings with gradients, keys, averages, flags.

With a single process every exchange returns its argument. Start several processes with torchrun.
"""

import gc
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def start(device: torch.device) -> None:
    """Join the process group of torchrun; do nothing without it."""
    if "WORLD_SIZE" in os.environ and int(os.environ["WORLD_SIZE"]) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")


def finish() -> None:
    """Leave the process group.

    Cycles that hold the group (DistributedDataParallel) are collected first. Otherwise the group's threads outlive it,
    and about one process in ten aborts at its exit.
    """
    if dist.is_available() and dist.is_initialized():
        gc.collect()
        dist.destroy_process_group()


def rank() -> int:
    """Return the number of this process; process 0 writes the files."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world_size() -> int:
    """Return the number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


class _Gather(torch.autograd.Function):
    """Rows of all processes; the backward pass sums all processes' gradients of this process's rows."""

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
    """Return the (world · B, …) rows of all processes, (B, …) from each, differentiably."""
    return rows if world_size() == 1 else _Gather.apply(rows)


@torch.no_grad()
def broadcast(tensors: Iterable[Tensor]) -> None:
    """Overwrite every tensor with the first process's."""
    if world_size() > 1:
        for tensor in tensors:
            dist.broadcast(tensor, src=0)


@torch.no_grad()
def gather_rows(rows: Tensor) -> Tensor:
    """Return the (world · B, …) rows of all processes, (B, …) from each, without gradient."""
    if world_size() == 1:
        return rows
    parts = [torch.empty_like(rows) for _ in range(world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


@torch.no_grad()
def largest(values: Tensor) -> Tensor:
    """Return the largest value over all processes."""
    top = values.detach().amax()
    if world_size() > 1:
        dist.all_reduce(top, op=dist.ReduceOp.MAX)
    return top


def largest_with_gradient(values: Tensor) -> Tensor:
    """Return the largest value over all processes, differentiably; ties share the gradient, as in `torch.amax`."""
    return gather_with_gradient(values).amax()


@torch.no_grad()
def mean(values: Tensor) -> Tensor:
    """Return the elementwise mean over all processes of values with the same shape in each."""
    values = values.detach().clone()
    if world_size() > 1:
        dist.all_reduce(values)
        values /= world_size()
    return values


def average_gradients(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Average the gradients of parameters outside DistributedDataParallel over all processes."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad = mean(parameter.grad)


def broadcast_value(value: float, device: torch.device) -> float:
    """Return the first process's value on every process."""
    if world_size() == 1:
        return value
    shared = torch.tensor(value, dtype=torch.float64, device=device)
    dist.broadcast(shared, src=0)
    return float(shared)


def broadcast_text(text: str, device: torch.device) -> str:
    """Return the first process's text on every process."""
    if world_size() == 1:
        return text
    content = torch.tensor(list(text.encode()), dtype=torch.uint8, device=device)
    shared = torch.empty(int(broadcast_value(len(content), device)), dtype=torch.uint8, device=device)
    if rank() == 0:
        shared.copy_(content)
    dist.broadcast(shared, src=0)
    return bytes(shared.tolist()).decode()


def any_process(flag: bool, device: torch.device) -> bool:
    """Return True on every process if the flag is set on any of them."""
    return flag if world_size() == 1 else bool(largest(torch.tensor([float(flag)], device=device)) > 0)


def barrier() -> None:
    """Wait for every process."""
    if world_size() > 1:
        dist.barrier()


@contextmanager
def first_process_first() -> Iterator[None]:
    """Run a block in process 0, then in all others, which can use the files that it cached."""
    if rank() != 0:
        barrier()
    yield
    if rank() == 0:
        barrier()
