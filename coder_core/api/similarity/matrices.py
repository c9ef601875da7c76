"""A run's similarity matrix before and after diversity scaling: chosen, ordered, scaled, opened, as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.diversity.anchor import Loss
from coder_core.api.sides import Array, Direction, Sides
from coder_core.api.similarity.batch import Batch, Order, order_batch
from coder_core.api.similarity.scaling import CELLS, Pair, Scaled, anchor_diversity, open_pair, scale, spread_over

if TYPE_CHECKING:
    from coder_core.api.run import Run


def batch_sides(run: Run, split: str, batch: Batch, direction: Direction) -> Sides:
    """The embeddings of a batch, anchors first: "i2t" has images as anchors."""
    v, w, scores = run.compared(split)
    owner = run.image_of_text(split)[batch.texts]
    images, texts = (np.asarray(v[batch.images]), batch.images), (np.asarray(w[batch.texts]), owner)
    known = None if scores is None else scores[batch.images[:, None], batch.texts[None, :]]
    if direction == "i2t":
        return Sides(images[0], texts[0], images[1], texts[1], known)
    return Sides(texts[0], images[0], texts[1], images[1], None if known is None else known.T)


def ordered(run: Run, split: str, batch: Batch, by: Order, direction: Direction, loss: Loss) -> Batch:
    """The batch in the order of this run's diversities, or of what is alike to it."""
    if by == "drawn":
        return batch
    diversity = anchor_diversity(batch_sides(run, split, batch, direction), loss).diversity
    return order_batch(run, split, batch, by, diversity, "image" if direction == "i2t" else "text")


def batch_spread(run: Run, split: str, batch: Batch, direction: Direction, loss: Loss) -> Array:
    """Each anchor's standard deviation or entropy over what is shown; of `loss` only the measure and τ matter."""
    return spread_over(batch_sides(run, split, batch, direction), loss)


def scaled_matrix(
    run: Run, split: str, batch: Batch, direction: Direction, loss: Loss, *, cells: int = CELLS,
    spread: Array | None = None,
) -> Scaled:  # fmt: skip
    """S, exponents, what diversity adds to them, and shares of the loss; diversity is taken over what is shown.

    Args:
        batch: from `choose_batch`, perhaps `ordered`. loss: μ, γ, ε, measure of diversity.
        cells: a side; a larger matrix is shown as the means of blocks.
        spread: from `batch_spread`, when it is known.

    Raises:
        ValueError: μ or ε is not positive.
    """
    sides = batch_sides(run, split, batch, direction)
    return scale(sides, anchor_diversity(sides, loss, spread), loss, cells=cells)


def scaled_pair(
    run: Run, split: str, batch: Batch, direction: Direction, scaled: Scaled, anchor: int, candidate: int
) -> Pair:
    """Every number behind one pair; `anchor` and `candidate` are positions in the batch."""
    sides = batch_sides(run, split, batch, direction)
    return open_pair(sides, scaled.spread, scaled.loss, anchor, candidate, paired=batch.paired)


def hardest_in_cell(
    run: Run, split: str, batch: Batch, direction: Direction, scaled: Scaled, row: int, column: int
) -> tuple[int, int]:
    """Positions (anchor, candidate) of a cell's pair; of a block, its most similar negative."""
    first, left = row * scaled.row_step, column * scaled.column_step
    if scaled.row_step == scaled.column_step == 1:
        return first, left
    s = batch_sides(run, split, batch, direction)
    rows, columns = slice(first, first + scaled.row_step), slice(left, left + scaled.column_step)
    scores = s.tile(rows)[:, columns]
    scores[s.anchor_images[rows, None] == s.candidate_images[None, columns]] = -np.inf
    place = np.unravel_index(int(scores.argmax()), scores.shape)
    return first + int(place[0]), left + int(place[1])


def positions(batch: Batch, direction: Direction, image: int, text: int) -> tuple[int, int] | None:
    """Where an image and a caption stand in the matrix (anchor, candidate); None when one of them is not shown.

    An image that stands in a batch of pairs more than once is taken beside this caption, when it is its own.
    """
    found = [np.flatnonzero(rows == number) for rows, number in ((batch.images, image), (batch.texts, text))]
    if not len(found[0]) or not len(found[1]):
        return None
    j = int(found[1][0])
    i = j if batch.paired and j in found[0] else int(found[0][0])
    return (i, j) if direction == "i2t" else (j, i)


def matrix_table(scaled: Scaled, batch: Batch, direction: Direction) -> pd.DataFrame:
    """One row a cell: anchor, candidate (rows in the split; of a block its first), and the four values.

    Own pairs have no exponent, change or share. Of blocks every value is a mean.
    """
    rows, columns = _shown(batch, direction)
    anchors, candidates = rows[:: scaled.row_step], columns[:: scaled.column_step]
    names = ("image", "caption") if direction == "i2t" else ("caption", "image")
    table = {
        f"{'first ' if scaled.row_step > 1 else ''}{names[0]}": np.repeat(anchors, len(candidates)),
        f"{'first ' if scaled.column_step > 1 else ''}{names[1]}": np.tile(candidates, len(anchors)),
        "similarity": scaled.similarity.ravel(),
        "exponent": scaled.exponent.ravel(),
        "diversity adds": scaled.change.ravel(),
        "share": scaled.share.ravel(),
    }
    return pd.DataFrame(table)


def labels(scaled: Scaled, batch: Batch, direction: Direction) -> tuple[list[str], list[str]]:
    """What a reader sees of rows and columns: "image 12", or "images 12 … 80 (14)" for a block."""
    anchors, candidates = _shown(batch, direction)
    names = ("image", "caption") if direction == "i2t" else ("caption", "image")
    return _labels(anchors, scaled.row_step, names[0]), _labels(candidates, scaled.column_step, names[1])


def _shown(batch: Batch, direction: Direction) -> tuple[Array, Array]:
    return (batch.images, batch.texts) if direction == "i2t" else (batch.texts, batch.images)


def _labels(rows: Array, step: int, name: str) -> list[str]:
    if step == 1:
        return [f"{name} {number}" for number in rows.tolist()]
    blocks = [rows[start : start + step].tolist() for start in range(0, len(rows), step)]
    return [f"{name}s {block[0]} … {block[-1]} ({len(block)})" for block in blocks]
