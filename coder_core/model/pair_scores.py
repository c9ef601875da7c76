"""A whole split under a model that scores pair by pair: the matrix of scores, in bounded memory.

Images are encoded once and kept; captions are encoded a few at a time, scored with all images, and forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.data.batches import image_chunks, text_chunks
from coder_core.data.dataset import Split
from coder_core.data.words import Tokens
from coder_core.model.coder import Coder
from coder_core.model.encode import IMAGES_AT_ONCE, Progress, autocast, evaluating
from coder_core.ops import mean_of_parts

TEXTS_AT_ONCE = 64
PAIRS_AT_MOST = 1 << 28  # 1 GiB of scores: MS-COCO's 5,000 × 25,000 are half of it


class ImageParts(NamedTuple):
    """What a scorer reads of images: K embeddings or R regions each."""

    parts: np.ndarray
    """(n, L, D) float32 unit rows, padded."""
    lengths: np.ndarray
    """(n,) int64, how many of them exist."""


class SplitScores(NamedTuple):
    """A split scored pair by pair."""

    scores: np.ndarray
    """(n, m) float32."""
    images: ImageParts
    image_means: np.ndarray
    """(n, D) float32, the mean of an image's parts."""
    text_means: np.ndarray
    """(m, D) float32, the mean of a caption's parts."""


def score_split(
    model: Coder, split: Split, tokens: Tokens, *, device: torch.device, precision: str = "float32",
    progress: Progress | None = None,
) -> SplitScores:  # fmt: skip
    """Every image of a split with every caption.

    Args:
        model: on `device`; its scorer scores by pair.
        split: with its features mapped.
        tokens: the split's captions as numbers.
        device: where the model is.
        precision: of the encoders, see `autocast`; scores are always float32.
        progress: called with pairs done, in terms of their words, and pairs in all; may raise to stop.

    Raises:
        InputError: the matrix would be larger than 1 GiB.
    """
    total = split.n_images * split.n_texts
    if total > PAIRS_AT_MOST:
        found = f"has {split.n_images:,} images and {split.n_texts:,} captions, {total:,} pairs"
        fix = "this model scores every pair; evaluate it on fewer images"
        raise InputError(Fault(split.name, found, f"at most {PAIRS_AT_MOST:,}", fix))
    scores = np.empty((split.n_images, split.n_texts), np.float32)
    done, words = 0, max(1, len(tokens.ids))
    with evaluating(model):
        images = _encode_images(model, split, device, precision)
        image_means = mean_of_parts(*images).cpu().numpy()
        text_means = np.empty((split.n_texts, image_means.shape[1]), np.float32)
        for ids, columns, means in _columns(model, images, tokens, device, precision):
            scores[:, ids], text_means[ids] = columns.cpu().numpy(), means.cpu().numpy()
            done += int(tokens.lengths[ids].sum())
            if progress:  # short captions come first: by words, the time left is told right
                progress(total * done // words, total)
    parts = ImageParts(images[0].cpu().numpy(), images[1].cpu().numpy())
    return SplitScores(scores, parts, image_means, text_means)


def score_texts(model: Coder, images: ImageParts, tokens: Tokens, *, device: torch.device) -> np.ndarray:
    """(k, n) float32 scores of new captions with images encoded before."""
    scores = np.empty((len(tokens.lengths), len(images.parts)), np.float32)
    with evaluating(model):
        known = torch.from_numpy(np.array(images.parts, np.float32)), torch.from_numpy(np.array(images.lengths))
        for ids, columns, _ in _columns(model, (known[0].to(device), known[1].to(device)), tokens, device, "float32"):
            scores[ids] = columns.T.cpu().numpy()
    return scores


def _encode_images(model: Coder, split: Split, device: torch.device, precision: str) -> tuple[Tensor, Tensor]:
    """(n, L, D) and (n,), filled in place: no second copy is ever held."""
    parts, lengths = torch.empty(0), torch.empty(split.n_images, dtype=torch.int64, device=device)
    for ids, regions, counts in image_chunks(split, IMAGES_AT_ONCE):
        with autocast(device, precision):
            found = model.encode_images(regions.to(device), counts.to(device)).float()
        if not len(parts):
            longest = split.regions if model.scorer.local else found.shape[1]
            parts = torch.zeros(split.n_images, longest, found.shape[2], device=device)
        rows = torch.from_numpy(ids).to(device)
        parts[rows, : found.shape[1]] = found
        lengths[rows] = counts.to(device) if model.scorer.local else found.shape[1]
    return parts, lengths


def _columns(
    model: Coder, images: tuple[Tensor, Tensor], tokens: Tokens, device: torch.device, precision: str
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """(ids, (n, len(ids)) scores, (len(ids), D) means of their parts) of a few captions at a time."""
    for ids, words, lengths in text_chunks(tokens, TEXTS_AT_ONCE):
        with autocast(device, precision):
            texts = model.encode_texts(words.to(device), lengths.to(device)).float()
        there = lengths.to(device)
        means = mean_of_parts(texts, there if model.scorer.local else None)
        yield ids, model.scorer(images[0], texts, images[1], there), means
