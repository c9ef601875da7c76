"""c-way accuracy: the right answer among c options. Thomas & Kovashka, section 4; section 3 of docs/equations.md.

Each caption-image pair is one question in each direction: which of c captions belongs to this image, which of c images
to this caption. The c − 1 wrong options are drawn without repetition from the samples of other images, anew in every
repeat; a smaller c takes the first of the same draw, so accuracy never rises with c. Only comparisons are made, tile by
tile, with the exact scores of `exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy import stats

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.ranking import Checked, Ties
from coder_core.evaluation.sources import Scored

Direction = Literal["i2t", "t2i"]
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")
BLOCK = 1_024  # questions whose options are drawn together: the draw depends on it, so it is part of the seed
TILE_ELEMENTS = 4_194_304  # 32 MiB of float64
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of one direction among c options.

    Args:
        mean: percent of the questions answered rightly, over all repeats.
        interval: half width of the 95% interval of that mean over repeats (Student's t). It says how much the draw of
            the options matters, not how another test set would come out.
        repeats: (R,) percent of each repeat.
    """

    mean: float
    interval: float
    repeats: np.ndarray


@dataclass(frozen=True)
class _Side:
    """Queries and candidates of one direction; candidates stand in the order of their images."""

    tile: Callable[[np.ndarray], np.ndarray]  # (k,) queries -> (k, C) float32 scores with all candidates
    candidates: int  # C
    query: np.ndarray  # (m,) the query of every question, ascending
    own: np.ndarray  # (m,) its right answer, a place among the candidates
    first: np.ndarray  # (m,) where the candidates of its image begin
    count: np.ndarray  # (m,) how many there are


def most_options(image_of_text: np.ndarray, images: int, direction: Direction) -> int:
    """The largest c that every question of a direction can be asked with: its answer, and all of other images."""
    if direction == "t2i":
        return images
    return len(image_of_text) - int(np.bincount(image_of_text, minlength=images).max()) + 1


def accuracies(
    scored: Checked, options: Sequence[int], direction: Direction, *, repeats: int = 10, seed: int = 0,
    ties: Ties = "pessimistic",
) -> dict[int, Accuracy]:  # fmt: skip
    """Accuracy among each number of options.

    Three images with one caption each, scores [[.9, .8, .1], [.95, .7, .2], [.3, .4, .5]] and c = 3, so that nothing
    is left to chance: captions ask for images with 0 and 1 wrong (.95 > .9, .8 > .7) and 2 right: 33.3%.

    Args:
        scored: what is ranked.
        options: each c, the right answer included; 2 or more.
        repeats: draws of the wrong options.
        seed: of the draws.
        ties: "pessimistic": an option that scores exactly as the right answer is taken for the better one.

    Returns:
        c → accuracy.

    Raises:
        InputError: the split is too small for the largest c, c is below 2, or there are fewer than two repeats.
    """
    owner = scored.image_of_text.numpy()
    faults = option_faults(options, owner, scored.n, direction, repeats)
    if faults:
        raise InputError(faults)
    side = _side(scored, direction)
    right = np.zeros((len(options), repeats), dtype=np.int64)
    for block, start in enumerate(range(0, scored.m, BLOCK)):
        asked = np.arange(start, min(start + BLOCK, scored.m))
        random = np.random.default_rng([seed, DIRECTIONS.index(direction), block])
        others = side.candidates - side.count[asked]
        drawn = draw(random, np.tile(others, repeats), max(options) - 1).reshape(repeats, len(asked), -1)
        drawn += np.where(drawn >= side.first[asked, None], side.count[asked, None], 0)  # step over the own ones
        right += _answered(side, asked, drawn, options, ties)
    shares = 100.0 * right / scored.m
    return {c: _accuracy(row) for c, row in zip(options, shares, strict=True)}


def option_faults(
    options: Sequence[int], image_of_text: np.ndarray, images: int, direction: Direction, repeats: int
) -> list[Fault]:
    """What cannot be asked: too few options or repeats, or more options than the split has."""
    most, kind = most_options(image_of_text, images, direction), "images" if direction == "t2i" else "captions"
    found = [Fault(f"{c} options", "leave nothing to choose", "2 or more") for c in options if c < 2]
    found += [
        Fault(f"{direction} {c}-way", f"the split has {most - 1:,} wrong {kind} for a question", f"{c - 1:,}",
              "choose fewer options, or a larger split")
        for c in options if c > most
    ]  # fmt: skip
    if repeats < 2:
        found.append(Fault("repeats", f"are {repeats}", "2 or more", "an interval needs two numbers"))
    return found


def draw(random: np.random.Generator, others: np.ndarray, count: int) -> np.ndarray:
    """(Q, count) different whole numbers below `others` (Q,), each row in random order.

    Floyd's algorithm (Bentley & Floyd 1987) on all rows at once: `count` steps, however many there are to draw from.
    """
    chosen = np.empty((count, len(others)), dtype=np.int64)
    for step in range(count):
        top = others - count + step
        number = random.integers(0, top, endpoint=True)
        taken = (chosen[:step] == number).any(0)
        chosen[step] = np.where(taken, top, number)
    return random.permuted(chosen.T, axis=1)


def _side(scored: Checked, direction: Direction) -> _Side:
    owner = scored.image_of_text.numpy()
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=scored.n)
    if direction == "t2i":
        ones = np.ones(scored.m, dtype=np.int64)
        return _Side(_tiles(scored, direction, order), scored.n, np.arange(scored.m), owner, owner, ones)
    sorted_owner = owner[order]
    first = np.searchsorted(sorted_owner, sorted_owner)
    places = np.arange(scored.m)
    tile = _tiles(scored, direction, order)
    return _Side(tile, scored.m, sorted_owner, places, first, count[sorted_owner])


def _answered(side: _Side, asked: np.ndarray, drawn: np.ndarray, options: Sequence[int], ties: Ties) -> np.ndarray:
    """(len(options), R) questions of a block that are answered rightly."""
    right = np.zeros((len(options), len(drawn)), dtype=np.int64)
    queries, row = np.unique(side.query[asked], return_inverse=True)
    step = max(1, TILE_ELEMENTS // side.candidates)
    for start in range(0, len(queries), step):
        tile = side.tile(queries[start : start + step])
        here = np.flatnonzero((row >= start) & (row < start + len(tile)))
        rows = row[here] - start
        own = tile[rows, side.own[asked[here]]]
        wrong = tile[rows[:, None], drawn[:, here]]  # (R, questions, options)
        beaten = wrong >= own[:, None] if ties == "pessimistic" else wrong > own[:, None]
        for position, c in enumerate(options):
            right[position] += (~beaten[..., : c - 1].any(2)).sum(1)
    return right


def _tiles(scored: Checked, direction: Direction, order: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Scores of some queries with all candidates; captions as candidates stand in `order`.

    Inner products are rounded from float64, so that equal embeddings score equal; a matrix says its scores itself.
    """
    everything = slice(None)
    if not isinstance(scored, Scored):
        if direction == "t2i":
            return lambda queries: scored.block(everything, queries).T.numpy()
        return lambda queries: scored.block(queries, everything).numpy()[:, order]
    texts = [text if direction == "t2i" else text[torch.from_numpy(order)] for text in scored.texts]
    sides = (texts, scored.images) if direction == "t2i" else (scored.images, texts)

    def tile(queries: np.ndarray) -> np.ndarray:
        rows = torch.from_numpy(queries)
        total = torch.zeros(len(rows), len(sides[1][0]), dtype=torch.float64)
        for query, candidate, weight in zip(*sides, scored.weights, strict=True):
            total.addmm_(query[rows].double(), candidate.double().T, alpha=weight)
        return total.float().numpy()

    return tile


def _accuracy(shares: np.ndarray) -> Accuracy:
    spread = float(shares.std(ddof=1)) / len(shares) ** 0.5
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(shares) - 1))
    return Accuracy(float(shares.mean()), quantile * spread, shares)
