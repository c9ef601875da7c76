"""Modules with shapes but without data, for comparing a file with them before allocating memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def shapes_only() -> Iterator[None]:
    """Create all tensors inside the block on the device "meta".

    >>> with shapes_only():
    ...     layer = torch.nn.Linear(3, 2)
    >>> layer.weight.is_meta
    True
    """
    with torch.device("meta"), _NoRandomNumbers():
        yield


class _NoRandomNumbers(TorchFunctionMode):
    """Skip random fills: on "meta" they do nothing but import `torch._dynamo`, for 1.5 s."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
