"""Samples of a batch under one branch: this process's pairs and those of all processes, their scores and negatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.model.scoring import CosineScorer, Scorer
from coder_core.objectives.pairs import Direction, in_batch_direction
from coder_core.ops import mean_of_parts
from coder_core.training import parallel
from coder_core.training.memory.momentum import CoupledBank


class Lengths(NamedTuple):
    """Numbers of regions and words of each pair."""

    images: Tensor  # (B,)
    texts: Tensor  # (B,)


@dataclass(frozen=True)
class Anchors:
    """This process's pairs and their candidates. Samples have the scorer's shape (`…`)."""

    images: Tensor  # (B, …, D) with gradient
    texts: Tensor  # (B, …, D) with gradient
    all_images: Tensor  # (world · B, …, D) with gradient
    all_texts: Tensor  # (world · B, …, D) with gradient
    image_ids: Tensor  # (B,) equal for pairs that are not negatives of one another
    all_image_ids: Tensor  # (world · B,)
    offset: int  # of this process's pairs among all
    scorer: Scorer
    lengths: Lengths | None = None  # of this process's pairs; read by a local scorer
    all_lengths: Lengths | None = None  # of all


class Keys(NamedTuple):
    """Momentum keys of this process's pairs, and the bank of earlier ones."""

    images: Tensor  # (B, D)
    texts: Tensor  # (B, D)
    bank: CoupledBank


def gather_anchors(
    images: Tensor,
    texts: Tensor,
    image_ids: Tensor,
    scorer: Scorer | None = None,
    lengths: Lengths | None = None,
) -> Anchors:
    """Gather the samples of all processes under one branch.

    Args:
        images, texts: (B, …, D).
        image_ids: (B,) the batch's `image_groups`.
        scorer: of the pairs; None is the cosine.
        lengths: of the pairs, for a local scorer.
    """
    all_lengths = None if lengths is None else Lengths(*(parallel.gather_rows(counts) for counts in lengths))
    return Anchors(
        images,
        texts,
        _gather(images),
        _gather(texts),
        image_ids,
        parallel.gather_rows(image_ids),
        parallel.rank() * len(image_ids),
        scorer or CosineScorer(),
        lengths,
        all_lengths,
    )


def _gather(samples: Tensor) -> Tensor:
    """Gather samples; local features are padded to the longest of all processes."""
    if samples.ndim == 3 and parallel.world_size() > 1:
        longest = int(parallel.largest(torch.tensor([float(samples.shape[1])], device=samples.device)))
        samples = torch.nn.functional.pad(samples, (0, 0, 0, longest - samples.shape[1]))
    return parallel.gather_with_gradient(samples)


def batch_scores(anchors: Anchors) -> tuple[Tensor, Tensor]:
    """Return (B, world · B) scores of this process's images with all texts, and of its texts with all images."""
    lengths, all_lengths = anchors.lengths or (None, None), anchors.all_lengths or (None, None)
    forward = anchors.scorer(anchors.images, anchors.all_texts, lengths[0], all_lengths[1])
    if parallel.world_size() == 1:
        return forward, forward.T
    return forward, anchors.scorer(anchors.all_images, anchors.texts, all_lengths[0], lengths[1]).T


def batch_directions(anchors: Anchors, *, keep_same_image: bool) -> Iterator[Direction]:
    """Yield this process's images against all texts, then its texts against all images, with their negatives."""
    for scores in batch_scores(anchors):
        yield in_batch_direction(
            scores,
            anchors.image_ids,
            anchors.all_image_ids,
            keep_same_image=keep_same_image,
            positive_offset=anchors.offset,
        )


def mean_vectors(anchors: Anchors) -> Anchors:
    """Return the pairs with one vector a sample: the mean of its parts if the scorer reads several."""
    local = anchors.scorer.local
    lengths = anchors.lengths if local and anchors.lengths is not None else (None, None)
    all_lengths = anchors.all_lengths if local and anchors.all_lengths is not None else (None, None)
    return replace(
        anchors,
        images=mean_of_parts(anchors.images, lengths[0]),
        texts=mean_of_parts(anchors.texts, lengths[1]),
        all_images=mean_of_parts(anchors.all_images, all_lengths[0]),
        all_texts=mean_of_parts(anchors.all_texts, all_lengths[1]),
    )
