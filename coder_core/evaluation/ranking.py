"""Rank every image and every caption among all candidates, ties counted. Section 4 of docs/equations.md.

Nothing is sorted: a rank is the number of candidates above the right answer, and one float32 product serves both
directions. It rounds differently from tile to tile, by about 1e-7; compared bare it would invent and miss ties. So the
product decides only what is clear: a candidate at p + δ or more is above a right answer that scores p, one under
p − δ is below. The few in between are compared by exact scores. δ is checked: the error of every right answer, read
from the very tiles, must stay under a quarter of δ, otherwise everything is counted again with a wider δ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.tiles import ScoreTiles

Ties = Literal["pessimistic", "optimistic"]

_ROWS, _COLUMNS = 512, 2560  # of a tile, 5 MiB: tall and wide enough for the product to run at full speed
_COUNTED_ROWS = 32  # rows compared at a time, kept in the core's cache; at most 255, counted in bytes
_GUARD = 4  # least δ over the largest rounding error of a right answer
_CROWDED = 64  # where one pair in so many is unclear, the whole tile is scored exactly
_NEAR_LINES = 128  # rows or columns of a tile in which unclear pairs are looked for at once
_SIDE = 512  # … in squares of this side
_PAIRS_WAITING = 1 << 16  # that exact scores are computed of at once: 1 MiB
_LISTED_ROWS = 256  # queries whose best are found at once, among _COLUMNS candidates: 2.5 MiB of scores
_SPARE = 8  # extra candidates of a list, so that rounding of the fast product hardly ever drops one
_WITHOUT_SIGN = (1 << 31) - 1


@dataclass(frozen=True)
class Ranks:
    """Ranks of the right answers; 0 is first.

    Args:
        image_ranks: (n,) int64, rank of an image's best own caption; −1 for an image without captions.
        text_ranks: (m,) int64, rank of a caption's image.
        image_ties: (n,) int64, candidates of other images that score exactly like the best own caption.
        text_ties: (m,) int64, other images that score exactly like the own one.
        image_best: (n, min(best, m)) int32, the best captions of every image, best first.
        text_best: (m, min(best, n)) int32, the best images of every caption, best first.
    """

    image_ranks: np.ndarray
    text_ranks: np.ndarray
    image_ties: np.ndarray
    text_ties: np.ndarray
    image_best: np.ndarray
    text_best: np.ndarray


def rank(scores: ScoreTiles, *, ties: Ties = "pessimistic", best: int = 10) -> Ranks:
    """Rank both ways without holding the matrix of scores.

    The other captions of an image never count against its best one. Any number of captions an image is legal; an image
    without captions asks no question (rank −1) but stays a candidate for the captions.

    >>> from coder_core.evaluation import ScoreMatrix, score_tiles
    >>> matrix = np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]])
    >>> rank(score_tiles([ScoreMatrix(matrix)], [0, 1, 2])).text_ranks
    array([1, 1, 0])

    Args:
        ties: "pessimistic" counts candidates scoring equal above the right answer, "optimistic" below.
        best: length of the lists of best candidates; 0 leaves them out. Among equal scores the own candidates come
            last, then the lower index first.
    """
    if ties not in ("pessimistic", "optimistic"):
        raise ValueError(f'ties must be "pessimistic" or "optimistic", got {ties!r}')
    images, texts = _count(scores)
    with_captions = torch.bincount(scores.image_of_text, minlength=scores.n) > 0
    counted = int(ties == "pessimistic")
    return Ranks(
        torch.where(with_captions, images.above + counted * images.level, -1).numpy(),
        (texts.above + counted * texts.level).numpy(),
        images.level.numpy(),
        texts.level.numpy(),
        best_lists(scores, best, by_image=True)[0],
        best_lists(scores, best, by_image=False)[0],
    )


class _Counts:
    """Candidates of other images above, and exactly level with, the best right answer of every query."""

    def __init__(self, queries: int) -> None:
        self.above, self.level = torch.zeros(2, queries, dtype=torch.int64)

    def add(self, queries: Tensor, scores: Tensor, own: Tensor) -> None:
        """Add P compared candidates: their queries, their exact scores, the right answers' of all queries."""
        self.above += torch.bincount(queries[scores > own[queries]], minlength=len(own))
        self.level += torch.bincount(queries[scores == own[queries]], minlength=len(own))


@dataclass
class _Tally:
    """One pass over all tiles: counts of clear cases, and the pairs to compare exactly.

    Args:
        images, texts: of both directions.
        near_images, near_texts: (2, P) pairs too close to the right answer of the image, of the caption.
        waiting: how many pairs these are.
        crowded: tiles full of such pairs, as a collapsed model has them.
        error: the largest rounding error of a right answer.
    """

    images: _Counts
    texts: _Counts
    near_images: list[Tensor] = field(default_factory=list)
    near_texts: list[Tensor] = field(default_factory=list)
    waiting: int = 0
    crowded: list[tuple[slice, slice]] = field(default_factory=list)
    error: float = 0.0


def _count(scores: ScoreTiles) -> tuple[_Counts, _Counts]:
    """Count both directions: images asking for captions, captions asking for images."""
    delta = 2 * scores.rounding_error()
    while True:
        tally = _count_tiles(scores, delta)
        if _GUARD * tally.error <= delta:
            break
        delta = 2 * _GUARD * tally.error
    _compare_exactly(scores, tally)
    return tally.images, tally.texts


def _count_tiles(scores: ScoreTiles, delta: float) -> _Tally:
    tally = _Tally(_Counts(scores.n), _Counts(scores.m))
    best = scores.best_by_image(scores.own)
    by_image, by_text = (
        torch.stack([own - delta, torch.nextafter(own + delta, own.new_tensor(torch.inf))])
        for own in (best, scores.own)
    )
    buffer = torch.empty(min(_ROWS, scores.n) * min(_COLUMNS, scores.m))
    for rows in _slices(scores.n, _ROWS):
        for columns in _slices(scores.m, _COLUMNS):
            height, width = rows.stop - rows.start, columns.stop - columns.start
            tile = scores.fast(rows, columns, buffer[: height * width].view(height, width))
            own = _own_entries(scores, rows, columns)
            if len(own[0]):
                error = (tile[own] - scores.own[own[1] + columns.start]).abs().max()
                tally.error = max(tally.error, float(error))
                tile[own] = -torch.inf
            _count_tile(tally, tile, by_image[:, rows], by_text[:, columns], rows, columns)
            if tally.waiting > _PAIRS_WAITING:
                _compare_pairs(scores, tally)
    return tally


def _count_tile(
    tally: _Tally, tile: Tensor, by_image: Tensor, by_text: Tensor, rows: slice, columns: slice
) -> None:
    """Count a tile. by_image (2, h), by_text (2, w): p − δ and p + δ of every right answer."""
    (image_low, image_high), (text_low, text_high) = _count_reaching(tile, by_image, by_text)
    unclear = max(int((image_low - image_high).sum()), int((text_low - text_high).sum()))
    if unclear * _CROWDED > tile.numel():
        tally.crowded.append((rows, columns))
        return
    tally.images.above[rows] += image_high
    tally.texts.above[columns] += text_high
    start = torch.tensor([[rows.start], [columns.start]])
    for near, lines, thresholds in (
        (tally.near_images, (image_low > image_high).nonzero()[:, 0], by_image),
        (tally.near_texts, (text_low > text_high).nonzero()[:, 0], by_text),
    ):
        by_row = thresholds is by_image
        for few in lines.split(_NEAR_LINES):
            some, (low, high) = (tile[few] if by_row else tile[:, few]), thresholds[:, few]
            low, high = (low[:, None], high[:, None]) if by_row else (low, high)
            i, j = ((some >= low) & ~(some >= high)).nonzero().T
            near.append(torch.stack([few[i], j] if by_row else [i, few[j]]) + start)
            tally.waiting += len(i)


def _count_reaching(tile: Tensor, by_row: Tensor, by_column: Tensor) -> tuple[Tensor, Tensor]:
    """(2, h) and (2, w): entries of every row and of every column at or above each of its two thresholds.

    NumPy counts booleans, a byte each, several times faster than PyTorch.
    """
    values, row_levels, column_levels = tile.numpy(), by_row.numpy(), by_column.numpy()
    rows, columns = np.empty(by_row.shape, np.int64), np.zeros(by_column.shape, np.int64)
    flags = np.empty((_COUNTED_ROWS, tile.shape[1]), bool)
    for part in _slices(len(tile), _COUNTED_ROWS):
        block, reached = values[part], flags[: part.stop - part.start]
        for k in range(2):
            np.greater_equal(block, row_levels[k, part, None], out=reached)
            rows[k, part] = [np.count_nonzero(row) for row in reached]
            np.greater_equal(block, column_levels[k], out=reached)
            columns[k] += reached.view(np.uint8).sum(0, dtype=np.uint8)
    return torch.from_numpy(rows), torch.from_numpy(columns)


def _compare_pairs(scores: ScoreTiles, tally: _Tally) -> None:
    """Decide the waiting pairs, and add them to the counts."""
    nothing = torch.empty(2, 0, dtype=torch.int64)
    by_image, by_text = (torch.cat([nothing, *near], 1) for near in (tally.near_images, tally.near_texts))
    own = _exact_own(scores, by_image[0], by_text[1])
    tally.images.add(by_image[0], scores.pairs(*by_image), scores.best_by_image(own))
    tally.texts.add(by_text[1], scores.pairs(*by_text), own)
    tally.near_images, tally.near_texts, tally.waiting = [], [], 0


def _compare_exactly(scores: ScoreTiles, tally: _Tally) -> None:
    """Decide what a fast product left unclear, and add it to the counts."""
    _compare_pairs(scores, tally)
    if not tally.crowded:
        return
    own = _exact_own(scores, scores.image_of_text, torch.arange(scores.m))
    best = scores.best_by_image(own)
    for tile in tally.crowded:
        for rows in _slices(tile[0].stop, _SIDE, tile[0].start):
            for columns in _slices(tile[1].stop, _SIDE, tile[1].start):
                square = scores.exact(rows, columns)
                square[_own_entries(scores, rows, columns)] = -torch.inf
                for counts, part, threshold, axis in (
                    (tally.images, rows, best[rows, None], 1),
                    (tally.texts, columns, own[columns], 0),
                ):
                    counts.above[part] += (square > threshold).sum(axis)
                    counts.level[part] += (square == threshold).sum(axis)


def _exact_own(scores: ScoreTiles, images: Tensor, texts: Tensor) -> Tensor:
    """(m,) the right answers' scores, exact for these images and captions."""
    if scores.always_exact:
        return scores.own
    needed = torch.zeros(scores.n, dtype=torch.bool).index_fill_(0, images, True)[scores.image_of_text]
    needed[texts] = True
    captions = needed.nonzero()[:, 0]
    return scores.own.index_copy(0, captions, scores.pairs(scores.image_of_text[captions], captions))


def _own_entries(scores: ScoreTiles, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
    """Rows and columns of matching pairs within a tile."""
    image = scores.image_of_text[columns]
    inside = ((image >= rows.start) & (image < rows.stop)).nonzero()[:, 0]
    return image[inside] - rows.start, inside


def best_lists(
    scores: ScoreTiles, best: int, *, by_image: bool, asking: Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The best captions of images, or images of captions: found by fast scores, ordered by exact ones.

    >>> from coder_core.evaluation import ScoreMatrix, score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.5, 0.25, 0.75], [0.25, 1.0, 0.5]]))], [0, 1, 1])
    >>> [array.tolist() for array in best_lists(tiles, 2, by_image=True)]
    [[[2, 0], [1, 2]], [[0.75, 0.5], [1.0, 0.5]]]

    Args:
        asking: (Q,) int64, the queries; None for all.

    Returns:
        (Q, min(best, C)) int32 candidates, best first as in `Ranks`, and their exact scores in float32.
    """
    every_image = torch.arange(scores.n)
    query_image, candidate_image = (
        (every_image, scores.image_of_text) if by_image else (scores.image_of_text, every_image)
    )
    asking = torch.arange(len(query_image)) if asking is None else asking
    queries, candidates = len(asking), len(candidate_image)
    width, looked_at = min(best, candidates), min(best + _SPARE, candidates)
    lists, listed = np.empty((queries, width), np.int32), np.empty((queries, width), np.float32)
    delta = 2 * scores.rounding_error() if width else 0.0
    for rows in _slices(queries, _LISTED_ROWS) if width else []:
        some = asking[rows]
        fast, candidate = _likeliest(scores, some, candidates, looked_at, by_image=by_image)
        query = some[:, None].expand_as(candidate)
        pairs = (query, candidate) if by_image else (candidate, query)
        exact = scores.pairs(*(side.reshape(-1) for side in pairs)).view(candidate.shape)
        own = candidate_image[candidate] == query_image[some, None]
        chosen, chosen_scores = _best_of(exact, own, candidate, width)
        if looked_at < candidates:
            # Score all candidates exactly where the list cannot be separated from unlisted ones.
            level = (fast[:, -1] >= chosen_scores[:, -1] - delta).nonzero()[:, 0]
            for part in level.split(max(1, _PAIRS_WAITING // candidates)) if len(level) else ():
                close, every = some[part], torch.arange(candidates).expand(len(part), -1)
                pieces = [
                    scores.exact(close, columns) if by_image else scores.exact(columns, close).T
                    for columns in _slices(candidates, _SIDE)
                ]
                own = candidate_image[None] == query_image[close, None]
                chosen[part], chosen_scores[part] = _best_of(torch.cat(pieces, 1), own, every, width)
        lists[rows], listed[rows] = chosen.numpy(), chosen_scores.numpy()
    return lists, listed


def _likeliest(
    scores: ScoreTiles, some: Tensor, candidates: int, count: int, *, by_image: bool
) -> tuple[Tensor, Tensor]:
    """(Q, count) the largest fast scores of some queries, and whose they are, found tile by tile."""
    best, whose = torch.empty(len(some), 0), torch.empty(len(some), 0, dtype=torch.int64)
    for columns in _slices(candidates, _COLUMNS):
        tile = scores.fast(some, columns) if by_image else scores.fast(columns, some).T
        largest, place = torch.topk(tile, min(count, tile.shape[1]), dim=1)
        best, whose = torch.cat([best, largest], 1), torch.cat([whose, place + columns.start], 1)
        best, chosen = torch.topk(best, min(count, best.shape[1]), dim=1)
        whose = whose.gather(1, chosen)
    return best, whose


def _best_of(scores: Tensor, own: Tensor, candidate: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Per row the `width` best candidates, best first, and their scores; all (rows, candidates looked at).

    Among equal scores the own candidates come last, then the lower index first: all in one whole number to sort by. The
    bits of a float32 without its sign grow with it, so they take the high bits.
    """
    bits = (scores + 0.0).view(torch.int32).long()  # −0.0 becomes 0.0
    order = torch.where(bits < 0, -(bits & _WITHOUT_SIGN), bits)
    key = (order << 32) | (torch.where(own, 0, 1) << 31) | (_WITHOUT_SIGN - candidate)
    position = torch.topk(key, width, dim=1).indices
    return candidate.gather(1, position), scores.gather(1, position)


def _slices(stop: int, step: int, start: int = 0) -> list[slice]:
    return [slice(first, min(first + step, stop)) for first in range(start, stop, step)]
