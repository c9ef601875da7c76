"""Rank the right candidates of every image and every caption, and list the best ones. Section 4 of docs/equations.md.

Nothing is sorted: a rank is the number of candidates above a right one, and one float32 product serves both directions.
The rounding of that product is bounded beforehand: a candidate whose float32 score is further from the right one's
exact score than the bound is certainly above or below it. The few others are compared by exact scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from coder_core.console.output import Progress, silent
from coder_core.evaluation.metrics import Ranked, Ranks
from coder_core.evaluation.nearest import NearestRows, joined, of_embeddings
from coder_core.evaluation.relevance import Relation, Relevance
from coder_core.evaluation.scores import EVERY, Scores
from coder_core.evaluation.sources import slices
from coder_core.files.parts import Arrays, Keep, compute

Ties = Literal["pessimistic", "optimistic"]

QUERIES_AT_ONCE = 1 << 14  # of a sample, against all candidates
_BLOCK_ELEMENTS = 1 << 22  # 16 MiB of scores at once …
_FEWEST_ROWS = 16  # … or of so many rows, below which a product is slow
_COMPARED_ELEMENTS = 1 << 17  # scores compared at once, which fit the core's cache …
_COMPARED_ROWS = 255  # … of at most so many rows, as counts are uint8
_COMPARED_LINES = 256  # rows or columns searched at once for unclear scores
_PLACES = 8  # right candidates of a query compared at once
_CROWDED = 64  # if more than one score in so many is unclear, the block is scored exactly
_SPARSE = 128  # scores of a block for every threshold and every score that reaches the lowest one, to count only these
_GROUPS = 128  # groups of candidates whose largest scores bound the scores of a list
_GROUPS_PER_PLACE = 8  # … of a long list
_LISTED = 16  # if more than one score in so many may belong into a list, all are sorted
_SPARE = 8  # extra candidates of a list, so that rounding of the fast product rarely drops one
_EXACT_PAIRS = 1 << 16  # pairs scored exactly at once for lists
_WITHOUT_SIGN = (1 << 31) - 1


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
    for block in _blocks(scores):
        for side in sides:
            side.hide(block)
            side.count(block)
            side.reveal(block)
        for side in sides:
            if side.asked.best:
                side.lists.add(block)
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


class _Block:
    """Scores of some rows with all columns, and the largest error that they may have."""

    def __init__(self, scores: Scores, rows: slice, buffer: Tensor) -> None:
        self.scores = scores
        self.rows = rows
        self.values = scores.fast(rows, out=buffer[: rows.stop - rows.start])
        self.error = scores.error

    def make_exact(self) -> None:
        """Replace the scores by exact ones."""
        self.values = self.scores.exact(self.rows)
        self.error = 0.0


def _blocks(scores: Scores) -> Iterator[_Block]:
    rows, columns = scores.shape
    height = min(rows, max(_FEWEST_ROWS, _BLOCK_ELEMENTS // columns))
    buffer = torch.empty(height, columns, device=scores.device)
    for part in slices(rows, height):
        yield _Block(scores, part, buffer)


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
        self.above = torch.zeros(len(self.entries), dtype=torch.int64, device=scores.device)
        self.level = torch.zeros_like(self.above)
        self.passes = list(self._passes())
        self.lists = _Lists(scores, by_row=by_row, length=asked.best)

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

    def _inside(self, block: _Block) -> tuple[Tensor, Tensor, Tensor]:
        """Return the right pairs of a block: their rows and columns in it, and their entries."""
        ends = torch.tensor([block.rows.start, block.rows.stop], device=self.row.device)
        start, stop = torch.searchsorted(self.row, ends).tolist()
        entries = self.in_row_order[start:stop]
        return self.row[start:stop] - block.rows.start, self.column[start:stop], entries

    def hide(self, block: _Block) -> None:
        """Put right candidates below all others, so that they never count against one another."""
        row, column, _ = self._inside(block)
        block.values[row, column] = -torch.inf

    def reveal(self, block: _Block) -> None:
        """Give right candidates their exact scores."""
        row, column, entries = self._inside(block)
        block.values[row, column] = self.own[entries]

    def count(self, block: _Block) -> None:
        """Add the candidates of a block that score above and level with the right ones."""
        for queries, entries in self.passes:
            if self.by_row:
                ends = torch.tensor([block.rows.start, block.rows.stop], device=queries.device)
                start, stop = torch.searchsorted(queries, ends).tolist()
                part = slice(start, stop)
                self._count_pass(block, queries[part], entries[:, part])
            else:
                self._count_pass(block, queries, entries)

    def _count_pass(self, block: _Block, queries: Tensor, entries: Tensor) -> None:
        if not len(queries):
            return
        lines = self._lines(block, queries)
        own = self.own[entries].masked_fill_(entries < 0, torch.inf)
        at_least, above = _reaching(lines, _ends(own, block.error), by_row=self.by_row)
        if block.error and int((at_least - above).sum()) * _CROWDED > lines.numel():
            block.make_exact()
            self.hide(block)
            lines = self._lines(block, queries)
            at_least, above = _reaching(lines, _ends(own, 0.0), by_row=self.by_row)
        unclear = at_least - above
        exists = entries >= 0
        self.above[entries[exists]] += above[exists]
        if not block.error:
            self.level[entries[exists]] += unclear[exists]
            return
        place, line = unclear.nonzero(as_tuple=True)
        for some in slices(len(line), _COMPARED_LINES):
            self._compare(block, lines, line[some], queries[line[some]], entries[place[some], line[some]])

    def _lines(self, block: _Block, queries: Tensor) -> Tensor:
        """Return the rows or the columns of a block that belong to queries."""
        if self.by_row:
            whole = len(queries) == len(block.values)
            return block.values if whole else block.values[queries - block.rows.start]
        return block.values if len(queries) == block.values.shape[1] else block.values[:, queries]

    def _compare(self, block: _Block, lines: Tensor, line: Tensor, queries: Tensor, entries: Tensor) -> None:
        """Count the candidates in some lines that are too close to a right one for the fast scores."""
        low, high = _ends(self.own[entries], block.error)
        if self.by_row:
            values = lines[line]
            which, candidate = _true((values >= low[:, None]) & (values < high[:, None]))
        else:
            values = lines[:, line]
            row, which = _true((values >= low) & (values < high))
            candidate = row + block.rows.start
        rows, columns = self._row_and_column(queries[which], candidate)
        exact = self.scores.pairs(rows, columns)
        entry = entries[which]
        self.above.index_add_(0, entry, (exact > self.own[entry]).long())
        self.level.index_add_(0, entry, (exact == self.own[entry]).long())

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
        order = _Order(scores, self.relation, self.lists.length, self.asked.ties)
        lists = [order(queries, fast, candidates)[0] for queries, fast, candidates in self.lists.parts()]
        return torch.cat(lists).int().cpu().numpy()


def _ends(own: Tensor, error: float) -> Tensor:
    """Return (2, L): the least score that may reach each right one, and the least that is certainly above it."""
    return torch.stack([own - error, torch.nextafter(own + error, own.new_tensor(torch.inf))])


def _reaching(lines: Tensor, ends: Tensor, *, by_row: bool) -> Tensor:
    """Count, (2, places, L), the scores of every line that are at least each of its `ends`. On a CPU by NumPy, which
    counts booleans several times faster than PyTorch."""
    limits = ends.flatten(0, 1)
    if lines.device.type != "cpu":
        counts = torch.stack(
            [(lines >= (end[:, None] if by_row else end)).sum(int(by_row)) for end in limits]
        )
        return counts.view(ends.shape)
    return torch.from_numpy(_count_reaching(lines.numpy(), limits.numpy(), by_row)).view(ends.shape)


def _count_reaching(values: np.ndarray, limits: np.ndarray, by_row: bool) -> np.ndarray:
    """Count (limits, L). Usually few scores reach the lowest limit of their line, so that only these are compared with
    the others."""
    most = values.size * len(limits) // _SPARSE
    few = _reaching_lowest(values, limits.min(0), by_row, most)
    if few is None:
        return _count_each(values, limits, by_row)
    line, score = few
    counts = [np.bincount(line[score >= limit[line]], minlength=len(limit)) for limit in limits]
    return np.stack(counts)


def _reaching_lowest(
    values: np.ndarray, lowest: np.ndarray, by_row: bool, most: int
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the lines and the scores that are at least the limit of their line; None if they are more than `most`."""
    lines = []
    scores = []
    found = 0
    for part, flags in _compared(values):
        rows = values[part]
        np.greater_equal(rows, lowest[part, None] if by_row else lowest, out=flags)
        position = np.flatnonzero(flags)
        found += len(position)
        if found > most:
            return None
        row, column = np.divmod(position, values.shape[1])
        lines.append(row + part.start if by_row else column)
        scores.append(rows[row, column])
    return np.concatenate(lines), np.concatenate(scores)


def _count_each(values: np.ndarray, limits: np.ndarray, by_row: bool) -> np.ndarray:
    """Count (limits, L) by comparing every score with every limit of its line."""
    counts = np.zeros(limits.shape, np.int64)
    for part, flags in _compared(values):
        for k, limit in enumerate(limits):
            if by_row:
                np.greater_equal(values[part], limit[part, None], out=flags)
                counts[k, part] = np.bitwise_count(np.packbits(flags, axis=1)).sum(1)
            else:
                np.greater_equal(values[part], limit, out=flags)
                counts[k] += flags.view(np.uint8).sum(0, dtype=np.uint8)
    return counts


def _compared(values: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield some rows at a time, and uninitialized flags of their scores."""
    height = min(_COMPARED_ROWS, max(1, _COMPARED_ELEMENTS // values.shape[1]))
    flags = np.empty((height, values.shape[1]), bool)
    for part in slices(len(values), height):
        yield part, flags[: part.stop - part.start]


def _true(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows and the columns that are true; on a CPU by NumPy, which is several times faster."""
    if flags.device.type != "cpu":
        rows, columns = flags.nonzero(as_tuple=True)
        return rows, columns
    row, column = np.divmod(np.flatnonzero(flags.numpy()), flags.shape[1])
    return torch.from_numpy(row), torch.from_numpy(column)


class _Lists:
    """The largest scores of every query, best first, and their candidates: as many as a list has, and a few more."""

    def __init__(self, scores: Scores, *, by_row: bool, length: int) -> None:
        queries, candidates = scores.shape if by_row else scores.shape[::-1]
        self.by_row = by_row
        self.length = min(length, candidates)
        width = min(length + _SPARE, candidates) if length else 0
        self.values = torch.full((queries, width), -torch.inf, device=scores.device)
        self.candidates = torch.zeros((queries, width), dtype=torch.int32, device=scores.device)

    def add(self, block: _Block) -> None:
        """Keep the largest scores of a block."""
        least = self._least(block)
        flags = block.values >= (least[:, None] if self.by_row else least)
        if int(torch.count_nonzero(flags)) * _LISTED > flags.numel():
            self._add_all(block)
        else:
            row, column = _true(flags)
            self._add_some(block, row, column)

    def _least(self, block: _Block) -> Tensor:
        """Return (L,) for every query in a block a score that all of its candidates reach that belong into the list."""
        width = self.values.shape[1]
        if not self.by_row and block.rows.start >= width:
            return torch.nextafter(self.values[:, -1], self.values.new_tensor(torch.inf))
        return _bound(block.values, width, dim=int(self.by_row))

    def _add_all(self, block: _Block) -> None:
        """Keep the largest of all scores of a block."""
        width = self.values.shape[1]
        if self.by_row:
            self.values[block.rows], self.candidates[block.rows] = block.values.topk(width, 1)
            return
        values, rows = block.values.T.contiguous().topk(min(width, len(block.values)), 1)
        self._merge(EVERY, values, rows.int() + block.rows.start)

    def _add_some(self, block: _Block, row: Tensor, column: Tensor) -> None:
        """Keep scores of a block by their rows, which ascend, and their columns."""
        if self.by_row:
            query = row + block.rows.start
            candidate = column
        else:
            by_column = torch.argsort(column, stable=True)
            row = row[by_column]
            column = column[by_column]
            query = column
            candidate = row + block.rows.start
        lines, line, counts = torch.unique_consecutive(query, return_inverse=True, return_counts=True)
        if not len(lines):
            return
        starts = counts.cumsum(0) - counts
        turn = torch.arange(len(line), device=line.device) - starts[line]
        values = self.values.new_full((len(lines), int(counts.max())), -torch.inf)
        candidates = torch.zeros_like(values, dtype=torch.int32)
        values[line, turn] = block.values[row, column]
        candidates[line, turn] = candidate.int()
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


class _Order:
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
        line, position = _true(close)
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
            for some in doubtful.split(max(1, _BLOCK_ELEMENTS // in_all)) if len(doubtful) else ():
                best[some], best_values[some] = self._of_all(queries[some], least[some])
        return best, best_values

    def _of_all(self, queries: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best of all candidates of some queries, and their scores; each has enough that score `least` (Q,)."""
        line, candidate = _true(self.scores.fast(queries) >= least[:, None])
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
    order = _Order(scores, relation, length, "pessimistic")
    lists = np.empty((len(asked), length), np.int32)
    exact = np.empty((len(asked), length), np.float32)
    for part in slices(len(asked), _BLOCK_ELEMENTS // candidates) if length else ():
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
