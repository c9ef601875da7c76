"""Rank every image and every caption among all candidates, ties counted. Section 4 of docs/equations.md.

Nothing is sorted: a rank is the number of candidates above the right answer, and one float32 product serves both
directions. Its rounding differs between tiles by about 1e-7, which would create and hide ties. So the product decides
only clear cases: a candidate above p + δ is above a right answer that scores p, one below p − δ is below it. The few in
between are compared by exact scores. δ is verified: the error of every right answer's score in the tiles must be at
most a quarter of δ; otherwise everything is counted again with a wider δ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from coder_core.console.progress import Progress, named, silent
from coder_core.evaluation.graded import LISTED
from coder_core.evaluation.sources import slices
from coder_core.evaluation.tiles import Rows, ScoreTiles

Ties = Literal["pessimistic", "optimistic"]

# shape of a tile, 5 MiB: large enough for the product to run at full speed
_ROWS = 512
_COLUMNS = 2560
_COUNTED_ROWS = 32  # rows compared at once, which fit the core's cache; at most 255, as counts are uint8
_GUARD = 4  # least ratio of δ to the largest rounding error of a right answer
_CROWDED = 64  # if more than one pair in so many is unclear, the whole tile is scored exactly
_NEAR_LINES = 128  # rows or columns of a tile searched for unclear pairs at once
_SIDE = 512  # candidates scored exactly at once
_EXACT_PAIRS = 1 << 16  # pairs scored exactly at once: 1 MiB
_LISTED_ROWS = 256  # queries listed at once, among _COLUMNS candidates: 2.5 MiB of scores
_PAIRS = 1024  # judged pairs whose query's candidates are counted at once, among _COLUMNS: 10 MiB of scores
_SPARE = 8  # extra candidates of a list, so that rounding of the fast product rarely drops one
_WITHOUT_SIGN = (1 << 31) - 1


@dataclass(frozen=True)
class Ranks:
    """Ranks of the right answers; 0 is first."""

    # (n,) int64, rank of an image's best own caption; −1 for an image without captions
    image_ranks: np.ndarray
    text_ranks: np.ndarray  # (m,) int64, rank of a caption's image
    # (n,) int64, candidates of other images that score exactly like the best own caption
    image_ties: np.ndarray
    text_ties: np.ndarray  # (m,) int64, other images that score exactly like the caption's image
    image_best: np.ndarray  # (n, min(best, m)) int32, the best captions of every image, best first
    text_best: np.ndarray  # (m, min(best, n)) int32, the best images of every caption, best first
    image_hits: np.ndarray  # (n, 10) bool, which of an image's ten best captions are its own


def rank(
    scores: ScoreTiles, *, ties: Ties = "pessimistic", best: int = 10, progress: Progress = silent
) -> Ranks:
    """Rank in both directions without holding the whole score matrix.

    The other captions of an image never count against its best one. An image may have any number of captions; without
    captions it is not a query (rank −1) but remains a candidate for the captions.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> matrix = np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]])
    >>> rank(score_tiles([ScoreMatrix(matrix)], [0, 1, 2])).text_ranks
    array([1, 1, 0])

    Args:
        ties: "pessimistic" counts candidates with an equal score above the right answer, "optimistic" below.
        best: length of the lists of best candidates; 0 leaves them empty. Among equal scores, own candidates come last
            (optimistic: first), and otherwise lower indices come first.
    """
    if ties not in ("pessimistic", "optimistic"):
        raise ValueError(f'ties must be "pessimistic" or "optimistic", got {ties!r}')
    images, texts, nearest, delta = _count(scores, named(progress, "counting"))
    with_captions = torch.bincount(scores.image_of_text, minlength=scores.n) > 0
    counted = int(ties == "pessimistic")
    return Ranks(
        torch.where(with_captions, images.above + counted * images.level, -1).numpy(),
        (texts.above + counted * texts.level).numpy(),
        images.level.numpy(),
        texts.level.numpy(),
        best_lists(scores, best, by_image=True, ties=ties, progress=named(progress, "listing captions"))[0],
        best_lists(scores, best, by_image=False, ties=ties, progress=named(progress, "listing images"))[0],
        _own_hits(scores, nearest, delta, ties),
    )


class _Counts:
    """Numbers of other images' candidates above, and exactly level with, the best right answer of every query.

    Args:
        own: (Q,) exact scores p of the right answers.
        delta: largest rounding error allowed for a fast score.

    Attributes:
        ends: (2, Q) p − δ, and the next number above p + δ.
    """

    def __init__(self, own: Tensor, delta: float) -> None:
        self.own = own
        self.ends = torch.stack([own - delta, torch.nextafter(own + delta, own.new_tensor(torch.inf))])
        self.above, self.level = torch.zeros(2, len(own), dtype=torch.int64)

    def add(self, queries: Tensor, scores: Tensor) -> None:
        """Add P compared candidates: their queries and their exact scores."""
        own = self.own[queries]
        self.above.index_add_(0, queries, (scores > own).long())
        self.level.index_add_(0, queries, (scores == own).long())


def _count(scores: ScoreTiles, progress: Progress) -> tuple[_Counts, _Counts, np.ndarray, float]:
    """Count both directions: images as queries for captions, captions as queries for images. Also return (n, 10) the
    largest fast scores of every image with captions of other images, and δ."""
    # of an image without captions
    delta = 2 * scores.error
    none = torch.full((scores.n,), torch.inf)
    best_own = none.scatter_reduce(0, scores.image_of_text, scores.own, "amax", include_self=False)
    while True:
        images = _Counts(best_own, delta)
        texts = _Counts(scores.own, delta)
        nearest = np.full((scores.n, LISTED), -np.inf, np.float32)
        error = _count_tiles(scores, images, texts, nearest, delta, progress)
        if _GUARD * error <= delta:
            return images, texts, nearest, delta
        delta = 2 * _GUARD * error


def _count_tiles(
    scores: ScoreTiles, images: _Counts, texts: _Counts, nearest: np.ndarray, delta: float, progress: Progress
) -> float:
    """Count all tiles and fill `nearest`; return the largest error of a right answer's fast score. Stop early if δ is
    too small for it."""
    largest = 0.0
    buffer = torch.empty(min(_ROWS, scores.n) * min(_COLUMNS, scores.m))
    for rows in slices(scores.n, _ROWS):
        for columns in slices(scores.m, _COLUMNS):
            height = rows.stop - rows.start
            width = columns.stop - columns.start
            tile = scores.fast(rows, columns, buffer[: height * width].view(height, width))
            own = _own_entries(scores, rows, columns)
            if len(own[0]):
                error = (tile[own] - scores.own[own[1] + columns.start]).abs().max()
                largest = max(largest, float(error))
                tile[own] = -torch.inf
            for part in slices(height, _COUNTED_ROWS):
                of_part = nearest[rows][part]
                joined = np.concatenate([of_part, tile[part]], axis=1)
                joined.partition(-LISTED, axis=1)
                of_part[:] = joined[:, -LISTED:]
            if not _count_clear(scores, tile, images, texts, rows, columns):
                exact = scores.exact(rows, columns)
                exact[own] = -torch.inf
                for counts, part, own_scores, axis in (
                    (images, rows, images.own[rows, None], 1),
                    (texts, columns, texts.own[columns], 0),
                ):
                    counts.above[part] += (exact > own_scores).sum(axis)
                    counts.level[part] += (exact == own_scores).sum(axis)
        if _GUARD * largest > delta:
            break
        progress(rows.stop, scores.n)
    return largest


def _count_clear(
    scores: ScoreTiles, tile: Tensor, images: _Counts, texts: _Counts, rows: slice, columns: slice
) -> bool:
    """Count a tile: clear cases by fast scores, the few others by exact ones. If too many are unclear, return False and
    count nothing."""
    reached = _count_reaching(tile, images.ends[:, rows], texts.ends[:, columns])
    if max(int((low - high).sum()) for low, high in reached) * _CROWDED > tile.numel():
        return False
    for (low, high), counts, values, queries, candidates in (
        (reached[0], images, tile, rows, columns),
        (reached[1], texts, tile.T, columns, rows),
    ):
        counts.above[queries] += high
        for lines in (low > high).nonzero()[:, 0].split(_NEAR_LINES):
            near = values[lines]
            (start, end) = counts.ends[:, queries][:, lines, None]
            i, j = ((near >= start) & ~(near >= end)).nonzero().T
            query = lines[i] + queries.start
            candidate = j + candidates.start
            pairs = (query, candidate) if counts is images else (candidate, query)
            counts.add(query, scores.pairs(*pairs))
    return True


def _count_reaching(tile: Tensor, by_row: Tensor, by_column: Tensor) -> tuple[Tensor, Tensor]:
    """Count the entries of every row (2, h) and every column (2, w) at or above each of its two ends. NumPy counts
    booleans several times faster than PyTorch."""
    values = tile.numpy()
    row_ends = by_row.numpy()
    column_ends = by_column.numpy()
    rows = np.empty(by_row.shape, np.int64)
    columns = np.zeros(by_column.shape, np.int64)
    flags = np.empty((_COUNTED_ROWS, tile.shape[1]), bool)
    for part in slices(len(tile), _COUNTED_ROWS):
        block = values[part]
        reached = flags[: part.stop - part.start]
        for k in range(2):
            np.greater_equal(block, row_ends[k, part, None], out=reached)
            rows[k, part] = [np.count_nonzero(row) for row in reached]
            np.greater_equal(block, column_ends[k], out=reached)
            columns[k] += reached.view(np.uint8).sum(0, dtype=np.uint8)
    return torch.from_numpy(rows), torch.from_numpy(columns)


def _own_entries(scores: ScoreTiles, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
    """Return the rows and the columns of matching pairs within a tile."""
    image = scores.image_of_text[columns]
    inside = ((image >= rows.start) & (image < rows.stop)).nonzero()[:, 0]
    return image[inside] - rows.start, inside


def _own_hits(scores: ScoreTiles, nearest: np.ndarray, delta: float, ties: Ties) -> np.ndarray:
    """Return (n, 10) bool: which of an image's ten best captions are its own, by exact scores where rounding matters.

    Args:
        nearest: (n, 10) the largest fast scores of other images' captions. delta: their largest rounding error.
    """
    owner = scores.image_of_text.numpy()
    own = scores.own.numpy()
    order = np.lexsort((-own, owner))
    owner = owner[order]
    own = own[order]
    gaps = nearest[owner] - own[:, None]
    ranks = np.arange(len(own)) - np.searchsorted(owner, owner) + (gaps > 0).sum(1)
    hits = np.zeros((scores.n, LISTED + 1), bool)
    hits[owner, np.minimum(ranks, LISTED)] = True
    unclear = np.unique(owner[(np.abs(gaps) <= delta).any(1)])
    best, _ = best_lists(scores, LISTED, by_image=True, asking=torch.from_numpy(unclear), ties=ties)
    hits[unclear, : best.shape[1]] = scores.image_of_text.numpy()[best] == unclear[:, None]
    return hits[:, :LISTED]


def best_lists(
    scores: ScoreTiles,
    best: int,
    *,
    by_image: bool,
    asking: Tensor | None = None,
    ties: Ties = "pessimistic",
    progress: Progress = silent,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the best captions of images, or images of captions, by fast scores, and order them by exact ones.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.5, 0.25, 0.75], [0.25, 1.0, 0.5]]))], [0, 1, 1])
    >>> [array.tolist() for array in best_lists(tiles, 2, by_image=True)]
    [[[2, 0], [1, 2]], [[0.75, 0.5], [1.0, 0.5]]]

    Args:
        asking: (Q,) int64, the queries; None for all.
        ties: "optimistic" puts own candidates first among equal scores.

    Returns:
        (Q, min(best, C)) int32 candidates, best first as in `Ranks`, and their exact scores in float32.
    """
    images_of = torch.arange(scores.n), scores.image_of_text
    query_image, candidate_image = images_of if by_image else images_of[::-1]
    asking = torch.arange(len(query_image)) if asking is None else asking
    queries = len(asking)
    candidates = len(candidate_image)
    width = min(best, candidates)
    looked_at = min(best + _SPARE, candidates)
    lists = np.empty((queries, width), np.int32)
    list_scores = np.empty((queries, width), np.float32)

    def comes_last(query: Tensor, candidate: Tensor) -> Tensor:
        return (candidate_image[candidate] == query_image[query]) == (ties == "pessimistic")

    for rows in slices(queries, _LISTED_ROWS) if width else []:
        some = asking[rows]
        fast, candidate = _likeliest(scores, some, candidates, looked_at, by_image=by_image)
        query = some[:, None].expand_as(candidate)
        pairs = (query, candidate) if by_image else (candidate, query)
        exact = scores.pairs(*(side.reshape(-1) for side in pairs)).view(candidate.shape)
        lists_of_rows, scores_of_rows = _best_of(exact, comes_last(query, candidate), candidate, width)
        if looked_at < candidates:
            # Score all candidates exactly where the list cannot be separated from unlisted ones.
            level = (fast[:, -1] >= scores_of_rows[:, -1] - 2 * scores.error).nonzero()[:, 0]
            for part in level.split(max(1, _EXACT_PAIRS // candidates)) if len(level) else ():
                close = some[part]
                every = torch.arange(candidates).expand(len(part), -1)
                pieces = [
                    scores.exact(close, columns) if by_image else scores.exact(columns, close).T
                    for columns in slices(candidates, _SIDE)
                ]
                found = _best_of(torch.cat(pieces, 1), comes_last(close[:, None], every), every, width)
                lists_of_rows[part], scores_of_rows[part] = found
        lists[rows] = lists_of_rows.numpy()
        list_scores[rows] = scores_of_rows.numpy()
        progress(rows.stop, queries)
    return lists, list_scores


def _likeliest(
    scores: ScoreTiles, some: Tensor, candidates: int, count: int, *, by_image: bool
) -> tuple[Tensor, Tensor]:
    """Return (Q, count) the largest fast scores of some queries, and their candidates, found tile by tile."""
    best = torch.empty(len(some), 0)
    whose = torch.empty(len(some), 0, dtype=torch.int64)
    for columns in slices(candidates, _COLUMNS):
        tile = scores.fast(some, columns) if by_image else scores.fast(columns, some).T
        better = int((tile > best[:, -1:]).sum(1).amax()) if best.shape[1] == count else count
        if better == 0:
            continue
        largest, column = torch.topk(tile, min(better, tile.shape[1]), dim=1)
        best = torch.cat([best, largest], 1)
        whose = torch.cat([whose, column + columns.start], 1)
        best, order = torch.topk(best, min(count, best.shape[1]), dim=1)
        whose = whose.gather(1, order)
    return best, whose


def _best_of(scores: Tensor, last: Tensor, candidate: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the `width` best candidates of each row, best first, and their scores; arguments are (rows, candidates).

    Among equal scores, candidates marked in `last` come last, and otherwise lower indices first. One whole number per
    candidate encodes this order; its high bits are those of the float32 score, which increase with its absolute value.
    """
    bits = (scores + 0.0).view(torch.int32).long()  # −0.0 becomes 0.0
    order = torch.where(bits < 0, -(bits & _WITHOUT_SIGN), bits)
    key = (order << 32) | (torch.where(last, 0, 1) << 31) | (_WITHOUT_SIGN - candidate)
    position = torch.topk(key, width, dim=1).indices
    return candidate.gather(1, position), scores.gather(1, position)


def judged_ranks(
    scores: ScoreTiles, queries: np.ndarray, candidates: np.ndarray, grades: np.ndarray, *, by_image: bool
) -> np.ndarray:
    """Return (P,) float64 ranks of relevant documents among all candidates, 0 is first; inf for other pairs, and for
    candidate −1, a document that is not in the split.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.tiles import score_tiles
    >>> tiles = score_tiles([ScoreMatrix(np.array([[0.5, 0.5, 0.5, 0.9]]))], [0, 0, 0, 0])
    >>> judged_ranks(tiles, np.zeros(3, int), np.array([0, 1, 3]), np.array([2, 1, 0]), by_image=True)
    array([ 3.,  2., inf])

    Args:
        queries, candidates, grades: (P,) int64; every pair once.
        by_image: True if the queries are images.
    """
    ranks = np.full(len(queries), np.inf)
    rows = np.flatnonzero((grades > 0) & (candidates >= 0))
    pairs = [torch.from_numpy(side[rows]) for side in (queries, candidates)]
    own = scores.pairs(*(pairs if by_image else pairs[::-1])).numpy()
    # Among documents of equal score, relevant ones come last, the highest grade at the very end.
    order = np.lexsort((grades[rows], -own, queries[rows]))
    rows, own, query = rows[order], own[order], queries[rows[order]]
    starts = np.flatnonzero((np.diff(query, prepend=-1) > 0) | (np.diff(own, prepend=np.inf) < 0))
    sizes = np.diff(np.append(starts, len(rows)))  # of the groups of equal score
    position = np.arange(len(rows)) - np.repeat(starts + sizes, sizes)
    ranks[rows] = _reaching(scores, query, candidates[rows], own, by_image=by_image) + position
    return ranks


def _reaching(
    scores: ScoreTiles, queries: np.ndarray, candidates: np.ndarray, own: np.ndarray, *, by_image: bool
) -> np.ndarray:
    """Count, (P,), the candidates that score at least as high as each pair. Queries ascend; `own` are exact scores."""

    def tile(score: Callable[[Rows, Rows], Tensor], asking: np.ndarray, columns: slice) -> np.ndarray:
        rows = torch.from_numpy(asking)
        return (score(rows, columns) if by_image else score(columns, rows).T).numpy()

    delta = np.float32(2 * scores.error)
    while True:
        low = own - delta
        high = np.nextafter(own + delta, np.float32(np.inf))
        reaching = np.zeros(len(own), np.int64)
        error = 0.0
        of_all = slices(scores.m if by_image else scores.n, _COLUMNS)
        for part, columns in product(slices(len(own), _PAIRS), of_all):
            asking, line = np.unique(queries[part], return_inverse=True)
            values = tile(scores.fast, asking, columns)[line]
            own_here = own[part]
            position = candidates[part] - columns.start
            inside = np.flatnonzero((position >= 0) & (position < values.shape[1]))
            errors = np.abs(values[inside, position[inside]] - own_here[inside])
            error = max(error, float(errors.max(initial=0)))
            above = values >= high[part, None]
            near = np.flatnonzero((values >= low[part, None]) ^ above)
            if len(near) * _CROWDED > values.size:
                above = tile(scores.exact, asking, columns)[line] >= own_here[:, None]
            else:
                pair, candidate = divmod(near, values.shape[1])
                pairs = [torch.from_numpy(side) for side in (asking[line[pair]], candidate + columns.start)]
                level = scores.pairs(*(pairs if by_image else pairs[::-1])).numpy() >= own_here[pair]
                reaching[part] += np.bincount(pair[level], minlength=len(line))
            reaching[part] += [np.count_nonzero(row) for row in above]
        if _GUARD * error <= delta:
            return reaching
        delta = np.float32(2 * _GUARD * error)
