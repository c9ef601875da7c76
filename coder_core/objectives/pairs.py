"""Pairs of a batch: who is compared with whom, the scores in both directions, the negatives of every anchor.

A batch consists of pairs of an image and one of its captions, so the positive of row i is in column i, or, when the
candidates were gathered from several processes, in column i + offset. From top to bottom: scorers; the pairs of this
process among those of all processes; directions and their negatives; helpers for the scores of a query's candidates.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from coder_core.objectives.memory import CoupledBank
from coder_core.ops import full_precision, mean_of_parts, normalise, parallel

LEFT_OUT = -1e4  # logit of an excluded candidate: softmax 0 in float32 and float64, log-softmax finite


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


class _Unpadded(NamedTuple):
    """Lengths of samples that have none."""

    images: None = None
    texts: None = None


@dataclass(frozen=True)
class Anchors:
    """This process's pairs and their candidates. The scorer determines the sample shape (`…`)."""

    images: Tensor  # (B, …, D) with gradient
    texts: Tensor  # (B, …, D) with gradient
    all_images: Tensor  # (world · B, …, D) with gradient
    all_texts: Tensor  # (world · B, …, D) with gradient
    image_ids: Tensor  # (B,), (B, K) or (B, 2, K) ids of the pairs, see `same_image_negatives`
    all_image_ids: Tensor  # those of the world · B pairs
    offset: int  # row of this process's first pair among those of all processes
    scorer: Scorer
    lengths: Lengths | None = None  # of this process's pairs; read by a local scorer
    all_lengths: Lengths | None = None  # of all processes' pairs


class Keys(NamedTuple):
    """Momentum keys of this process's pairs, and the bank of earlier ones."""

    images: Tensor  # (B, D)
    texts: Tensor  # (B, D)
    bank: CoupledBank


class Direction(NamedTuple):
    """One direction of retrieval: the first three arguments of every objective."""

    scores: Tensor  # (Q, C) similarity of every query to every candidate
    positive_scores: Tensor  # (Q,) similarity of every query to its partner
    negatives: Tensor  # (Q, C) bool


Teacher = tuple[Tensor, Tensor]
"""(Q, C) scores of another branch for the same queries and candidates, and (Q,) of the positives."""


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
        image_ids: (B,), (B, K) or (B, 2, K), see `same_image_negatives`.
        scorer: of the pairs; None uses the cosine.
        lengths: of the pairs, for a local scorer.

    >>> gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([7, 8])).all_image_ids
    tensor([7, 8])
    """
    all_lengths = None
    if lengths is not None:
        all_lengths = Lengths(parallel.gather_rows(lengths.images), parallel.gather_rows(lengths.texts))
    return Anchors(
        images=images,
        texts=texts,
        all_images=_gather(images),
        all_texts=_gather(texts),
        image_ids=image_ids,
        all_image_ids=parallel.gather_rows(image_ids),
        offset=parallel.rank() * len(image_ids),
        scorer=scorer or CosineScorer(),
        lengths=lengths,
        all_lengths=all_lengths,
    )


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
    here = anchors.lengths or _Unpadded()
    everywhere = anchors.all_lengths or _Unpadded()
    forward = anchors.scorer(anchors.images, anchors.all_texts, here.images, everywhere.texts)
    if parallel.world_size() == 1:
        return forward, forward.T
    back = anchors.scorer(anchors.all_images, anchors.texts, everywhere.images, here.texts)
    return forward, back.T


def batch_directions(anchors: Anchors, *, keep_same_image: bool) -> Iterator[Direction]:
    """Yield this process's images against all texts, then its texts against all images, with their negatives.

    >>> anchors = gather_anchors(torch.eye(2), torch.eye(2), torch.tensor([7, 7]))
    >>> [way.negatives.any().item() for way in batch_directions(anchors, keep_same_image=False)]
    [False, False]
    """
    for scores in batch_scores(anchors):
        yield in_batch_direction(
            scores,
            anchors.image_ids,
            anchors.all_image_ids,
            keep_same_image=keep_same_image,
            positive_offset=anchors.offset,
        )


def mean_vectors(anchors: Anchors) -> Anchors:
    """Return the pairs with one vector per sample: the mean of its parts if the scorer compares several.

    >>> mean_vectors(gather_anchors(torch.ones(2, 3, 4), torch.ones(2, 5, 4), torch.tensor([7, 8]))).images.shape
    torch.Size([2, 4])
    """
    local = anchors.scorer.local
    here = (anchors.lengths if local else None) or _Unpadded()
    everywhere = (anchors.all_lengths if local else None) or _Unpadded()
    return replace(
        anchors,
        images=mean_of_parts(anchors.images, here.images),
        texts=mean_of_parts(anchors.texts, here.texts),
        all_images=mean_of_parts(anchors.all_images, everywhere.images),
        all_texts=mean_of_parts(anchors.all_texts, everywhere.texts),
    )


def pairs_of(
    images: Tensor,
    texts: Tensor,
    image_ids: Any = None,
    *,
    new_id: int = 0,
    names: tuple[str, str] = ("image_embeddings", "text_embeddings"),
) -> Anchors:
    """Check and normalise a batch of pairs and gather those of all processes; without ids they are numbered from
    `new_id`. ValueError: see `modules.py`; it names the
    arguments by `names`.

    >>> pairs_of(torch.tensor([[3.0, 4.0], [0.0, 2.0]]), torch.eye(2)).images
    tensor([[0.6000, 0.8000],
            [0.0000, 1.0000]])
    """
    if images.ndim != 2 or images.shape != texts.shape:
        shapes = f"{names[0]} are {tuple(images.shape)}, {names[1]} {tuple(texts.shape)}"
        raise ValueError(f"{shapes}: give both as (pairs, dimension), row i of both being one pair")
    for name, rows in zip(names, (images, texts), strict=True):
        check_finite(name, rows)

    count = len(images)
    device = images.device
    precision = torch.promote_types(images.dtype, texts.dtype)
    if image_ids is None:
        image_ids = torch.arange(count, device=device) + new_id + parallel.rank() * count

    numbers = _whole_numbers(image_ids, count)
    anchors = gather_anchors(
        normalise(images.to(precision)), normalise(texts.to(precision)), numbers.to(device)
    )
    ids = anchors.all_image_ids
    first_has_none = not bool(same_image_negatives(ids[:1], ids).any())
    if first_has_none and not bool(same_image_negatives(ids, ids).any()):
        size = "one pair" if len(ids) == 1 else f"{len(ids)} pairs of one image"
        fix = "shuffle the data, and drop a last batch that is too small (drop_last=True)"
        raise ValueError(f"a batch of {size} has no negatives: {fix}")

    return anchors


def check_width(embeddings: Tensor, dimension: int) -> None:
    """Raise ValueError if (B, D) embeddings do not have the dimension that a loss was made for.

    >>> check_width(torch.eye(2), 2)
    """
    if embeddings.shape[1] != dimension:
        raise ValueError(
            f"embeddings have {embeddings.shape[1]} numbers per row: the loss was made for {dimension}"
        )


def check_numbers(name: str, numbers: Tensor, first: int, end: int) -> None:
    """Raise ValueError if a number is below `first` or not below `end`.

    >>> check_numbers("text_ids", torch.tensor([0, 3]), 0, 4)
    """
    if bool(((numbers < first) | (numbers >= end)).any()):
        extent = f"{int(numbers.min())} to {int(numbers.max())}"
        raise ValueError(f"{name} are {extent}: give numbers from {first} to {end - 1}")


def check_finite(name: str, rows: Tensor) -> None:
    """Raise ValueError, naming the row, if a number of (B, D) `rows` is not finite or a row is too long for float32.

    >>> check_finite("weights", torch.ones(2, 1))
    """
    finite = torch.isfinite(full_precision(rows).square().sum(1))  # a sum beyond float32 has no length
    if bool(finite.all()):
        return
    row = int((~finite).nonzero()[0])
    if rows.dtype == torch.float16 and not bool(rows.isnan().any()):
        raise ValueError(f"{name}, row {row}, overflowed float16: compute them in bfloat16 or float32")
    problem = "is too long" if bool(rows[row].isfinite().all()) else "is not finite"
    raise ValueError(f"{name}, row {row}, {problem}: look at that sample, or lower the learning rate")


def _whole_numbers(image_ids: Any, count: int) -> Tensor:
    """Return image ids as a (count,), (count, K) or (count, 2, K) tensor of integers."""
    try:
        numbers = torch.as_tensor(image_ids)
    except (TypeError, ValueError):  # strings, or rows of different lengths
        kind = f"{type(image_ids).__name__} of {type(next(iter(image_ids), None)).__name__}"
    else:
        is_whole = not numbers.is_floating_point() and numbers.dtype != torch.bool
        fits = numbers.ndim in (1, 2) or (numbers.ndim == 3 and numbers.shape[1] == 2)
        if is_whole and fits and len(numbers) == count and numbers.numel() > 0:
            return numbers
        kind = f"{numbers.dtype} {tuple(numbers.shape)}".removeprefix("torch.")
    raise ValueError(f"image_ids are {kind}: give {count} integers, one for every pair")


def check_shapes(scores: Tensor, positive_scores: Tensor | None, negatives: Tensor) -> None:
    """Raise ValueError if the arguments of an objective differ in size: torch would broadcast them silently.

    >>> check_shapes(torch.zeros(2, 3), torch.zeros(2), torch.ones(2, 3, dtype=torch.bool))
    """
    of_positives = scores.shape[:1] if positive_scores is None else positive_scores.shape
    if scores.ndim != 2 or of_positives != scores.shape[:1] or negatives.shape != scores.shape:
        given = f"{tuple(scores.shape)}, {tuple(of_positives)} and {tuple(negatives.shape)}"
        expected = "(queries, candidates), (queries,) and (queries, candidates)"
        raise ValueError(f"scores, positive_scores and negatives are {given}: give {expected}")


def check_branches(target: Direction, teacher: Teacher) -> None:
    """Raise ValueError if the scores of two branches differ in size, like `check_shapes`.

    >>> target = Direction(torch.zeros(2, 3), torch.zeros(2), torch.ones(2, 3, dtype=torch.bool))
    >>> check_branches(target, (torch.zeros(2, 3), torch.zeros(2)))
    """
    scores, positive_scores = teacher
    check_shapes(target.scores, target.positive_scores, target.negatives)
    check_shapes(scores, positive_scores, target.negatives)


def same_image_negatives(
    query_ids: Tensor,
    candidate_ids: Tensor,
    keep_same_image: bool = False,
    *,
    positive_offset: int | None = 0,
) -> Tensor:
    """Mark the candidates that are negatives of each query: those of another image.

    With several columns of ids, such as one of products and one of texts, negatives differ in every column: pairs of one
    product, or with equal texts, are not negatives of each other. With different ids of the image and of the caption of a
    pair, no image has an id of the other pair's caption: an image with the titles "shoe" and "red shoe" then has no pair
    of one of these titles as a negative.

    The paper does not mention other captions of the query's image, and no code that CODER builds on masks them, although
    a bank of 4096 on Flickr30K contains one for 10.7% of the queries. `keep_same_image` is that literal reading.

    Args:
        query_ids: (Q,) or (Q, K) ids of every query, such as its image's; or (Q, 2, K) those of the image and of the
            caption of its pair.
        candidate_ids: (C,), (C, K) or (C, 2, K) ids of every candidate.
        keep_same_image: every candidate except the positive itself is a negative.
        positive_offset: the positive of query i is candidate i + positive_offset; None if the positives are not
            among the candidates, as with a bank. Only used with `keep_same_image`.

    Returns:
        (Q, C) bool.

    >>> same_image_negatives(torch.tensor([7, 7, 8]), torch.tensor([7, 7, 8])).int()
    tensor([[0, 0, 1],
            [0, 0, 1],
            [1, 1, 0]], dtype=torch.int32)
    >>> products_and_texts = torch.tensor([[7, 0], [7, 1], [8, 1]])
    >>> same_image_negatives(products_and_texts, products_and_texts).int()
    tensor([[0, 0, 1],
            [0, 0, 0],
            [1, 0, 0]], dtype=torch.int32)
    >>> has_both_titles = torch.tensor([[[0, 1], [0, 0]], [[1, 1], [1, 1]], [[2, 2], [2, 2]]])
    >>> same_image_negatives(has_both_titles, has_both_titles).int()
    tensor([[0, 0, 1],
            [0, 0, 1],
            [1, 1, 0]], dtype=torch.int32)
    """
    if not keep_same_image and query_ids.ndim == 3:
        of_image = _differ(query_ids[:, 0], candidate_ids[:, 1])
        return of_image & _differ(query_ids[:, 1], candidate_ids[:, 0])
    if not keep_same_image:
        return _differ(query_ids, candidate_ids)
    negatives = torch.ones(len(query_ids), len(candidate_ids), dtype=torch.bool, device=query_ids.device)
    if positive_offset is not None:
        negatives.diagonal(positive_offset).fill_(False)
    return negatives


def _differ(ids: Tensor, others: Tensor) -> Tensor:
    """Return (Q, C) bool: the pairs of rows, (Q,) and (C,) or (Q, K) and (C, K), that differ in every column."""
    if ids.ndim == 1:
        return ids[:, None] != others[None, :]
    differ = ids[:, 0, None] != others[None, :, 0]
    for column in range(1, ids.shape[1]):
        differ &= ids[:, column, None] != others[None, :, column]
    return differ


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
        query_ids: (Q,) or (Q, K) image ids of the queries.
        candidate_ids: (C,) or (C, K) image ids of the candidates.
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
    negatives = same_image_negatives(
        query_ids, candidate_ids, keep_same_image, positive_offset=positive_offset
    )
    return Direction(scores, scores.diagonal(positive_offset), negatives)


def both_directions(
    scores: Tensor, image_ids: Tensor, *, keep_same_image: bool = False
) -> tuple[Direction, Direction]:
    """Split a square batch into image to text and text to image; row i and column i are one pair.

    Args:
        scores: (B, B) similarity of images (rows) to captions (columns).
        image_ids: (B,), (B, K) or (B, 2, K).
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
