"""A whole split through a model: every image and every caption as a unit vector, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import nn

from coder_core.data.batches import image_chunks, text_chunks
from coder_core.data.dataset import Split
from coder_core.data.words import Tokens
from coder_core.model.coder import Coder

IMAGES_AT_ONCE = 128
TEXTS_AT_ONCE = 256

Progress = Callable[[int, int], None]


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """bfloat16 autocast where it pays: on a GPU, when asked or left to "auto"."""
    if precision == "bfloat16" or (precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode before comes back."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def encode_split(
    model: Coder, split: Split, tokens: Tokens, *, device: torch.device, precision: str = "float32",
    progress: Progress | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(n, D) image and (m, D) text embeddings, float32 unit rows.

    Args:
        model: on `device`.
        split: with its features mapped.
        tokens: the split's captions as numbers.
        device: where the model is.
        precision: see `autocast`.
        progress: called with samples done and samples in all; may raise to stop.
    """
    size = model.dimension
    images = np.empty((split.n_images, size), dtype=np.float32)
    texts = np.empty((split.n_texts, size), dtype=np.float32)
    done, total = 0, split.n_images + split.n_texts
    with evaluating(model):
        for ids, regions, lengths in image_chunks(split, IMAGES_AT_ONCE):
            with autocast(device, precision):
                found = model.encode_images(regions.to(device), lengths.to(device))
            images[ids] = found.float().cpu().numpy()
            done += len(ids)
            if progress:
                progress(done, total)
        for ids, words, lengths in text_chunks(tokens, TEXTS_AT_ONCE):
            with autocast(device, precision):
                found = model.encode_texts(words.to(device), lengths.to(device))
            texts[ids] = found.float().cpu().numpy()
            done += len(ids)
            if progress:
                progress(done, total)
    return images, texts
