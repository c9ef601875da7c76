"""The pairs of this process among those of all processes, and their scores in both directions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from coder_core.objectives.memory import CoupledBank
from coder_core.objectives.pairs import Direction, in_batch_direction
from coder_core.ops import mean_of_parts, parallel


class Scorer(nn.Module):
    """Scores of n images with m captions, from their pooled vectors.

    Called with (n, …, D) images, (m, …, D) captions, (n,) and (m,) lengths; returns (n, m).

    Attributes:
        by_pair: True if scores are not inner products of one vector per sample; a split is then scored pair by pair.
        local: True if samples are padded (…, L, D) with lengths; other scorers ignore lengths.
    """

    by_pair = False
    local = False


class CosineScorer(Scorer):
    """Cosine: inner product of one unit vector per sample."""

    def forward(self, images: Tensor, texts: Tensor, *_: Tensor | None) -> Tensor:
        """Return (n, m) cosines of (n, D) and (m, D) unit rows."""
        return images @ texts.T


class Lengths(NamedTuple):
    """Number of regions and number of words of each pair."""

    images: Tensor  # (B,)
    texts: Tensor  # (B,)


@dataclass(frozen=True)
class Anchors:
    """This process's pairs and their candidates. The scorer determines the sample shape (`…`)."""

    images: Tensor  # (B, …, D) with gradient
    texts: Tensor  # (B, …, D) with gradient
    all_images: Tensor  # (world · B, …, D) with gradient
    all_texts: Tensor  # (world · B, …, D) with gradient
    image_ids: Tensor  # (B,) equal for pairs that are not negatives of each other
    all_image_ids: Tensor  # (world · B,)
    offset: int  # row of this process's first pair among those of all processes
    scorer: Scorer
    lengths: Lengths | None = None  # of this process's pairs; read by a local scorer
    all_lengths: Lengths | None = None  # of all processes' pairs


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
    """Gather one branch's samples from all processes.

    Args:
        images, texts: (B, …, D).
        image_ids: (B,) the batch's `image_groups`.
        scorer: of the pairs; None uses the cosine.
        lengths: of the pairs, for a local scorer.

    >>> gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([7, 8])).all_image_ids
    tensor([7, 8])
    """
    all_images = _gather(images)
    all_texts = _gather(texts)
    all_ids = parallel.gather_rows(image_ids)
    all_lengths = None if lengths is None else Lengths(*(parallel.gather_rows(counts) for counts in lengths))
    ids = (image_ids, all_ids)
    offset = parallel.rank() * len(image_ids)
    scorer = scorer or CosineScorer()
    return Anchors(images, texts, all_images, all_texts, *ids, offset, scorer, lengths, all_lengths)


def _gather(samples: Tensor) -> Tensor:
    """Gather samples; pad local features to the longest sample of all processes."""
    if samples.ndim == 3 and parallel.world_size() > 1:
        longest = int(parallel.largest(torch.tensor([float(samples.shape[1])], device=samples.device)))
        samples = torch.nn.functional.pad(samples, (0, 0, 0, longest - samples.shape[1]))
    return parallel.gather_with_gradient(samples)


def batch_scores(anchors: Anchors) -> tuple[Tensor, Tensor]:
    """Return (B, world · B) scores of this process's images with all texts, and of its texts with all images.

    >>> anchors = gather_anchors(torch.eye(2), torch.tensor([[0.6, 0.8], [0.0, 1.0]]), torch.tensor([7, 8]))
    >>> batch_scores(anchors)[1]
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    lengths = anchors.lengths or (None, None)
    all_lengths = anchors.all_lengths or (None, None)
    forward = anchors.scorer(anchors.images, anchors.all_texts, lengths[0], all_lengths[1])
    if parallel.world_size() == 1:
        return forward, forward.T
    return forward, anchors.scorer(anchors.all_images, anchors.texts, all_lengths[0], lengths[1]).T


def batch_directions(anchors: Anchors, *, keep_same_image: bool) -> Iterator[Direction]:
    """Yield this process's images against all texts, then its texts against all images, with their negatives.

    >>> anchors = gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([7, 7]))
    >>> [way.negatives.any().item() for way in batch_directions(anchors, keep_same_image=False)]
    [False, False]
    """
    ids = (anchors.image_ids, anchors.all_image_ids)
    offset = anchors.offset
    for scores in batch_scores(anchors):
        yield in_batch_direction(scores, *ids, keep_same_image=keep_same_image, positive_offset=offset)


def mean_vectors(anchors: Anchors) -> Anchors:
    """Return the pairs with one vector per sample: the mean of its parts if the scorer compares several.

    >>> mean_vectors(gather_anchors(torch.ones(2, 3, 4), torch.ones(2, 5, 4), torch.tensor([7, 8]))).images.shape
    torch.Size([2, 4])
    """
    local = anchors.scorer.local
    here = anchors.lengths if local and anchors.lengths is not None else (None, None)
    everywhere = anchors.all_lengths if local and anchors.all_lengths is not None else (None, None)
    images = mean_of_parts(anchors.images, here[0])
    texts = mean_of_parts(anchors.texts, here[1])
    all_images = mean_of_parts(anchors.all_images, everywhere[0])
    all_texts = mean_of_parts(anchors.all_texts, everywhere[1])
    return replace(anchors, images=images, texts=texts, all_images=all_images, all_texts=all_texts)
