"""A similarity matrix before and after diversity scaling: its cells, every number of a pair, and a table. CODER eq. 4.

With S the cosines, an anchor i and its negatives j, the exponent of the loss is x_ij = (S_ij − γ) / (μ·div_i), and the
share of a negative in the loss is p_ij = exp(x_ij) / (1 + Σ_k exp(x_ik)). A matrix is computed tile by tile, a large
one as the means of blocks. At the end: μ and γ for a run that was not trained with eq. 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from textwrap import shorten
from typing import Literal

import numpy as np
import pandas as pd

from coder_core.api.diversity import LossSettings, normalise_in_draw, shares, spread_over
from coder_core.api.matrix_samples import BatchSource, MatrixSamples, SampleChoice, choose_samples
from coder_core.api.run import Run
from coder_core.api.sides import Array, Direction, Sides
from coder_core.geometry.text_space import unit_rows
from coder_core.ops.diversity_scaling import sharpness, squash

Order = Literal["drawn", "diversity", "cluster"]

TILE = 2_097_152  # 8 MiB of float32: the largest piece of S in memory
CELLS = 256  # per side; up to this size every pair has its own cell
LABEL_LENGTH = 80  # letters of a caption in a label
PAIRS_AT_MOST = 200_000
TREE_AT_MOST = 2_000  # a tree of all distances above this takes seconds
TOP_OF_NEGATIVES = 0.99
MEDIANS_TO_MU = 1 / 3  # gives the paper's μ of 0.1 if the two medians differ by 0.3, as on Flickr8k
LEAST_MU = 0.005


@dataclass(frozen=True)
class AnchorDiversity:
    """Diversity of each anchor over the negatives shown. CODER eq. 3."""

    spread: Array  # (Q,) standard deviation, or entropy in bits
    raw: Array  # (Q,) 1 / sigmoid(ε / spread)
    diversity: Array  # (Q,) raw over the largest raw
    negatives: Array  # (Q,) number of negatives


@dataclass(frozen=True)
class Scaled:
    """A matrix before and after diversity scaling; anchors are rows, candidates columns, all four float32 (R, C)."""

    similarity: Array  # S, including own pairs
    exponent: Array  # (S − γ) / (μ·div)
    change: Array  # what diversity adds to (S − γ) / μ
    share: Array  # p, of the loss. NaN for own pairs, which are not negatives.
    # row_step, column_step: samples in a cell; above 1 the cell is the mean of a block
    row_step: int
    column_step: int
    spread: AnchorDiversity  # of the anchors
    loss: LossSettings


def shown_spread(s: Sides, loss: LossSettings) -> Array:
    """Return (Q,) standard deviation, or entropy in bits, of each anchor over the negatives in `s`; ignores μ, γ, ε."""
    return spread_over(s, loss.function, loss.entropy_temperature)


def shown_diversity(s: Sides, loss: LossSettings, spread: Array | None = None) -> AnchorDiversity:
    """Compute spread (given from `shown_spread`, or None) and diversity of every anchor over the negatives in `s`,
    normalised over these anchors."""
    spread = shown_spread(s, loss) if spread is None else spread
    raw = squash(spread, loss.epsilon)
    own, _, _ = s.own_pairs()
    return AnchorDiversity(spread, raw, normalise_in_draw(raw), len(s.candidates) - own)


def scale(s: Sides, spread: AnchorDiversity, loss: LossSettings, *, cells: int = CELLS) -> Scaled:
    """Compute the four matrices, at most `cells` per side, with only one tile of S in memory at a time. ValueError: μ
    is not positive. `s`: unit rows, in the order shown. `spread`: of the same anchors. `loss`: μ and γ."""
    plain = sharpness(1.0, loss.temperature)
    scaled = sharpness(spread.diversity, loss.temperature)

    total = len(s.anchors)
    width = len(s.candidates)
    row_step = max(1, -(-total // cells))
    column_step = max(1, -(-width // cells))
    tops = np.arange(0, total, row_step)
    starts = np.arange(0, width, column_step)

    sizes = np.outer(np.diff(np.append(tops, total)), np.diff(np.append(starts, width)))
    counts = sizes.copy()  # negatives of a block
    _, own_rows, own_columns = s.own_pairs()
    np.subtract.at(counts, (own_rows // row_step, own_columns // column_step), 1)

    of_rows = np.stack([scaled, scaled - plain]).astype(np.float32)
    sums = np.zeros((4, len(tops), len(starts)))  # similarity, exponent, change, share
    for part, tile, own in s.tiles(TILE):
        start = part.start
        block, first = np.unique(np.arange(part.start, part.stop) // row_step, return_index=True)
        added = np.empty((4, len(block), width), np.float32)
        np.add.reduceat(tile, first, out=added[0])
        tile -= np.float32(loss.gamma)
        tile[own] = 0.0
        for number, (top, bottom) in enumerate(pairwise([*first, len(tile)])):
            np.matmul(of_rows[:, start + top : start + bottom], tile[top:bottom], out=added[1:3, number])
        tile *= of_rows[0, part, None]
        tile[own] = -np.inf
        np.add.reduceat(shares(tile), first, out=added[3])
        sums[:, block] += np.add.reduceat(added, starts, 2)

    similarity = (sums[0] / sizes).astype(np.float32)
    negatives = np.where(counts > 0, counts, np.nan)
    exponent, change, share = (sums[1:] / negatives).astype(np.float32)
    return Scaled(similarity, exponent, change, share, row_step, column_step, spread, loss)


@dataclass(frozen=True)
class Pair:
    """One cell: every number of eq. 3 and 4 for an anchor and a candidate."""

    similarity: float  # S
    own: bool  # True if the candidate is the anchor's own, not a negative: exponents and shares are NaN
    negatives: int  # number of the anchor's negatives here
    # spread, raw, largest, diversity: eq. 3; largest is over all anchors
    spread: float
    raw: float
    largest: float
    diversity: float
    effective: float  # μ·div
    # plain, exponent: (S − γ)/μ and (S − γ)/(μ·div)
    plain: float
    exponent: float
    # total_plain, total: 1 + Σ exp over the anchor's negatives
    total_plain: float
    total: float
    # share_plain, share: exp over that total
    share_plain: float
    share: float
    positive: float  # similarity to the anchor's own partner in a batch of pairs; NaN otherwise
    # loss_plain, loss_value: μ·log(total) − log(1 + S⁺), NaN without a partner
    loss_plain: float
    loss_value: float
    loss: LossSettings


def open_pair(s: Sides, scaled: Scaled, cell: tuple[int, int], *, paired: bool) -> Pair:
    """Compute every number of one cell in float64. `cell`: positions in `s` of anchor and candidate. `paired`: candidate
    k is the partner of anchor k. IndexError: there is no such cell."""
    anchor, candidate = cell
    spread = scaled.spread
    loss = scaled.loss
    if not (0 <= anchor < len(s.anchors) and 0 <= candidate < len(s.candidates)):
        raise IndexError(f"no cell ({anchor}, {candidate}) in {len(s.anchors)} × {len(s.candidates)}")

    mu = loss.temperature
    diversity = float(spread.diversity[anchor])
    scales = sharpness(1.0, mu), sharpness(diversity, mu)
    scores = s.row(anchor).astype(np.float64)

    negatives = s.candidate_images != s.anchor_images[anchor]
    own = not bool(negatives[candidate])
    above = float("nan") if own else float(scores[candidate]) - loss.gamma
    plain, exponent = (above * scale for scale in scales)

    every = np.append(scores[negatives] - loss.gamma, 0.0)  # the 1 in the sum is exp(0)
    log_plain, log_scaled = (float(np.logaddexp.reduce(every * scale)) for scale in scales)
    positive = float(scores[anchor]) if paired else float("nan")
    pull = float(np.log1p(max(positive, -1 + 1e-4))) if paired else float("nan")

    return Pair(
        similarity=float(scores[candidate]),
        own=own,
        negatives=int(negatives.sum()),
        spread=float(spread.spread[anchor]),
        raw=float(spread.raw[anchor]),
        largest=float(spread.raw.max()),
        diversity=diversity,
        effective=mu * diversity,
        plain=plain,
        exponent=exponent,
        total_plain=float(np.exp(log_plain)),
        total=float(np.exp(log_scaled)),
        share_plain=float(np.exp(plain - log_plain)),
        share=float(np.exp(exponent - log_scaled)),
        positive=positive,
        loss_plain=mu * log_plain - pull,
        loss_value=mu * log_scaled - pull,
        loss=loss,
    )


def matrix_sides(run: Run, split: str, samples: MatrixSamples, direction: Direction) -> Sides:
    """Return the anchors ("i2t": images) and candidates of a matrix, in its order."""
    split_part = run.compared(split)
    images = samples.images
    texts = samples.texts
    v = split_part.images[images]
    w = split_part.texts[texts]
    owner = split_part.owner[texts]
    scores = None if split_part.scores is None else split_part.scores[np.ix_(images, texts)]
    of_images = Sides(v, w, images, owner, scores)
    return of_images if direction == "i2t" else of_images.turned()


def ordered(
    samples: MatrixSamples, s: Sides, by: Order, direction: Direction, loss: LossSettings
) -> MatrixSamples:
    """Order the samples by a run's diversities, most ambiguous anchor first, or with similar ones side by side. `s`: the
    run's images against its captions, as from `matrix_sides`. `direction`, `loss`: those of the anchors' diversity."""
    if by == "drawn":
        return samples

    images = samples.images
    texts = samples.texts
    if by == "cluster":
        vectors = s.anchors + s.candidates if samples.paired else s.anchors
        order = _alike(vectors if s.scores is None else s.scores)
        diversity = None
    else:
        anchors = s if direction == "i2t" else s.turned()
        diversity = shown_diversity(anchors, loss).diversity
        order = np.argsort(diversity, kind="stable")

    if samples.paired:
        return replace(samples, images=images[order], texts=texts[order])

    owner = np.searchsorted(images, s.candidate_images)  # images ascend
    if diversity is None or direction == "i2t":
        text_order = np.argsort(np.argsort(order)[owner], kind="stable")
        return replace(samples, images=images[order], texts=texts[text_order])

    count = np.maximum(np.bincount(owner, minlength=len(images)), 1)
    image_order = np.argsort(np.bincount(owner, diversity, minlength=len(count)) / count, kind="stable")
    return replace(samples, images=images[image_order], texts=texts[order])


def _alike(vectors: Array) -> Array:
    """Return an order in which similar vectors are neighbours: the leaves of an average-linkage tree of distances
    between unit rows, or, above 2,000 vectors, by angle in the plane of the two largest principal components."""
    unit = unit_rows(np.asarray(vectors))
    if len(unit) < 3:
        return np.arange(len(unit))
    if len(unit) <= TREE_AT_MOST:
        from scipy.cluster.hierarchy import leaves_list, linkage  # a third of a second to import

        # Between unit rows, Euclidean distances have the same order as cosine distances
        return np.asarray(leaves_list(linkage(unit, "average")))
    centred = unit - unit.mean(0)
    _, axes = np.linalg.eigh(centred.T @ centred)
    plane = centred @ axes[:, -2:]
    return np.argsort(np.arctan2(plane[:, 0], plane[:, 1]), kind="stable")


def scaled_matrix(s: Sides, loss: LossSettings, *, cells: int = CELLS, spread: Array | None = None) -> Scaled:
    """Compute S, exponents, the change by diversity, and shares of the loss; diversity is taken over the samples shown.
    ValueError: μ or ε is not positive. `s`: from `matrix_sides`. `cells`: number per side; a larger matrix is shown as
    the means of blocks. `spread`: from `shown_spread` of the same sides, if it is known."""
    return scale(s, shown_diversity(s, loss, spread), loss, cells=cells)


def hardest_in_cell(sides: Sides, scaled: Scaled, row: int, column: int) -> tuple[int, int]:
    """Return the positions (anchor, candidate) of a cell's pair, or of a block's most similar negative."""
    top = row * scaled.row_step
    left = column * scaled.column_step
    if scaled.row_step == scaled.column_step == 1:
        return top, left
    rows = slice(top, top + scaled.row_step)
    columns = slice(left, left + scaled.column_step)
    scores = sides.tile(rows)[:, columns]
    scores[sides.anchor_images[rows, None] == sides.candidate_images[None, columns]] = -np.inf
    anchor, candidate = np.unravel_index(int(scores.argmax()), scores.shape)
    return top + int(anchor), left + int(candidate)


def positions(samples: MatrixSamples, direction: Direction, image: int, text: int) -> tuple[int, int] | None:
    """Return the cell (anchor, candidate) of an image and a caption; None if one of them is not shown. If a batch of
    pairs has the image more than once, its occurrence beside this caption is preferred."""
    rows = np.flatnonzero(samples.images == image)
    columns = np.flatnonzero(samples.texts == text)
    if not len(rows) or not len(columns):
        return None
    j = int(columns[0])
    i = j if samples.paired and j in rows else int(rows[0])
    return (i, j) if direction == "i2t" else (j, i)


def matrix_table(scaled: Scaled, samples: MatrixSamples, direction: Direction) -> pd.DataFrame:
    """Return one row per cell: anchor, candidate (rows in the split; the first ones of a block), and the four values.
    Own pairs have no exponent, change or share. Values of blocks are means."""
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
    """Return labels of rows and columns: "image 12" and "caption 60: a dog in …", or "images 12 … 80 (14)" for a block.
    Without the split's captions, a label has only the number."""
    (anchors, name, step), (candidates, other_name, other_step) = _axes(scaled, samples, direction)
    rows = _labels(anchors, name, step, captions)
    columns = _labels(candidates, other_name, other_step, captions)
    return rows, columns


def _axes(scaled: Scaled, samples: MatrixSamples, direction: Direction) -> list[tuple[Array, str, int]]:
    """Return rows in the split, name and step of the anchors and of the candidates."""
    names = [(samples.images, "image"), (samples.texts, "caption")]
    names = names if direction == "i2t" else names[::-1]
    return [(*name, step) for name, step in zip(names, (scaled.row_step, scaled.column_step), strict=True)]


def _labels(rows: Array, name: str, step: int, captions: Sequence[str]) -> list[str]:
    if step > 1:
        blocks = [rows[start : start + step].tolist() for start in range(0, len(rows), step)]
        return [f"{name}s {block[0]} … {block[-1]} ({len(block)})" for block in blocks]
    if name == "image" or not captions:
        return [f"{name} {row}" for row in rows.tolist()]
    texts = [shorten(captions[row], LABEL_LENGTH, placeholder=" …") for row in rows.tolist()]
    return [f"{name} {row}: {text}" for row, text in zip(rows.tolist(), texts, strict=True)]


@dataclass(frozen=True)
class StartingValues:
    """μ and γ that fit a run's similarities, and the statistics they are derived from."""

    # γ is midway between `negatives_top` and `positives`; μ is a third of the distance between the medians,
    # at least 0.005; both rounded to 0.005. ε is the paper's. Without negatives all are the paper's.
    loss: LossSettings
    # negatives, negatives_top: median and 99th percentile of the similarities of other pairs; NaN without any
    negatives: float
    negatives_top: float
    positives: float  # median of those of matching pairs


def values_from_similarities(run: Run, split: str, *, pairs: int = PAIRS_AT_MOST) -> StartingValues:
    """Derive μ and γ from quantiles of a run's similarities; everything else is from `run.loss`. Of a larger split,
    `pairs` random pairs are used."""
    loss = run.loss
    s = run.sides(split, "text")
    captions = len(s.anchors)
    images = len(s.candidates)
    positives = float(np.median(s.pairs(np.arange(captions), s.anchor_images)))
    every = captions * images
    cells = np.arange(every) if every <= pairs else np.random.default_rng(0).integers(every, size=pairs)
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
