"""Summarise the attention over concepts: how many a sample reads, which, and whether its partner agrees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coder_core.api.concepts.view import ConceptView
from coder_core.api.sides import Array, Modality, slices

PIECE = 8_192  # rows of attention in memory at once
_TINY = 1e-12


@dataclass(frozen=True)
class AttentionSummary:
    """The attention of k images or captions.

    Attributes:
        samples: (k,) their numbers.
        perplexity: (k,) exp of the entropy of the attention: the number of concepts read alike that would spread as
            much; from 1 (one concept has all) to g.
        first: (k,) the concept read most. share: (k,) its attention.
        mean: (g,) mean attention of a concept; sums to 1.
    """

    samples: Array
    perplexity: Array
    first: Array
    share: Array
    mean: Array

    @property
    def named(self) -> int:
        """Number of concepts that are the most read one of some sample."""
        return len(np.unique(self.first))


@dataclass(frozen=True)
class SharedAttention:
    """The attention that captions share with their image: Σ_c min(image_c, caption_c), from 0 to 1.

    Attributes:
        texts: (k,) numbers of the captions. own: (k,) with their own image.
        other: (k,) with another image drawn at random: what agreement by chance would be.
    """

    texts: Array
    own: Array
    other: Array


def summarise_attention(
    view: ConceptView, modality: Modality, samples: Array | None = None
) -> AttentionSummary:
    """Sum up the attention of some samples (None: all), piece by piece. Rows are divided by their sum: half precision
    rounds them, and where only the strongest concepts were kept, those are all that is known."""
    count = len(view.embeddings()[modality == "text"])
    numbers = np.arange(count) if samples is None else np.asarray(samples)
    perplexity, first, share = np.ones(len(numbers)), np.zeros(len(numbers), np.int64), np.zeros(len(numbers))
    total = np.zeros(len(view.words))
    for piece in slices(len(numbers), PIECE):
        rows = _unit(view.rows(modality, numbers[piece]))
        perplexity[piece] = np.exp(-(rows * np.log(np.maximum(rows, _TINY))).sum(1))
        first[piece] = rows.argmax(1)
        share[piece] = rows.max(1)
        total += rows.sum(0)
    return AttentionSummary(numbers, perplexity, first, share, total / max(len(numbers), 1))


def shared_attention(
    view: ConceptView, image_of_text: Array, texts: Array | None = None, *, seed: int = 0
) -> SharedAttention:
    """Agreement of captions (None: all) and their images on the concepts they read.

    Args:
        image_of_text: (m,) the image of every caption of the split.
    """
    owner = np.asarray(image_of_text)
    numbers = np.arange(len(owner)) if texts is None else np.asarray(texts)
    images = len(view.embeddings()[0])
    away = np.random.default_rng(seed).integers(1, max(images, 2), len(numbers))
    strangers = (owner[numbers] + away) % images
    own, other = np.zeros(len(numbers)), np.zeros(len(numbers))
    for piece in slices(len(numbers), PIECE):
        words = _unit(view.rows("text", numbers[piece]))
        own[piece] = np.minimum(words, _unit(view.rows("image", owner[numbers[piece]]))).sum(1)
        other[piece] = np.minimum(words, _unit(view.rows("image", strangers[piece]))).sum(1)
    return SharedAttention(numbers, own, other)


def _unit(rows: Array) -> Array:
    exact = rows.astype(np.float64)
    return np.asarray(exact / np.maximum(exact.sum(1, keepdims=True), _TINY))
