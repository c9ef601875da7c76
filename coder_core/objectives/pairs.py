"""Negatives of every anchor, the two directions of a batch, and helpers for the scores of a query's candidates.

A batch consists of pairs of an image and one of its captions, so the positive of row i is in column i, or, when the
candidates were gathered from several processes, in column i + offset.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from coder_core.ops import full_precision

LEFT_OUT = -1e4  # logit of an excluded candidate: softmax 0 in float32 and float64, log-softmax finite


class AllExcept(NamedTuple):
    """Negatives as a list of the few excluded entries: in a bank of 4096 nearly every candidate is a negative."""

    rows: Tensor  # (P,) int64; each entry is listed once
    columns: Tensor  # (P,) int64

    def mask(self, scores: Tensor) -> Tensor:
        """Return (Q, C) bool, true for negatives, in the shape of the scores."""
        negatives = torch.ones_like(scores, dtype=torch.bool)
        negatives[self.rows, self.columns] = False
        return negatives

    def counts(self, scores: Tensor) -> Tensor:
        """Return the (Q,) number of negatives of each query."""
        return scores.shape[1] - torch.bincount(self.rows, minlength=scores.shape[0])


Negatives = Tensor | AllExcept
"""(Q, C) bool, or the list of entries that are not negatives. Scores excluded by a mask may have any value, even NaN;
those excluded by an `AllExcept` must be finite."""


class Direction(NamedTuple):
    """One direction of retrieval: the first three arguments of every objective."""

    scores: Tensor  # (Q, C) similarity of every query to every candidate
    positive_scores: Tensor  # (Q,) similarity of every query to its partner
    negatives: Tensor  # (Q, C) bool


Teacher = tuple[Tensor, Tensor]
"""(Q, C) scores of another branch for the same queries and candidates, and (Q,) of the positives."""


def check_shapes(
    scores: Tensor, positive_scores: Tensor | None, negatives: Negatives, teacher: Teacher | None = None
) -> None:
    """Raise ValueError if the arguments of an objective differ in size: torch would broadcast them silently.

    >>> check_shapes(torch.zeros(2, 3), torch.zeros(2), torch.ones(2, 3, dtype=torch.bool))
    """
    of_positives = scores.shape[:1] if positive_scores is None else positive_scores.shape
    of_negatives = scores.shape if isinstance(negatives, AllExcept) else negatives.shape
    if scores.ndim != 2 or of_positives != scores.shape[:1] or of_negatives != scores.shape:
        shapes = (tuple(shape) for shape in (scores.shape, of_positives, of_negatives))
        given = "scores, positive_scores and negatives are {}, {} and {}".format(*shapes)
        raise ValueError(f"{given}: give (queries, candidates), (queries,) and (queries, candidates)")
    if teacher is not None:
        check_shapes(*teacher, negatives)


def same_image_negatives(
    query_ids: Tensor,
    candidate_ids: Tensor,
    keep_same_image: bool = False,
    *,
    positive_offset: int | None = 0,
) -> Tensor:
    """Mark the candidates that are negatives of each query: those of another image.

    The paper does not mention other captions of the query's image, and no code that CODER builds on masks them, although
    a bank of 4096 on Flickr30K contains one for 10.7% of the queries. `keep_same_image` is that literal reading.

    Args:
        query_ids: (Q,) image id of every query.
        candidate_ids: (C,) image id of every candidate.
        keep_same_image: every candidate except the positive itself is a negative.
        positive_offset: the positive of query i is candidate i + positive_offset; None if the positives are not
            among the candidates, as with a bank. Only used with `keep_same_image`.

    Returns:
        (Q, C) bool.

    >>> same_image_negatives(torch.tensor([7, 7, 8]), torch.tensor([7, 7, 8])).int()
    tensor([[0, 0, 1],
            [0, 0, 1],
            [1, 1, 0]], dtype=torch.int32)
    """
    if not keep_same_image:
        return query_ids[:, None] != candidate_ids[None, :]
    negatives = torch.ones_like(query_ids[:, None] == candidate_ids)
    if positive_offset is not None:
        negatives.diagonal(positive_offset).fill_(False)
    return negatives


def all_except_same_image(
    query_ids: Tensor,
    candidate_ids: Tensor,
    keep_same_image: bool = False,
    *,
    positive_offset: int | None = 0,
) -> AllExcept:
    """List the entries that `same_image_negatives` leaves out, without comparing every query to every candidate.

    >>> all_except_same_image(torch.tensor([7, 8]), torch.tensor([5, 8, 6, 7]))
    AllExcept(rows=tensor([0, 1]), columns=tensor([3, 1]))
    """
    if keep_same_image:
        negatives = same_image_negatives(query_ids, candidate_ids, True, positive_offset=positive_offset)
        return AllExcept(*(~negatives).nonzero(as_tuple=True))
    ordered = query_ids.sort().values
    nearest = ordered[torch.searchsorted(ordered, candidate_ids).clamp_max(len(ordered) - 1)]
    suspects = (nearest == candidate_ids).nonzero().squeeze(1)
    rows, columns = (query_ids[:, None] == candidate_ids[suspects]).nonzero(as_tuple=True)
    return AllExcept(rows, suspects[columns])


def as_list(scores: Tensor, negatives: Negatives) -> tuple[Tensor, AllExcept]:
    """Return scores in full precision, finite outside the negatives, and the entries that are not negatives.

    >>> as_list(torch.tensor([[float("nan"), 0.5]]), torch.tensor([[False, True]]))
    (tensor([[0.0000, 0.5000]]), AllExcept(rows=tensor([0]), columns=tensor([0])))
    """
    check_shapes(scores, None, negatives)
    scores = full_precision(scores)
    if isinstance(negatives, AllExcept):
        return scores, negatives
    return torch.where(negatives, scores, 0.0), AllExcept(*(~negatives).nonzero(as_tuple=True))


def in_batch_direction(
    scores: Tensor,
    query_ids: Tensor,
    candidate_ids: Tensor,
    *,
    keep_same_image: bool = False,
    positive_offset: int = 0,
) -> Direction:
    """Return the direction from queries to the candidates of the whole batch, which include the positives.

    Args:
        scores: (Q, C), C >= Q + positive_offset.
        query_ids: (Q,) image ids of the queries.
        candidate_ids: (C,) image ids of the candidates.
        keep_same_image: see `same_image_negatives`.
        positive_offset: position of this process's first sample among the gathered candidates.

    Raises:
        ValueError: the positives do not fit among the candidates, or ids and scores differ in length.

    >>> in_batch_direction(torch.tensor([[0.1, 0.9]]), torch.tensor([4]), torch.tensor([3, 4]), positive_offset=1)
    Direction(scores=tensor([[0.1000, 0.9000]]), positive_scores=tensor([0.9000]), negatives=tensor([[ True, False]]))
    """
    queries, candidates = scores.shape
    if queries + positive_offset > candidates:
        anchors = f"{queries} anchors at offset {positive_offset}"
        raise ValueError(f"{anchors} need at least {queries + positive_offset} candidates, got {candidates}")
    if (len(query_ids), len(candidate_ids)) != (queries, candidates):
        lengths = f"{len(query_ids)} and {len(candidate_ids)}"
        raise ValueError(f"scores are ({queries}, {candidates}), but there are ids of {lengths} samples")
    ids = query_ids, candidate_ids
    negatives = same_image_negatives(*ids, keep_same_image, positive_offset=positive_offset)
    return Direction(scores, scores.diagonal(positive_offset), negatives)


def both_directions(
    scores: Tensor, image_ids: Tensor, *, keep_same_image: bool = False
) -> tuple[Direction, Direction]:
    """Split a square batch into image to text and text to image; row i and column i are one pair.

    Args:
        scores: (B, B) similarity of images (rows) to captions (columns).
        image_ids: (B,).
        keep_same_image: see `same_image_negatives`.

    >>> out, back = both_directions(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([0, 1]))
    >>> back.scores
    tensor([[0.9000, 0.2000],
            [0.1000, 0.8000]])
    """
    out = in_batch_direction(scores, image_ids, image_ids, keep_same_image=keep_same_image)
    return out, in_batch_direction(scores.mT, image_ids, image_ids, keep_same_image=keep_same_image)


def hardest_negatives(scores: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """Return (Q,) scores and (Q,) columns of each query's best-scoring negative; a query without negatives gets -inf.

    >>> hardest_negatives(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[False, True, True]]))
    (tensor([0.5000]), tensor([2]))
    """
    highest, columns = torch.where(negatives, full_precision(scores), float("-inf")).max(dim=1)
    return highest, columns


def log_shares(
    scores: Tensor, positive_scores: Tensor, negatives: Tensor, temperature: float | Tensor
) -> Tensor:
    """Compute the log-softmax of S / temperature over every query's list: its positive first, then its negatives.

    Candidates that are not negatives keep their column, with a share of zero.

    Returns:
        (Q, 1 + C).

    >>> scores = torch.tensor([[0.5, 0.5, 0.9]])
    >>> log_shares(scores, scores[:, 0], torch.tensor([[False, True, False]]), temperature=0.1).exp()
    tensor([[0.5000, 0.0000, 0.5000, 0.0000]])
    """
    check_shapes(scores, positive_scores, negatives)
    logits = torch.where(negatives, full_precision(scores) / temperature, LEFT_OUT)
    return torch.log_softmax(positive_first(full_precision(positive_scores) / temperature, logits), dim=1)


def positive_first(positive: Tensor, candidates: Tensor) -> Tensor:
    """Prepend each query's positive to its candidates: (Q,) and (Q, C) -> (Q, 1 + C).

    >>> positive_first(torch.tensor([1, 2]), torch.tensor([[3], [4]]))
    tensor([[1, 3],
            [2, 4]])
    """
    return torch.cat([positive[:, None], candidates], dim=1)
