"""A run's similarity matrix before and after diversity scaling: its samples in order, its cells, and as a table; μ and
γ to read a run with that was not trained by eq. 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten

import numpy as np
import pandas as pd

from coder_core.api.diversity import Loss
from coder_core.api.run import Run
from coder_core.api.sides import QUERIES, Array, Direction, Sides
from coder_core.api.similarity.samples import MatrixSamples, Order, order_samples
from coder_core.api.similarity.scaling import CELLS, Scaled, anchor_diversity, scale

LABEL_LENGTH = 80  # letters of a caption in a label
PAIRS_AT_MOST = 200_000
TOP_OF_NEGATIVES = 0.99
MEDIANS_TO_MU = 1 / 3  # puts μ at the paper's 0.1 where the two medians lie 0.3 apart, as on Flickr8k
LEAST_MU = 0.005


def matrix_sides(run: Run, split: str, samples: MatrixSamples, direction: Direction) -> Sides:
    """The anchors ("i2t": images) and candidates of a matrix, in its order."""
    split_part, images, texts = run.compared(split), samples.images, samples.texts
    v, w, owner = split_part.images[images], split_part.texts[texts], split_part.owner[texts]
    scores = None if split_part.scores is None else split_part.scores[np.ix_(images, texts)]
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
    return order_samples(run, split, samples, by, diversity, QUERIES[direction])


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

    An image that is in a batch of pairs more than once is taken beside this caption, when it is its own.
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
    axes = _axes(scaled, samples, direction)
    names = [f"first {name}" if step > 1 else name for _, name, step in axes]
    anchors, candidates = (rows[::step] for rows, _, step in axes)
    table = {
        names[0]: np.repeat(anchors, len(candidates)),
        names[1]: np.tile(candidates, len(anchors)),
        "similarity": scaled.similarity.ravel(),
        "exponent": scaled.exponent.ravel(),
        "diversity adds": scaled.change.ravel(),
        "share": scaled.share.ravel(),
    }
    return pd.DataFrame(table)


def labels(
    scaled: Scaled, samples: MatrixSamples, direction: Direction, captions: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Labels of rows and columns: "image 12" and "caption 60: a dog in …", or "images 12 … 80 (14)" for a block. Without
    the captions of the split a caption is its number."""
    anchors, candidates = (_labels(*axis, captions) for axis in _axes(scaled, samples, direction))
    return anchors, candidates


def _axes(scaled: Scaled, samples: MatrixSamples, direction: Direction) -> list[tuple[Array, str, int]]:
    """Rows in the split, name and step of the anchors and of the candidates."""
    names = [(samples.images, "image"), (samples.texts, "caption")]
    names = names if direction == "i2t" else names[::-1]
    return [(*name, step) for name, step in zip(names, (scaled.row_step, scaled.column_step), strict=True)]


def _labels(rows: Array, name: str, step: int, captions: Sequence[str]) -> list[str]:
    if step > 1:
        blocks = [rows[start : start + step].tolist() for start in range(0, len(rows), step)]
        return [f"{name}s {block[0]} … {block[-1]} ({len(block)})" for block in blocks]
    if name == "image" or not captions:
        return [f"{name} {row}" for row in rows.tolist()]
    return [
        f"{name} {row}: {shorten(captions[row], LABEL_LENGTH, placeholder=' …')}" for row in rows.tolist()
    ]


@dataclass(frozen=True)
class StartingValues:
    """μ and γ that fit a run's similarities, and what they follow from.

    Args:
        loss: γ is midway between `negatives_top` and `positives`; μ is a third of the distance between the medians,
            at least 0.005; both rounded to 0.005. ε is the paper's. Without negatives all are the paper's.
        negatives, negatives_top: median and 99th percentile of the similarities of other pairs; NaN without any.
        positives: median of those of matching pairs.
    """

    loss: Loss
    negatives: float
    negatives_top: float
    positives: float


def values_from_similarities(
    run: Run, split: str, *, pairs: int = PAIRS_AT_MOST, seed: int = 0
) -> StartingValues:
    """Take μ and γ from quantiles of a run's similarities, everything else from `run.loss`. Of a larger split, `pairs`
    random pairs are looked at (`seed`)."""
    loss = run.loss
    s = run.sides(split, "text")
    captions, images = len(s.anchors), len(s.candidates)
    positives = float(np.median(s.pairs(np.arange(captions), s.anchor_images)))
    every = captions * images
    cells = np.arange(every) if every <= pairs else np.random.default_rng(seed).integers(every, size=pairs)
    anchors, candidates = np.divmod(cells, images)
    other = s.anchor_images[anchors] != candidates
    if not other.any():
        return StartingValues(loss, float("nan"), float("nan"), positives)
    scores = s.pairs(anchors[other], candidates[other])
    middle, top = (float(value) for value in np.quantile(scores, [0.5, TOP_OF_NEGATIVES]))
    mu = max(_rounded(MEDIANS_TO_MU * (positives - middle)), LEAST_MU)
    loss = replace(loss, temperature=mu, gamma=_rounded((top + positives) / 2))
    return StartingValues(loss, middle, top, positives)


def _rounded(value: float) -> float:
    return round(round(value / 0.005) * 0.005, 3)
