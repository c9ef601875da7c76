"""A run's similarity matrix before and after diversity scaling: its samples in order, its cells, and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.diversity.anchor import Loss
from coder_core.api.sides import Array, Direction, Sides
from coder_core.api.similarity.samples import MatrixSamples, Order, order_samples
from coder_core.api.similarity.scaling import CELLS, Scaled, anchor_diversity, scale

if TYPE_CHECKING:
    from coder_core.api.run import Run

LABEL_LENGTH = 80  # letters of a caption in a label


def matrix_sides(run: Run, split: str, samples: MatrixSamples, direction: Direction) -> Sides:
    """The anchors ("i2t": images) and candidates of a matrix, in its order."""
    v, w, scores = run.compared(split)
    v, w, owner = (
        np.asarray(v[samples.images]),
        np.asarray(w[samples.texts]),
        run.image_of_text(split)[samples.texts],
    )
    if scores is not None:
        scores = scores[np.ix_(samples.images, samples.texts)]
    if direction == "i2t":
        return Sides(v, w, samples.images, owner, scores)
    return Sides(w, v, owner, samples.images, None if scores is None else scores.T)


def ordered(
    run: Run, split: str, samples: MatrixSamples, by: Order, direction: Direction, loss: Loss
) -> MatrixSamples:
    """The samples ordered by this run's diversities, or with alike ones side by side."""
    if by == "drawn":
        return samples
    diversity = anchor_diversity(matrix_sides(run, split, samples, direction), loss).diversity
    return order_samples(run, split, samples, by, diversity, "image" if direction == "i2t" else "text")


def scaled_matrix(
    run: Run,
    split: str,
    samples: MatrixSamples,
    direction: Direction,
    loss: Loss,
    *,
    cells: int = CELLS,
    spread: Array | None = None,
) -> Scaled:
    """S, exponents, the change by diversity, and shares of the loss; diversity is taken over the samples shown.

    Args:
        samples: from `choose_samples`, perhaps `ordered`. loss: μ, γ, ε, measure of diversity.
        cells: a side; a larger matrix is shown as the means of blocks.
        spread: from `spread_over` of the same sides, when it is known.

    Raises:
        ValueError: μ or ε is not positive.
    """
    sides = matrix_sides(run, split, samples, direction)
    return scale(sides, anchor_diversity(sides, loss, spread), loss, cells=cells)


def hardest_in_cell(sides: Sides, scaled: Scaled, row: int, column: int) -> tuple[int, int]:
    """Positions (anchor, candidate) of a cell's pair; of a block, its most similar negative."""
    top, left = row * scaled.row_step, column * scaled.column_step
    if scaled.row_step == scaled.column_step == 1:
        return top, left
    rows, columns = slice(top, top + scaled.row_step), slice(left, left + scaled.column_step)
    scores = sides.tile(rows)[:, columns]
    scores[sides.anchor_images[rows, None] == sides.candidate_images[None, columns]] = -np.inf
    anchor, candidate = np.unravel_index(int(scores.argmax()), scores.shape)
    return top + int(anchor), left + int(candidate)


def positions(samples: MatrixSamples, direction: Direction, image: int, text: int) -> tuple[int, int] | None:
    """The cell (anchor, candidate) of an image and a caption; None when one of them is not shown.

    An image that stands in a batch of pairs more than once is taken beside this caption, when it is its own.
    """
    rows, columns = np.flatnonzero(samples.images == image), np.flatnonzero(samples.texts == text)
    if not len(rows) or not len(columns):
        return None
    j = int(columns[0])
    i = j if samples.paired and j in rows else int(rows[0])
    return (i, j) if direction == "i2t" else (j, i)


def matrix_table(scaled: Scaled, samples: MatrixSamples, direction: Direction) -> pd.DataFrame:
    """One row a cell: anchor, candidate (rows in the split; of a block its first), and the four values.

    Own pairs have no exponent, change or share. Of blocks every value is a mean.
    """
    (anchors, anchor_name, row_step), (candidates, candidate_name, column_step) = _axes(
        scaled, samples, direction
    )
    anchors, candidates = anchors[::row_step], candidates[::column_step]
    table = {
        f"{'first ' if row_step > 1 else ''}{anchor_name}": np.repeat(anchors, len(candidates)),
        f"{'first ' if column_step > 1 else ''}{candidate_name}": np.tile(candidates, len(anchors)),
        "similarity": scaled.similarity.ravel(),
        "exponent": scaled.exponent.ravel(),
        "diversity adds": scaled.change.ravel(),
        "share": scaled.share.ravel(),
    }
    return pd.DataFrame(table)


def labels(
    scaled: Scaled, samples: MatrixSamples, direction: Direction, captions: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Labels of rows and columns: "image 12" and "caption 60: a dog in …", or "images 12 … 80 (14)" for a block.

    Args:
        scaled, samples, direction: of the matrix.
        captions: of the split; without them a caption is its number.
    """
    anchors, candidates = (
        _labels(*axis, captions if axis[1] == "caption" else ()) for axis in _axes(scaled, samples, direction)
    )
    return anchors, candidates


def _axes(scaled: Scaled, samples: MatrixSamples, direction: Direction) -> list[tuple[Array, str, int]]:
    """Rows in the split, name and step of the anchors and of the candidates."""
    names = [(samples.images, "image"), (samples.texts, "caption")]
    names = names if direction == "i2t" else names[::-1]
    return [(*name, step) for name, step in zip(names, (scaled.row_step, scaled.column_step), strict=True)]


def _labels(rows: Array, name: str, step: int, captions: Sequence[str]) -> list[str]:
    if step == 1:
        texts = (
            f": {shorten(captions[row], LABEL_LENGTH, placeholder=' …')}" if captions else "" for row in rows
        )
        return [f"{name} {row}{text}" for row, text in zip(rows.tolist(), texts, strict=True)]
    blocks = [rows[start : start + step].tolist() for start in range(0, len(rows), step)]
    return [f"{name}s {block[0]} … {block[-1]} ({len(block)})" for block in blocks]
