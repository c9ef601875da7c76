"""The score of a pair, exactly: its weighted inner product in float64, rounded to float32.

Rounding makes the value independent of the order of summation, so equal embeddings score equal wherever they stand and
whatever the tile size, thread count or math library.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.sources import Scored

_PAIRS = 32  # pairs at a time: two float64 blocks of 32 · D stay in cache


def pair_scores(scored: Scored, images: Tensor, texts: Tensor) -> Tensor:
    """(P,) float32 scores of P pairs given by image and caption index."""
    scores = np.empty(len(images), np.float32)
    for start in range(0, len(images), _PAIRS):
        part = slice(start, start + _PAIRS)
        total = np.zeros(len(scores[part]))
        for image, text, weight in zip(scored.images, scored.texts, scored.weights, strict=True):
            left, right = image[images[part]].double().numpy(), text[texts[part]].double().numpy()
            total += weight * np.vecdot(left, right)
        scores[part] = total
    return torch.from_numpy(scores)


def tile_scores(scored: Scored, rows: slice, columns: slice) -> Tensor:
    """(rows, columns) float32 scores of a block of images and a block of captions."""
    total = torch.zeros(rows.stop - rows.start, columns.stop - columns.start, dtype=torch.float64)
    for image, text, weight in zip(scored.images, scored.texts, scored.weights, strict=True):
        total.addmm_(image[rows].double(), text[columns].double().T, alpha=weight)
    return total.float()
