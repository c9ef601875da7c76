"""Arithmetic shared by the other packages: vectors, masked statistics, the scaling of diversities.

`scores` is (Q, C), `negatives` is (Q, C) bool, `positive_scores` is (Q,); docs/architecture.md explains the letters. The
app uses `diversity_scaling` without torch, so `vectors` is imported only when one of its names is first accessed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coder_core.ops.vectors import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(import_module("coder_core.ops.vectors"), name)
