"""The best candidates of every query, in order of their exact scores. Section 4 of docs/equations.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.nearest import NearestRows, joined, of_embeddings
from coder_core.evaluation.relevance import Relation
from coder_core.evaluation.score_blocks import BLOCK_ELEMENTS, Block, HighScores, high_scores, true_pairs
from coder_core.evaluation.scores import EVERY, Scores, Ties
from coder_core.evaluation.sources import slices

_GROUPS = 128  # groups of candidates whose largest scores bound the scores of a list
_GROUPS_PER_PLACE = 8  # … of a long list
_LISTED = (
    1 / 16
)  # of the scores of a block are picked out for lists; if more may belong there, all are sorted
_SPARE = 8  # extra candidates of a list, so that rounding of the fast product rarely drops one
_EXACT_PAIRS = 1 << 16  # pairs scored exactly at once for lists
_WITHOUT_SIGN = (1 << 31) - 1


class LargestScores:
    """The largest scores of every query, best first, and their candidates: as many as a list has, and a few more."""

    def __init__(self, scores: Scores, *, by_row: bool, length: int) -> None:
        queries, candidates = scores.shape if by_row else scores.shape[::-1]
        self.by_row = by_row
        self.length = min(length, candidates)
        width = min(length + _SPARE, candidates) if length else 0
        self.values = torch.full((queries, width), -torch.inf, device=scores.device)
        self.candidates = torch.zeros((queries, width), dtype=torch.int32, device=scores.device)

    def least(self, block: Block) -> Tensor:
        """Return (L,) for every query in a block a score that all of its candidates reach that belong into the list."""
        width = self.values.shape[1]
        if not self.by_row and block.rows.start >= width:
            return torch.nextafter(self.values[:, -1], self.values.new_tensor(torch.inf))
        return _bound(block.values, width, dim=int(self.by_row))

    def add(self, block: Block, least: Tensor) -> None:
        """Keep the largest of all scores of a block. `least`: from the method of that name."""
        high = high_scores(block.values, least, by_row=self.by_row, share=_LISTED)
        if high is not None:
            self.add_some(high, block.rows.start)
            return
        width = self.values.shape[1]
        if self.by_row:
            self.values[block.rows], self.candidates[block.rows] = block.values.topk(width, 1)
            return
        values, rows = block.values.T.contiguous().topk(min(width, len(block.values)), 1)
        self._merge(EVERY, values, rows.int() + block.rows.start)

    def add_some(self, high: HighScores, start: int) -> None:
        """Keep the largest of some scores of a block whose rows begin at `start`, which reach `least`."""
        line = high.line(self.by_row)
        order = torch.argsort(line, stable=True)
        line = line[order]
        query = line + start if self.by_row else line
        candidate = high.column[order] if self.by_row else high.row[order] + start

        lines, place, counts = torch.unique_consecutive(query, return_inverse=True, return_counts=True)
        if not len(lines):
            return

        starts = counts.cumsum(0) - counts
        turn = torch.arange(len(place), device=place.device) - starts[place]
        values = self.values.new_full((len(lines), int(counts.max())), -torch.inf)
        candidates = torch.zeros_like(values, dtype=torch.int32)
        values[place, turn] = high.score[order]
        candidates[place, turn] = candidate.int()
        self._merge(lines, values, candidates)

    def _merge(self, lines: slice | Tensor, values: Tensor, candidates: Tensor) -> None:
        """Keep the largest of the kept and of further scores of some queries."""
        together = torch.cat([self.values[lines], values], 1)
        whose = torch.cat([self.candidates[lines], candidates], 1)
        largest, position = together.topk(self.values.shape[1], 1)
        self.values[lines] = largest
        self.candidates[lines] = whose.gather(1, position)

    def parts(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield some queries at a time, with their largest scores and the candidates."""
        queries = torch.arange(len(self.values), device=self.values.device)
        for part in slices(len(queries), _EXACT_PAIRS // self.values.shape[1]):
            yield queries[part], self.values[part], self.candidates[part].long()


def _bound(values: Tensor, width: int, dim: int) -> Tensor:
    """Return for every line, along `dim`, a score that at least `width` of its scores reach: among the largest scores of
    disjoint groups, the one in place `width`; −∞ for short lines."""
    groups = max(_GROUPS, _GROUPS_PER_PLACE * width)
    size = values.shape[dim] // groups
    if size < 2:
        return values.new_full((values.shape[1 - dim],), -torch.inf)
    largest = values.narrow(dim, 0, size * groups).unflatten(dim, (size, groups)).amax(dim)
    return largest.topk(width, dim).values.select(dim, width - 1)


class BestOrder:
    """Order of the best candidates of queries, the rows of `scores`: by exact score, then right ones last (optimistic:
    first), then by index. Exact scores are computed only where fast ones are too close."""

    def __init__(self, scores: Scores, relation: Relation, length: int, ties: Ties) -> None:
        self.scores = scores
        self.relation = relation
        self.length = length
        self.ties = ties

    def __call__(self, queries: Tensor, fast: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Return (Q, length) candidates and their scores, from the (Q, K) largest scores in descending order."""
        slack = 2 * self.scores.error
        near = fast[:, :-1] - fast[:, 1:] <= slack
        close = torch.zeros_like(fast, dtype=torch.bool)
        close[:, :-1] |= near
        close[:, 1:] |= near
        line, position = true_pairs(close)

        values = fast.clone()
        values[line, position] = self.scores.pairs(queries[line], candidates[line, position])

        best = candidates[:, : self.length].clone()
        best_values = values[:, : self.length].clone()
        lines = torch.unique(line)
        if len(lines):
            best[lines], best_values[lines] = self._sort(queries[lines], values[lines], candidates[lines])

        in_all = self.scores.shape[1]
        if fast.shape[1] < in_all:  # an unlisted candidate may belong into the list
            least = best_values[:, -1] - slack
            doubtful = (fast[:, -1] >= least).nonzero()[:, 0]
            for some in doubtful.split(max(1, BLOCK_ELEMENTS // in_all)) if len(doubtful) else ():
                best[some], best_values[some] = self._of_all(queries[some], least[some])

        return best, best_values

    def _of_all(self, queries: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best of all candidates of some queries, and their scores; each has enough that score `least` (Q,)."""
        line, candidate = true_pairs(self.scores.fast(queries) >= least[:, None])
        counts = torch.bincount(line, minlength=len(queries))
        turn = torch.arange(len(line), device=line.device) - (counts.cumsum(0) - counts)[line]
        scores = torch.full((len(queries), int(counts.max())), -torch.inf, device=line.device)
        candidates = torch.zeros_like(scores, dtype=torch.int64)
        scores[line, turn] = self.scores.pairs(queries[line], candidate)
        candidates[line, turn] = candidate
        return self._sort(queries, scores, candidates)

    def _sort(self, queries: Tensor, scores: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best candidates of each row, best first, and their scores; `scores`, `candidates`: (rows, K).

        One whole number per candidate encodes the order; its high bits are those of the float32 score, which increase
        with its absolute value.
        """
        right = self.relation.contains(queries.cpu().numpy()[:, None], candidates.cpu().numpy())
        goes_first = torch.from_numpy(right == (self.ties == "optimistic")).to(scores.device)
        bits = (scores + 0.0).view(torch.int32).long()  # −0.0 becomes 0.0
        ascending = torch.where(bits < 0, -(bits & _WITHOUT_SIGN), bits)
        key = (ascending << 32) | (goes_first.long() << 31) | (_WITHOUT_SIGN - candidates)
        position = torch.topk(key, self.length, dim=1).indices
        return candidates.gather(1, position), scores.gather(1, position)


def best_lists(
    scores: Scores, relation: Relation, best: int, *, by_image: bool, asking: Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find the best captions of some images, or the best images of some captions.

    >>> from coder_core.evaluation.relevance import Relevance
    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> scores = check_scores([ScoreMatrix(np.array([[0.5, 0.25, 0.75], [0.25, 1.0, 0.5]]))])
    >>> labels = Relevance.of_labels(np.array([0, 1, 1]), images=2)
    >>> [array.tolist() for array in best_lists(scores, labels.i2t, 2, by_image=True)]
    [[[2, 0], [1, 2]], [[0.75, 0.5], [1.0, 0.5]]]

    Args:
        relation: of this direction. Among equal scores right candidates come last.
        asking: (Q,) int64, the queries; None for all.

    Returns:
        (Q, min(best, C)) int32 candidates, best first, and their exact scores in float32.
    """
    scores = scores if by_image else scores.turned()
    queries, candidates = scores.shape
    asked = torch.arange(queries) if asking is None else asking
    length = min(best, candidates)
    order = BestOrder(scores, relation, length, "pessimistic")
    lists = np.empty((len(asked), length), np.int32)
    exact = np.empty((len(asked), length), np.float32)
    for part in slices(len(asked), BLOCK_ELEMENTS // candidates) if length else ():
        some = asked[part].to(scores.device)
        largest, whose = scores.fast(some).topk(min(length + _SPARE, candidates), 1)
        found, _ = order(some, largest, whose)
        pairs = scores.pairs(some.repeat_interleave(length), found.flatten())
        lists[part] = found.cpu().numpy()
        exact[part] = pairs.view(found.shape).cpu().numpy()
    return lists, exact


def nearly_best_lists(
    scores: Scores, relation: Relation, best: int, *, by_image: bool
) -> Callable[[Tensor], tuple[np.ndarray, np.ndarray]]:
    """Return a function of (Q,) queries that finds most of what `best_lists` finds: (Q, best) int32 candidates,
    best first, and their exact scores; −1 and −∞ where fewer were found. Arguments as there.

    >>> from coder_core.evaluation.relevance import Relevance
    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import EmbeddingPair
    >>> scores = check_scores([EmbeddingPair(np.eye(2), np.eye(2))])
    >>> labels = Relevance.of_labels(np.array([0, 1]), images=2)
    >>> nearly_best_lists(scores, labels.i2t, 1, by_image=True)(torch.tensor([1]))
    (array([[1]], dtype=int32), array([[1.]], dtype=float32))
    """
    turned = scores if by_image else scores.turned()
    queries, candidates = joined(of_embeddings(turned.sources))
    index = NearestRows(candidates)
    length = min(best, len(candidates))

    def lists(asking: Tensor) -> tuple[np.ndarray, np.ndarray]:
        some = asking.cpu().numpy()
        _, found = index.search(queries[some], length)
        missing = found < 0
        rows = torch.from_numpy(some.repeat(length)).to(turned.device)
        columns = torch.from_numpy(np.maximum(found, 0).ravel()).to(turned.device)
        exact = turned.pairs(rows, columns).cpu().numpy().reshape(found.shape)
        exact[missing] = -np.inf
        right = relation.contains(some[:, None], found)
        order = np.lexsort((found, right, -exact), axis=1)
        ordered = np.take_along_axis(found, order, 1).astype(np.int32)
        return ordered, np.take_along_axis(exact, order, 1)

    return lists
