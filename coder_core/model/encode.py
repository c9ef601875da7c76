"""Embed or score a split in bounded memory: as unit vectors of images and captions if scores are inner products,
otherwise pair by pair into a matrix."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from coder_core.console.faults import InputError
from coder_core.console.output import Progress, silent
from coder_core.data.batches import image_chunks, text_chunks
from coder_core.data.split import Split
from coder_core.data.words import Tokens
from coder_core.evaluation.sources import ScoreMatrix, Source, mixture
from coder_core.model.coder import Branches, Coder
from coder_core.model.device import autocast
from coder_core.ops import mean_of_parts

IMAGES_AT_ONCE = 128
TEXTS_AT_ONCE = 256
TEXTS_SCORED_AT_ONCE = 64
PAIRS_AT_MOST = 1 << 28  # 1 GiB of scores: MS-COCO's 5,000 × 25,000 are half of it


@dataclass(frozen=True)
class SplitEncoding:
    """How a split is encoded."""

    precision: str = "float32"  # of the encoders, see `autocast`; scores are always float32
    attention: bool = False  # return the attention over the concepts as well
    progress: Progress = silent  # of samples or pairs; it may raise an error to stop


USUAL = SplitEncoding()
Arrays = tuple[np.ndarray, np.ndarray | None, np.ndarray | None]
Chunks = Iterable[tuple[np.ndarray, Tensor, Tensor]]


class SplitEmbeddings(NamedTuple):
    """Embeddings of a split in both branches: (n, D) images and (m, D) texts, float32 unit rows. The concept branch is
    None if the model has none; its attention, (n, g) and (m, g) float16, is None unless requested."""

    images: np.ndarray
    texts: np.ndarray
    concept_images: np.ndarray | None = None
    concept_texts: np.ndarray | None = None
    image_attention: np.ndarray | None = None
    text_attention: np.ndarray | None = None

    @property
    def second(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The concept branch's embeddings as a pair for `evaluation`, or None."""
        if self.concept_images is None or self.concept_texts is None:
            return None
        return self.concept_images, self.concept_texts


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Run a block in evaluation mode without gradients; then restore the previous mode."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def encode_split(
    model: Coder, split: Split, tokens: Tokens, encoding: SplitEncoding = USUAL
) -> SplitEmbeddings:
    """Embed every image and caption of a split in every branch of the model."""
    device = model.device
    images = _empty(model, split.n_images, encoding.attention)
    texts = _empty(model, split.n_texts, encoding.attention)
    done = 0

    def encode(chunks: Chunks, branches_of: Callable[..., Branches], arrays: Arrays) -> None:
        nonlocal done
        for ids, samples, lengths in chunks:
            with autocast(device, encoding.precision):
                branches = branches_of(samples.to(device), lengths.to(device), nodes)
            for array, rows in zip(arrays, branches[:3], strict=True):
                if array is not None and rows is not None:
                    array[ids] = rows.float().cpu().numpy()
            done += len(ids)
            encoding.progress(done, split.n_images + split.n_texts)

    with evaluating(model):
        nodes = model.concept_nodes()
        encode(image_chunks(split, IMAGES_AT_ONCE), model.image_branches, images)
        encode(text_chunks(tokens, TEXTS_AT_ONCE), model.text_branches, texts)
    return SplitEmbeddings(images[0], texts[0], images[1], texts[1], images[2], texts[2])


def _empty(model: Coder, count: int, attention: bool) -> Arrays:
    """Allocate arrays for `count` samples: instance, concept and attention, as in `Branches`."""
    instance = np.empty((count, model.dimension), np.float32)
    if model.concepts is None:
        return instance, None, None
    weights = np.empty((count, model.concepts.count), np.float16) if attention else None
    return instance, np.empty_like(instance), weights


class ImageParts(NamedTuple):
    """Vectors of images that a pairwise scorer compares, K embeddings or R regions per image: (n, L, D) float32 unit
    rows, padded, and (n,) int64 lengths."""

    parts: np.ndarray
    lengths: np.ndarray


class SplitScores(NamedTuple):
    """A split scored pair by pair: (n, m) float32 scores, the parts of every image, and the mean of the parts of every
    image (n, D) and of every caption (m, D), float32."""

    scores: np.ndarray
    images: ImageParts
    image_means: np.ndarray
    text_means: np.ndarray


Encoded = SplitEmbeddings | SplitScores


def score_split(
    model: Coder, split: Split, tokens: Tokens, beta: float, encoding: SplitEncoding = USUAL
) -> tuple[list[Source], Encoded]:
    """Return the scores of a split's pairs as sources for `evaluation`, and the embeddings or matrix that they come from.
    InputError: a matrix of scores would exceed 1 GiB.

    `beta`: share of the instance branch in a score, if the model has a concept branch.
    """
    if model.scorer.by_pair:
        scored = score_pairs(model, split, tokens, encoding)
        return [ScoreMatrix(scored.scores)], scored

    embeddings = encode_split(model, split, tokens, encoding)
    return mixture(embeddings.images, embeddings.texts, embeddings.second, beta), embeddings


def score_pairs(model: Coder, split: Split, tokens: Tokens, encoding: SplitEncoding = USUAL) -> SplitScores:
    """Score every image of a split with every caption. InputError: as in `score_split`."""
    total = split.n_images * split.n_texts
    if total > PAIRS_AT_MOST:
        problem = f"has {split.n_images:,} images and {split.n_texts:,} captions, {total:,} pairs"
        fix = "this model scores every pair; evaluate it on fewer images"
        raise InputError.at(split.name, problem, f"at most {PAIRS_AT_MOST:,}", fix)

    scores = np.empty((split.n_images, split.n_texts), np.float32)
    words_done = 0
    words = max(1, len(tokens.ids))
    with evaluating(model):
        parts, lengths = _encode_images(model, split, encoding.precision)
        image_means = mean_of_parts(parts, lengths).cpu().numpy()
        text_means = np.empty((split.n_texts, image_means.shape[1]), np.float32)
        for ids, columns, means in _columns(model, (parts, lengths), tokens, encoding.precision):
            scores[:, ids] = columns.cpu().numpy()
            text_means[ids] = means.cpu().numpy()
            words_done += int(tokens.lengths[ids].sum())
            # Short captions come first: the number of words predicts the remaining time, that of captions does not.
            encoding.progress(total * words_done // words, total)
    images = ImageParts(parts.cpu().numpy(), lengths.cpu().numpy())
    return SplitScores(scores, images, image_means, text_means)


def score_texts(model: Coder, images: ImageParts, tokens: Tokens) -> np.ndarray:
    """Return (k, n) float32 scores of new captions with images that are already encoded."""
    scores = np.empty((len(tokens.lengths), len(images.parts)), np.float32)
    parts = torch.from_numpy(np.array(images.parts, np.float32)).to(model.device)
    lengths = torch.from_numpy(np.array(images.lengths)).to(model.device)
    with evaluating(model):
        for ids, columns, _ in _columns(model, (parts, lengths), tokens, "float32"):
            scores[ids] = columns.T.cpu().numpy()
    return scores


def _encode_images(model: Coder, split: Split, precision: str) -> tuple[Tensor, Tensor]:
    """Return (n, L, D) parts and (n,) lengths of all images, filled in place to avoid a second copy."""
    device = model.device
    parts = torch.empty(0)
    lengths = torch.empty(split.n_images, dtype=torch.int64, device=device)
    for ids, regions, counts in image_chunks(split, IMAGES_AT_ONCE):
        with autocast(device, precision):
            encoded = model.encode_images(regions.to(device), counts.to(device)).float()
        if not len(parts):
            longest = split.regions if model.scorer.local else encoded.shape[1]
            parts = torch.zeros(split.n_images, longest, encoded.shape[2], device=device)
        rows = torch.from_numpy(ids).to(device)
        parts[rows, : encoded.shape[1]] = encoded
        lengths[rows] = counts.to(device) if model.scorer.local else encoded.shape[1]
    return parts, lengths


def _columns(
    model: Coder, images: tuple[Tensor, Tensor], tokens: Tokens, precision: str
) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
    """Yield (ids, (n, len(ids)) scores, (len(ids), D) means of the captions' parts) for a few captions at a time."""
    device = model.device
    parts, image_lengths = images
    for ids, words, counts in text_chunks(tokens, TEXTS_SCORED_AT_ONCE):
        lengths = counts.to(device)
        with autocast(device, precision):
            texts = model.encode_texts(words.to(device), lengths).float()
        means = mean_of_parts(texts, lengths if model.scorer.local else None)
        yield ids, model.scorer(parts, texts, image_lengths, lengths), means
