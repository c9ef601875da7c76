"""Arithmetic that every other package uses: vectors, masked statistics, the scaling of diversities.

The letters, everywhere in this project:

    B  samples in a batch                 R  regions of an image
    Q  queries (anchors), one per row     T  words of a caption
    C  candidates, one per column         K  prototypes
    D  size of an embedding               n, m  images, captions of a split

`scores` is (Q, C), `negatives` is (Q, C) bool, `positive_scores` is (Q,). The app reads `diversity_scaling` without
loading torch, so `vectors` is imported when one of its names is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coder_core.ops.vectors import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(import_module("coder_core.ops.vectors"), name)
