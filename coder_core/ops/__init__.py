"""Arithmetic that every other package uses: vectors, masked statistics, the scaling of diversities.

`scores` is (Q, C), `negatives` is (Q, C) bool, `positive_scores` is (Q,); docs/architecture.md explains the letters. The app
reads `diversity_scaling` without loading torch, so `vectors` is imported when one of its names is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coder_core.ops.vectors import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(import_module("coder_core.ops.vectors"), name)
