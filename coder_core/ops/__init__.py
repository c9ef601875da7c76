"""The arithmetic every other package stands on: vectors, masked statistics, the mixture of two branches.

The letters, everywhere in this project:

    B  samples in a batch                 R  regions of an image
    Q  queries (anchors), one per row     T  words of a caption
    C  candidates, one per column         K  prototypes
    D  size of an embedding               n, m  images, captions of a split

`scores` is (Q, C), `negatives` is (Q, C) bool, `positive_scores` is (Q,).

    vectors.py      full_precision, normalise, lengths, cosine, mean_of_parts, best_columns, padding_mask
    statistics.py   masked_mean, log1p_sum_exp
    diversity_scaling.py   squash, normalise_by_largest, sharpness: CODER eq. 3 and 4 after the spread, also in NumPy
    mixture.py      mixed_embeddings: β · cos_I + (1 − β) · cos_C, CODER eq. 8, in NumPy
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coder_core.ops.mixture import mixed_embeddings
    from coder_core.ops.statistics import log1p_sum_exp, masked_mean
    from coder_core.ops.vectors import (
        EMPTY_ID,
        SHORTEST_VECTOR,
        best_columns,
        cosine,
        full_precision,
        lengths,
        mean_of_parts,
        normalise,
        padding_mask,
    )

__all__ = [
    "EMPTY_ID",
    "SHORTEST_VECTOR",
    "best_columns",
    "cosine",
    "full_precision",
    "lengths",
    "log1p_sum_exp",
    "masked_mean",
    "mean_of_parts",
    "mixed_embeddings",
    "normalise",
    "padding_mask",
]


def __getattr__(name: str) -> Any:
    """Import a module at the first use of one of its names, so that the app reads `mixture` without torch."""
    if name in __all__:
        for module in ("mixture", "vectors", "statistics"):
            if hasattr(exports := import_module(f"{__name__}.{module}"), name):
                return getattr(exports, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
