"""Rank the right candidates of every image and every caption. Section 4 of docs/equations.md.

Nothing is sorted: a rank is the number of candidates above a right one, and one float32 product serves both directions.
The rounding of that product is bounded beforehand: a candidate whose float32 score is further from the right one's
exact score than the bound is certainly above or below it. The few others are compared by exact scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from coder_core.console.output import Progress, silent
from coder_core.evaluation.best_candidates import BestOrder, LargestScores
from coder_core.evaluation.metrics import Ranked, Ranks
from coder_core.evaluation.relevance import Relation, Relevance
from coder_core.evaluation.score_blocks import (
    Block,
    HighScores,
    blocks,
    count_reaching_ends,
    ends_around,
    high_scores,
    true_pairs,
)
from coder_core.evaluation.scores import EVERY, Scores, Ties
from coder_core.evaluation.sources import slices
from coder_core.files.parts import Arrays, Keep, compute

QUERIES_AT_ONCE = 1 << 14  # of a sample, against all candidates
_COMPARED_LINES = 256  # rows or columns searched at once for unclear scores
_PLACES = 8  # right candidates of a query compared at once
_HIGH = 1 / 32  # of the scores of a block are picked out to be counted; if more matter, all are counted
_CROWDED = 64  # if more than one score in so many is unclear, the block is scored exactly


def rank(
    scores: Scores,
    relevance: Relevance,
    *,
    ties: Ties = "pessimistic",
    best: int = 10,
    progress: Progress = silent,
    keep: Keep = compute,
) -> Ranks:
    """Rank in both directions without holding the whole score matrix.

    Right candidates never count against a better one of the same query. A query may have any number of them; without
    one it has rank −1, but remains a candidate. If `relevance.of_queries` chose some queries, only these are ranked,
    against all candidates; the others have rank −1 and a list of −1.

    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> matrix = np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]])
    >>> labels = Relevance.of_labels(np.array([0, 1, 2]), images=3)
    >>> rank(check_scores([ScoreMatrix(matrix)]), labels).t2i.first
    array([1, 1, 0])

    Args:
        ties: "pessimistic" counts candidates with an equal score above a right one, "optimistic" below. Right
            candidates with equal scores follow each other with the lowest grade first (optimistic: last).
        best: length of the lists of best candidates; 0 leaves them empty. Among equal scores, right candidates come last
            (optimistic: first), and otherwise lower indices come first.
        keep: called with the name of every part of chosen queries, so that an interrupted ranking can continue.
    """
    asked = _Asked(ties, best)
    if relevance.i2t.asking is None and relevance.t2i.asking is None:
        i2t, t2i = _counted(scores, relevance, asked, progress)
        return Ranks(i2t.ranked(), t2i.ranked())

    of_images = _Chosen("i2t", scores, relevance.i2t, asked)
    of_texts = _Chosen("t2i", scores.turned(), relevance.t2i, asked)
    total = of_images.count + of_texts.count
    images = of_images.ranked(keep, _part_of(progress, 0, of_images.count, total))
    texts = of_texts.ranked(keep, _part_of(progress, of_images.count, of_texts.count, total))
    return Ranks(images, texts)


def first_ranks(
    scores: Scores, relevance: Relevance, *, ties: Ties = "pessimistic"
) -> tuple[np.ndarray, np.ndarray]:
    """Return `first` of both directions of `rank`, (n,) and (m,), without ranking the other right candidates.

    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> matrix = np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]])
    >>> first_ranks(check_scores([ScoreMatrix(matrix)]), Relevance.of_labels(np.array([0, 1, 2]), images=3))
    (array([0, 1, 0]), array([1, 1, 0]))
    """
    if relevance.i2t.asking is not None or relevance.t2i.asking is not None:
        ranks = rank(scores, relevance, ties=ties, best=0)
        return ranks.i2t.first, ranks.t2i.first
    i2t, t2i = _counted(scores, relevance, _Asked(ties, best=0, every_rank=False), silent)
    return i2t.first(), t2i.first()


@dataclass(frozen=True)
class _Asked:
    """What a ranking returns: see `rank`."""

    ties: Ties
    best: int  # length of the lists
    every_rank: bool = True  # of all right candidates, or only of the best one of every query

    def __post_init__(self) -> None:
        if self.ties not in ("pessimistic", "optimistic"):
            raise ValueError(f'ties must be "pessimistic" or "optimistic", got {self.ties!r}')


def _counted(scores: Scores, relevance: Relevance, asked: _Asked, progress: Progress) -> tuple[_Side, _Side]:
    """Count all blocks for images as queries, and for captions as queries."""
    n, m = scores.shape
    by_text = m > n and scores.of_embeddings  # the longer side as rows, so that fewer columns keep lists
    scores = scores.turned() if by_text else scores
    of_rows, of_columns = (relevance.t2i, relevance.i2t) if by_text else (relevance.i2t, relevance.t2i)
    rows = _Side(scores, of_rows, asked, by_row=True)
    columns = _Side(scores, of_columns, asked, by_row=False, other=rows)
    _count_blocks(scores, (rows, columns), progress)
    return (columns, rows) if by_text else (rows, columns)


def _count_blocks(scores: Scores, sides: Sequence[_Side], progress: Progress) -> None:
    for block in blocks(scores):
        for side in sides:
            side.add(block)
        progress(block.rows.stop, scores.shape[0])


@dataclass(frozen=True)
class _Chosen:
    """The chosen queries of one direction, some of which are ranked at a time. The candidates are the rows of a block, so
    that every candidate is read once, and only the chosen queries need memory."""

    way: str
    scores: Scores  # queries as rows, candidates as columns
    relation: Relation
    asked: _Asked

    @property
    def queries(self) -> np.ndarray:
        """(A,) int64, ascending."""
        asking = self.relation.asking
        return np.arange(self.relation.count) if asking is None else asking

    @property
    def count(self) -> int:
        """Number of chosen queries."""
        return len(self.queries)

    def ranked(self, keep: Keep, progress: Progress) -> Ranked:
        """Rank the chosen queries. `progress` counts them."""
        relation = self.relation
        pairs = len(relation.queries)
        length = min(self.asked.best, self.scores.shape[1])
        ranked = Ranked(
            ranks=np.full(pairs, np.inf),
            first=np.full(relation.count, -1, np.int64),
            ties=np.zeros(relation.count, np.int64),
            best=np.full((relation.count, length), -1, np.int32),
            own=np.full(pairs, np.nan, np.float32),
        )
        for number, part in enumerate(slices(self.count, QUERIES_AT_ONCE)):
            queries = self.queries[part]
            reported = _part_of(progress, part.start, len(queries), self.count)
            arrays = keep(f"{self.way}-{number}", partial(self._rank_some, queries, reported))
            start, stop = np.searchsorted(relation.queries, [queries[0], queries[-1] + 1])
            for name in ("ranks", "own"):
                getattr(ranked, name)[start:stop] = arrays[name]
            for name in ("first", "ties", "best"):
                getattr(ranked, name)[queries] = arrays[name]

        return ranked

    def _rank_some(self, queries: np.ndarray, progress: Progress) -> Arrays:
        some = torch.from_numpy(queries).to(self.scores.device)
        scores = self.scores.of_rows(some).turned()
        side = _Side(scores, self.relation.numbered(queries), self.asked, by_row=False)
        _count_blocks(scores, (side,), progress)
        return vars(side.ranked())


def _part_of(progress: Progress, before: int, part: int, total: int) -> Progress:
    """Count the queries of a part whose progress is a share, after those `before` it."""
    return lambda done, of, phase="": progress(before + int(part * done / max(of, 1)), total, phase)


class _Side:
    """One direction: its right pairs, the counts behind their ranks, and its lists. Queries are rows or columns."""

    def __init__(
        self, scores: Scores, relation: Relation, asked: _Asked, *, by_row: bool, other: _Side | None = None
    ) -> None:
        self.scores = scores
        self.relation = relation
        self.asked = asked
        self.by_row = by_row
        self.entries = relation.found

        self.query = torch.from_numpy(relation.queries[self.entries]).to(scores.device)
        self.candidate = torch.from_numpy(relation.candidates[self.entries]).to(scores.device)
        row, column = self._row_and_column(self.query, self.candidate)
        self.in_row_order = torch.argsort(row, stable=True)
        self.row = row[self.in_row_order]
        self.column = column[self.in_row_order]

        self.own = self._own(other)
        self.place = self._place_among_right()
        self.lowest = self._lowest()

        self.above = torch.zeros(len(self.entries), dtype=torch.int64, device=scores.device)
        self.level = torch.zeros_like(self.above)
        self.passes = list(self._passes())
        self.lists = LargestScores(scores, by_row=by_row, length=asked.best)

    def _row_and_column(self, queries: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
        return (queries, candidates) if self.by_row else (candidates, queries)

    def _own(self, other: _Side | None) -> Tensor:
        """Return (P,) the exact scores of the right pairs; those of the other direction if it has the same pairs."""
        own = torch.empty(len(self.entries), device=self.scores.device)
        if other and torch.equal(self.row, other.row) and torch.equal(self.column, other.column):
            own[self.in_row_order] = other.own[other.in_row_order]
        else:
            own[self.in_row_order] = self.scores.pairs(self.row, self.column)
        return own

    def _place_among_right(self) -> Tensor:
        """Return (P,) the position of every right candidate among those of its query: by score, then by grade."""
        query = self.query.cpu().numpy()
        grades = self.relation.grades[self.entries]
        by_grade = grades if self.asked.ties == "pessimistic" else -grades
        order = np.lexsort((by_grade, -self.own.cpu().numpy(), query))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.searchsorted(query, query)
        return torch.from_numpy(place).to(self.own.device)

    def _lowest(self) -> Tensor:
        """Return (Q,) the lowest score of the right candidates of every query that are ranked; ∞ without one."""
        counted = self.place >= 0 if self.asked.every_rank else self.place == 0
        lowest = torch.full((self.relation.count,), torch.inf, device=self.own.device)
        return lowest.scatter_reduce_(0, self.query[counted], self.own[counted], "amin")

    def _passes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the queries, ascending, that have right candidates at some places, and (places, queries) their entries;
        −1 where a query has fewer. The best candidate of a query has place 0."""
        most = int(self.place.max()) + 1 if len(self.place) else 0
        if not self.asked.every_rank:
            most = min(most, 1)
        for start in range(0, most, _PLACES):
            stop = min(start + _PLACES, most)
            inside = ((self.place >= start) & (self.place < stop)).nonzero()[:, 0]
            queries, line = torch.unique_consecutive(self.query[inside], return_inverse=True)
            places = self.place[inside] - start
            entries = torch.full((int(places.max()) + 1, len(queries)), -1, device=inside.device)
            entries[places, line] = inside
            yield queries, entries

    def _inside(self, block: Block) -> tuple[Tensor, Tensor, Tensor]:
        """Return the right pairs of a block: their rows and columns in it, and their entries."""
        ends = torch.tensor([block.rows.start, block.rows.stop], device=self.row.device)
        start, stop = torch.searchsorted(self.row, ends).tolist()
        entries = self.in_row_order[start:stop]
        return self.row[start:stop] - block.rows.start, self.column[start:stop], entries

    def add(self, block: Block) -> None:
        """Count the candidates of a block that score above and level with the right ones, and keep the best for the
        lists. Usually few scores matter for either, and one search finds them."""
        self._hide(block)
        queries = block.rows if self.by_row else EVERY
        least = self.lowest[queries] - block.error
        listed = self.lists.least(block) if self.asked.best else torch.full_like(least, torch.inf)
        high = high_scores(block.values, torch.minimum(least, listed), by_row=self.by_row, share=_HIGH)
        self._count(block, high)

        row, column, entries = self._inside(block)
        own = self.own[entries]
        block.values[row, column] = own
        if not self.asked.best:
            return
        if high is None:
            self.lists.add(block, listed)
        else:
            high = high.some(high.score >= listed[high.line(self.by_row)])
            self.lists.add_some(high.joined(row, column, own), block.rows.start)

    def _hide(self, block: Block) -> None:
        """Put right candidates below all others, so that they never count against one another."""
        row, column, _ = self._inside(block)
        block.values[row, column] = -torch.inf

    def _count(self, block: Block, high: HighScores | None) -> None:
        """Count the scores of a block, or only the high ones, for the right candidates of its queries."""
        for queries, entries in self.passes:
            if self.by_row:
                ends = torch.tensor([block.rows.start, block.rows.stop], device=queries.device)
                start, stop = torch.searchsorted(queries, ends).tolist()
                queries = queries[start:stop]
                entries = entries[:, start:stop]
            if high is None:
                self._count_all(block, queries, entries)
            else:
                self._count_some(block, high, queries, entries)

    def _count_some(self, block: Block, high: HighScores, queries: Tensor, entries: Tensor) -> None:
        """Count, for the right candidates of some queries, the high scores of a block, which include all that matter."""
        start = block.rows.start if self.by_row else 0
        line = high.line(self.by_row)
        entry_of_line = line.new_empty(block.values.shape[0 if self.by_row else 1])
        for of_place in entries:
            entry_of_line.fill_(-1)[queries - start] = of_place
            entry = entry_of_line[line]
            own = self.own[entry].masked_fill_(entry < 0, torch.inf)
            may_reach, certainly_above = ends_around(own, block.error)
            above = high.score >= certainly_above
            self.above.index_add_(0, entry[above], torch.ones_like(entry[above]))
            unclear = ((high.score >= may_reach) & ~above).nonzero()[:, 0]
            self._compare(high.row[unclear] + block.rows.start, high.column[unclear], entry[unclear])

    def _count_all(self, block: Block, queries: Tensor, entries: Tensor) -> None:
        """Count all scores of a block for the right candidates of some queries."""
        if not len(queries):
            return

        lines = self._lines(block, queries)
        own = self.own[entries].masked_fill_(entries < 0, torch.inf)
        at_least, above = count_reaching_ends(lines, ends_around(own, block.error), by_row=self.by_row)
        if block.error and int((at_least - above).sum()) * _CROWDED > lines.numel():
            block.make_exact()
            self._hide(block)
            lines = self._lines(block, queries)
            at_least, above = count_reaching_ends(lines, ends_around(own, 0.0), by_row=self.by_row)

        unclear = at_least - above
        exists = entries >= 0
        self.above[entries[exists]] += above[exists]
        if not block.error:
            self.level[entries[exists]] += unclear[exists]
            return

        place, line = unclear.nonzero(as_tuple=True)
        for some in slices(len(line), _COMPARED_LINES):
            self._count_unclear(
                block, lines, line[some], queries[line[some]], entries[place[some], line[some]]
            )

    def _lines(self, block: Block, queries: Tensor) -> Tensor:
        """Return the rows or the columns of a block that belong to queries."""
        if self.by_row:
            whole = len(queries) == len(block.values)
            return block.values if whole else block.values[queries - block.rows.start]
        return block.values if len(queries) == block.values.shape[1] else block.values[:, queries]

    def _count_unclear(
        self, block: Block, lines: Tensor, line: Tensor, queries: Tensor, entries: Tensor
    ) -> None:
        """Count the candidates in some lines that are too close to a right one for the fast scores."""
        low, high = ends_around(self.own[entries], block.error)
        if self.by_row:
            values = lines[line]
            which, candidate = true_pairs((values >= low[:, None]) & (values < high[:, None]))
        else:
            values = lines[:, line]
            row, which = true_pairs((values >= low) & (values < high))
            candidate = row + block.rows.start
        rows, columns = self._row_and_column(queries[which], candidate)
        self._compare(rows, columns, entries[which])

    def _compare(self, rows: Tensor, columns: Tensor, entry: Tensor) -> None:
        """Count (P,) pairs by their exact scores for right candidates."""
        exact = self.scores.pairs(rows, columns)
        own = self.own[entry]
        self.above.index_add_(0, entry, (exact > own).long())
        self.level.index_add_(0, entry, (exact == own).long())

    def ranked(self) -> Ranked:
        """Return the ranks and the lists, after all blocks."""
        relation = self.relation
        ranks = np.full(len(relation.queries), np.inf)
        ranks[self.entries] = (self._counted() + self.place).cpu().numpy()
        own = np.full(len(ranks), np.nan, np.float32)
        own[self.entries] = self.own.cpu().numpy()
        ties = self._of_best(self.level, missing=0)
        return Ranked(ranks, self.first(), ties, self._best_lists(), own)

    def first(self) -> np.ndarray:
        """Return (Q,) the rank of the best right candidate, after all blocks; −1 for a query without one."""
        return self._of_best(self._counted(), missing=-1)

    def _counted(self) -> Tensor:
        """Return (P,) the number of other candidates above every right one."""
        return self.above + self.level if self.asked.ties == "pessimistic" else self.above

    def _of_best(self, counts: Tensor, missing: int) -> np.ndarray:
        """Return (Q,) the count (P,) of the best right candidate of every query."""
        is_best = (self.place == 0).cpu().numpy()
        queries = self.relation.queries[self.entries][is_best]
        of_best = np.full(self.relation.count, missing, np.int64)
        of_best[queries] = counts.cpu().numpy()[is_best]
        return of_best

    def _best_lists(self) -> np.ndarray:
        if not self.lists.length:
            return np.empty((self.relation.count, 0), np.int32)
        scores = self.scores if self.by_row else self.scores.turned()
        order = BestOrder(scores, self.relation, self.lists.length, self.asked.ties)
        lists = [order(queries, fast, candidates)[0] for queries, fast, candidates in self.lists.parts()]
        return torch.cat(lists).int().cpu().numpy()
