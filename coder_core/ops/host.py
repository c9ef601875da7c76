"""Lengths on the host beside those on the device, so that nobody waits for a GPU to read them back."""

import torch
from torch import Tensor

_HOST = "_values_on_host"  # attribute of a tensor on a device


def to_device(values: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to a device without waiting; `on_host` then finds the original.

    >>> to_device(torch.ones(2), torch.device("cpu"))
    tensor([1., 1.])
    """
    if device.type == "cpu":
        return values
    copy = values.pin_memory().to(device, non_blocking=True)
    setattr(copy, _HOST, values)
    return copy


def on_host(values: Tensor) -> Tensor:
    """Return values on the CPU: the original of `to_device`, or a copy, for which the program waits.

    >>> on_host(torch.ones(2))
    tensor([1., 1.])
    """
    if values.device.type == "cpu":
        return values
    known = None if torch.compiler.is_compiling() else getattr(values, _HOST, None)
    return values.cpu() if known is None else known
