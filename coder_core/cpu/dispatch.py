"""Put a fast CPU implementation behind a plain function."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def accelerated_by(
    kernel: Callable[Concatenate[Callable[P, T], P], T],
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a plain function with a kernel that computes the same faster on a CPU.

    Args:
        kernel: takes the plain function before its arguments, and calls it for tensors it does not cover.

    Returns:
        A decorator; `__wrapped__` of what it returns is the plain function.
    """

    def decorate(plain: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(plain)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return kernel(plain, *args, **kwargs)

        return call

    return decorate
