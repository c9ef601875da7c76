"""Encode a split: every image and every caption as a unit vector, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from coder_core.data.batches import image_chunks, text_chunks
from coder_core.data.dataset import Split
from coder_core.data.words import Tokens
from coder_core.model.coder import Branches, Coder

IMAGES_AT_ONCE = 128
TEXTS_AT_ONCE = 256

Progress = Callable[[int, int], None]


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
    """Whether to encode in bfloat16: when requested, or with "auto" on a GPU that has it."""
    return precision == "bfloat16" or (precision == "auto" and device.type == "cuda" and torch.cuda.is_bf16_supported())


def autocast(device: torch.device, precision: str) -> AbstractContextManager[None]:
    """bfloat16 autocast, or nothing: see `in_bfloat16`."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if in_bfloat16(device, precision) else nullcontext()


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
    model: Coder, split: Split, tokens: Tokens, *, device: torch.device, precision: str = "float32",
    progress: Progress | None = None, attention: bool = False,
) -> SplitEmbeddings:  # fmt: skip
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
    images = _Rows(model, split.n_images, attention)
    texts = _Rows(model, split.n_texts, attention)
    total = split.n_images + split.n_texts

    def report() -> None:
        if progress:
            progress(images.done + texts.done, total)

    with evaluating(model):
        nodes = model.concept_nodes()
        for ids, regions, lengths in image_chunks(split, IMAGES_AT_ONCE):
            with autocast(device, precision):
                images.put(ids, model.image_branches(regions.to(device), lengths.to(device), nodes))
            report()
        for ids, words, lengths in text_chunks(tokens, TEXTS_AT_ONCE):
            with autocast(device, precision):
                texts.put(ids, model.text_branches(words.to(device), lengths.to(device), nodes))
            report()
    return SplitEmbeddings(
        images.instance, texts.instance, images.concept, texts.concept, images.attention, texts.attention
    )


class _Rows:
    """The arrays of one modality, filled chunk by chunk."""

    def __init__(self, model: Coder, count: int, attention: bool) -> None:
        self.instance = np.empty((count, model.dimension), np.float32)
        self.concept: np.ndarray | None = None
        self.attention: np.ndarray | None = None
        self.done = 0
        if model.concepts is not None:
            self.concept = np.empty((count, model.dimension), np.float32)
            if attention:
                self.attention = np.empty((count, model.concepts.count), np.float16)

    def put(self, ids: np.ndarray, branches: Branches) -> None:
        self.instance[ids] = branches.instance.float().cpu().numpy()
        if self.concept is not None and branches.concept is not None:
            self.concept[ids] = branches.concept.float().cpu().numpy()
        if self.attention is not None and branches.attention is not None:
            self.attention[ids] = branches.attention.half().cpu().numpy()
        self.done += len(ids)
