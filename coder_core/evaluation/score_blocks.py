"""Scores of some rows with all columns at a time, and those of them that reach a limit of their row or column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from coder_core.evaluation.scores import Scores
from coder_core.evaluation.sources import slices

BLOCK_ELEMENTS = 1 << 22  # 16 MiB of scores at once …
_FEWEST_ROWS = 16  # … or of so many rows, below which a product is slow
_COMPARED_ELEMENTS = 1 << 17  # scores compared at once, which fit the core's cache …
_COMPARED_ROWS = 255  # … of at most so many rows, as counts are uint8


class Block:
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


def blocks(scores: Scores) -> Iterator[Block]:
    """Yield all scores, some rows at a time. All blocks share one buffer: the next one overwrites the last.

    >>> from coder_core.evaluation.scores import check_scores
    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> scores = check_scores([ScoreMatrix(np.array([[0.5, 0.25], [0.75, 1.0]]))])
    >>> [block.values.tolist() for block in blocks(scores)]
    [[[0.5, 0.25], [0.75, 1.0]]]
    """
    rows, columns = scores.shape
    height = min(rows, max(_FEWEST_ROWS, BLOCK_ELEMENTS // columns))
    buffer = torch.empty(height, columns, device=scores.device)
    for part in slices(rows, height):
        yield Block(scores, part, buffer)


@dataclass(frozen=True)
class HighScores:
    """The scores of a block that reach a limit of their row or column."""

    row: Tensor  # (F,) int64, in the block
    column: Tensor  # (F,) int64
    score: Tensor  # (F,)

    def line(self, by_row: bool) -> Tensor:
        """Return the rows, or the columns."""
        return self.row if by_row else self.column

    def some(self, which: Tensor) -> HighScores:
        """Return some of the scores, by their flags or numbers."""
        return HighScores(self.row[which], self.column[which], self.score[which])

    def joined(self, row: Tensor, column: Tensor, score: Tensor) -> HighScores:
        """Return these and further scores."""
        return HighScores(
            torch.cat([self.row, row]), torch.cat([self.column, column]), torch.cat([self.score, score])
        )


def high_scores(values: Tensor, least: Tensor, *, by_row: bool, share: float) -> HighScores | None:
    """Return the scores that reach the limit of their row or column, `least`, by ascending rows; None if they are more than
    this share of all. On a CPU by NumPy, comparing as many at once as fit the cache.

    >>> scores = torch.tensor([[0.1, 0.5], [0.3, 0.7]])
    >>> high_scores(scores, torch.tensor([0.2, 0.6]), by_row=False, share=0.5)
    HighScores(row=tensor([1, 1]), column=tensor([0, 1]), score=tensor([0.3000, 0.7000]))
    >>> high_scores(scores, torch.tensor([0.2, 0.6]), by_row=False, share=0.4) is None
    True
    """
    most = int(share * values.numel())
    if values.device.type == "cpu":
        found = _reaching(values.numpy(), least.numpy(), by_row, most)
    else:
        flags = values >= (least[:, None] if by_row else least)
        found = None if int(torch.count_nonzero(flags)) > most else true_pairs(flags)
    if found is None:
        return None
    row, column = found
    return HighScores(row, column, values[row, column])


def _reaching(values: np.ndarray, least: np.ndarray, by_row: bool, most: int) -> tuple[Tensor, Tensor] | None:
    """Return the rows, ascending, and the columns of the scores that reach the limits; None if they are more than
    `most`."""
    rows = []
    columns = []
    found = 0
    for part, flags in _compared(values):
        np.greater_equal(values[part], least[part, None] if by_row else least, out=flags)
        position = np.flatnonzero(flags)
        found += len(position)
        if found > most:
            return None
        row, column = np.divmod(position, values.shape[1])
        rows.append(row + part.start)
        columns.append(column)
    return torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.concatenate(columns))


def ends_around(own: Tensor, error: float) -> Tensor:
    """Return (2, …): the least score that may reach each right one, and the least that is certainly above it.

    Args:
        own: exact scores of right candidates.
        error: the largest error of the scores that are compared with them.

    >>> ends_around(torch.tensor([0.5]), 0.25)
    tensor([[0.2500],
            [0.7500]])
    """
    return torch.stack([own - error, torch.nextafter(own + error, own.new_tensor(torch.inf))])


def count_reaching_ends(lines: Tensor, ends: Tensor, *, by_row: bool) -> Tensor:
    """Count, (2, places, L), the scores of every line that are at least each of its `ends`. On a CPU by NumPy, which
    counts booleans several times faster than PyTorch.

    >>> ends = torch.tensor([[[0.2, 0.2]], [[0.6, 0.6]]])
    >>> count_reaching_ends(torch.tensor([[0.1, 0.5], [0.3, 0.7]]), ends, by_row=True)
    tensor([[[1, 2]],
    <BLANKLINE>
            [[0, 1]]])
    """
    limits = ends.flatten(0, 1)
    if lines.device.type != "cpu":
        counts = torch.stack(
            [(lines >= (end[:, None] if by_row else end)).sum(int(by_row)) for end in limits]
        )
        return counts.view(ends.shape)
    return torch.from_numpy(_count_reaching(lines.numpy(), limits.numpy(), by_row)).view(ends.shape)


def _count_reaching(values: np.ndarray, limits: np.ndarray, by_row: bool) -> np.ndarray:
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


def true_pairs(flags: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows and the columns that are true; on a CPU by NumPy, which is several times faster.

    >>> true_pairs(torch.tensor([[False, True], [True, False]]))
    (tensor([0, 1]), tensor([1, 0]))
    """
    if flags.device.type != "cpu":
        rows, columns = flags.nonzero(as_tuple=True)
        return rows, columns
    row, column = np.divmod(np.flatnonzero(flags.numpy()), flags.shape[1])
    return torch.from_numpy(row), torch.from_numpy(column)
