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
    return torch.from_numpy(_pair_scores(scored, images.numpy(), texts.numpy(), np.float64))


def rough_pair_scores(scored: Scored, images: Tensor, texts: Tensor) -> Tensor:
    """The same in float32 throughout: quicker, with the rounding error of any float32 product."""
    return torch.from_numpy(_pair_scores(scored, images.numpy(), texts.numpy(), np.float32))


def tile_scores(scored: Scored, rows: slice, columns: slice) -> Tensor:
    """(rows, columns) float32 scores of a block of images and a block of captions."""
    total = torch.zeros(rows.stop - rows.start, columns.stop - columns.start, dtype=torch.float64)
    for image, text, weight in zip(scored.images, scored.texts, scored.weights, strict=True):
        total.addmm_(image[rows].double(), text[columns].double().T, alpha=weight)
    return total.float()


def _pair_scores(scored: Scored, images: np.ndarray, texts: np.ndarray, kind: type[np.floating]) -> np.ndarray:
    scores = np.empty(len(images), np.float32)
    sources = [
        (image.numpy(), text.numpy(), kind(weight))
        for image, text, weight in zip(scored.images, scored.texts, scored.weights, strict=True)
    ]
    for start in range(0, len(images), _PAIRS):
        part = slice(start, start + _PAIRS)
        total = np.zeros(len(scores[part]), kind)
        for image, text, weight in sources:
            left, right = image[images[part]].astype(kind, copy=False), text[texts[part]].astype(kind, copy=False)
            total += weight * np.vecdot(left, right)
        scores[part] = total
    return scores
