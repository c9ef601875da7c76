"""Who is a negative of whom, the two directions of a batch, and the hardest negatives.

A batch holds pairs of an image and one of its captions, so the positive of row i stands in column i, or, when the
candidates were gathered from several processes, in column i + offset.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.ops import full_precision


class Direction(NamedTuple):
    """One direction of retrieval: what every objective takes as its first three arguments."""

    scores: Tensor
    """(Q, C) similarity of every anchor to every candidate."""
    positive_scores: Tensor
    """(Q,) similarity of every anchor to its partner."""
    negatives: Tensor
    """(Q, C) bool."""


def same_image_negatives(
    query_ids: Tensor, candidate_ids: Tensor, keep_same_image: bool = False, *, positive_offset: int | None = 0
) -> Tensor:
    """Mask of the candidates that are negatives of each query.

    Other captions of the query's own image are not negatives. The paper does not say so and no ancestor of its code
    masks them, although a bank of 4096 on Flickr30K holds one for 10.7% of the anchors; `keep_same_image` goes back to
    that.

    Args:
        query_ids: (Q,) image id of every query.
        candidate_ids: (C,) image id of every candidate; below zero means an empty bank slot, never a negative.
        keep_same_image: the literal reading: everything but the positive itself is a negative.
        positive_offset: the positive of query i is candidate i + positive_offset; None when the positives are not
            among the candidates, as with a bank. Only `keep_same_image` needs it.

    Returns:
        (Q, C) bool.
    """
    filled = candidate_ids >= 0
    if not keep_same_image:
        return (query_ids[:, None] != candidate_ids[None, :]) & filled
    negatives = filled.expand(len(query_ids), -1).clone()
    if positive_offset is not None:
        negatives.diagonal(positive_offset).fill_(False)
    return negatives


def in_batch_direction(
    scores: Tensor, query_ids: Tensor, candidate_ids: Tensor, *, keep_same_image: bool = False, positive_offset: int = 0
) -> Direction:
    """Anchors against the candidates of the whole batch, their positives among them.

    Args:
        scores: (Q, C), C >= Q + positive_offset.
        query_ids: (Q,) image ids of the anchors.
        candidate_ids: (C,) image ids of the candidates.
        keep_same_image: see `same_image_negatives`.
        positive_offset: where this process's samples begin among the gathered candidates.

    Raises:
        ValueError: the positives do not fit among the candidates.
    """
    queries, candidates = scores.shape
    if queries + positive_offset > candidates:
        raise ValueError(
            f"{queries} anchors at offset {positive_offset} need at least {queries + positive_offset} candidates, "
            f"got {candidates}"
        )
    negatives = same_image_negatives(query_ids, candidate_ids, keep_same_image, positive_offset=positive_offset)
    return Direction(scores, scores.diagonal(positive_offset), negatives)


def both_directions(scores: Tensor, image_ids: Tensor, *, keep_same_image: bool = False) -> tuple[Direction, Direction]:
    """Image to text and text to image of one square batch; row i and column i are one pair.

    Args:
        scores: (B, B) similarity of images (rows) to captions (columns).
        image_ids: (B,) image id of every pair.
        keep_same_image: see `same_image_negatives`.
    """
    return (
        in_batch_direction(scores, image_ids, image_ids, keep_same_image=keep_same_image),
        in_batch_direction(scores.mT, image_ids, image_ids, keep_same_image=keep_same_image),
    )


def hardest_negatives(scores: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Score and column of each query's best-scoring negative.

    Returns:
        (Q,) scores, -inf for a query without negatives, and (Q,) columns.
    """
    return torch.where(negatives, full_precision(scores), float("-inf")).max(dim=1)
