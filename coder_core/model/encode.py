"""Encode a split: every image and every caption as a unit vector, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from coder_core.console.progress import Progress, silent
from coder_core.data.batches import image_chunks, text_chunks
from coder_core.data.split import Split
from coder_core.data.words import Tokens
from coder_core.model.coder import Branches, Coder

IMAGES_AT_ONCE = 128
TEXTS_AT_ONCE = 256

Arrays = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]


class SplitEmbeddings(NamedTuple):
    """A split in both branches, float32 unit rows; the concept branch is None where the model has none."""

    images: np.ndarray
    """(n, D)."""
    texts: np.ndarray
    """(m, D)."""
    concept_images: np.ndarray | None = None
    """(n, D)."""
    concept_texts: np.ndarray | None = None
    """(m, D)."""
    image_attention: np.ndarray | None = None
    """(n, g) float16; None unless requested."""
    text_attention: np.ndarray | None = None
    """(m, g) float16; None unless requested."""

    @property
    def second(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The concept branch's embeddings as a pair for `evaluation`, or None."""
        if self.concept_images is None or self.concept_texts is None:
            return None
        return self.concept_images, self.concept_texts


def in_bfloat16(device: torch.device, precision: str) -> bool:
    """True to encode in bfloat16: when requested, or with "auto" on a GPU that has it."""
    return precision == "bfloat16" or (
        precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported()
    )


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """bfloat16 autocast, or nothing: see `in_bfloat16`."""
    return (
        torch.autocast(device.type, dtype=torch.bfloat16) if in_bfloat16(device, precision) else nullcontext()
    )


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the previous mode is restored."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def encode_split(
    model: Coder,
    split: Split,
    tokens: Tokens,
    *,
    device: torch.device,
    precision: str = "float32",
    progress: Progress = silent,
    attention: bool = False,
) -> SplitEmbeddings:
    """Embed every image and caption of a split in every branch of the model.

    Args:
        model: on `device`.
        split: with its features mapped.
        tokens: the split's captions as numbers.
        device: where the model is.
        precision: see `autocast`.
        progress: called with samples done and samples in all; may raise to stop.
        attention: keep the concept attention too.
    """
    images, texts = (_empty(model, count, attention) for count in (split.n_images, split.n_texts))
    done = 0

    def store(arrays: Arrays, ids: np.ndarray, branches: Branches) -> None:
        nonlocal done
        for array, rows in zip(
            arrays, (branches.instance, branches.concept, branches.attention), strict=True
        ):
            if array is not None and rows is not None:
                array[ids] = rows.float().cpu().numpy()
        done += len(ids)
        progress(done, split.n_images + split.n_texts)

    with evaluating(model):
        nodes = model.concept_nodes()
        for ids, regions, lengths in image_chunks(split, IMAGES_AT_ONCE):
            with autocast(device, precision):
                branches = model.image_branches(regions.to(device), lengths.to(device), nodes)
            store(images, ids, branches)
        for ids, words, lengths in text_chunks(tokens, TEXTS_AT_ONCE):
            with autocast(device, precision):
                branches = model.text_branches(words.to(device), lengths.to(device), nodes)
            store(texts, ids, branches)
    return SplitEmbeddings(images[0], texts[0], images[1], texts[1], images[2], texts[2])


def _empty(model: Coder, count: int, attention: bool) -> Arrays:
    """Arrays for `count` samples: instance, concept and attention, as in `Branches`."""
    instance = np.empty((count, model.dimension), np.float32)
    if model.concepts is None:
        return instance, None, None
    weights = np.empty((count, model.concepts.count), np.float16) if attention else None
    return instance, np.empty_like(instance), weights
