"""c-way accuracy: the right answer among c options. Thomas & Kovashka, section 4; section 4 of docs/equations.md.

Each caption-image pair is one question in each direction: which of c captions belongs to this image, which of c images
to this caption. The c − 1 wrong options are drawn without replacement from the samples of other images, again in every
repeat; a smaller c uses the first options of the same draw, so accuracy never rises with c. Exact scores are compared:
of all candidates tile by tile or, where fewer are drawn than that would cost, of the drawn ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import torch

from coder_core.console.faults import Fault, InputError
from coder_core.evaluation.relevance import Queries
from coder_core.evaluation.scores import EVERY, Scores, Ties
from coder_core.evaluation.sources import slices

Direction = Literal["i2t", "t2i"]
DIRECTIONS: tuple[Direction, ...] = ("i2t", "t2i")
BLOCK = 1_024  # questions whose options are drawn together; the draw depends on it, as on the seed
TILE_ELEMENTS = 4_194_304  # 32 MiB of float64
PAIR_COST = 16  # scoring a single pair takes as long as scoring so many pairs of a whole line
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Protocol:
    """Who is asked, how wrong options are drawn, and how ties count."""

    repeats: int = 10  # draws of the wrong options
    seed: int = 0
    ties: Ties = "pessimistic"  # an option with exactly the score of the right answer counts as better
    asked: Queries | None = None  # the queries that are asked, about all of their right answers; None: all

    def queries(self, direction: Direction) -> np.ndarray | None:
        """Return the queries of one direction that are asked; None: all."""
        if self.asked is None:
            return None
        return self.asked.images if direction == "i2t" else self.asked.texts


class Accuracy(NamedTuple):
    """Accuracy of one direction among c options. The interval covers the draw of the options, not the choice of the
    test set."""

    mean: float  # percent of hits, over all repeats
    interval: float  # half width of the 95% interval of that mean over repeats (Student's t)
    repeats: np.ndarray  # (R,) percent of each repeat


@dataclass(frozen=True)
class _Questions:
    """All M questions of a direction; candidates are in the order of their images."""

    query: np.ndarray  # (M,) the query of every question, ascending
    answer: np.ndarray  # (M,) its right answer, a position among the candidates
    first: np.ndarray  # (M,) position of the first candidate of its image
    count: np.ndarray  # (M,) number of candidates of its image
    order: np.ndarray  # (C,) the image or caption at each candidate position
    by_image: bool  # True if the queries are images

    def part(self, rows: np.ndarray) -> _Questions:
        """Return some of the questions."""
        return replace(
            self,
            query=self.query[rows],
            answer=self.answer[rows],
            first=self.first[rows],
            count=self.count[rows],
        )


def most_options(image_of_text: np.ndarray, images: int, direction: Direction) -> int:
    """Return the largest c for which every question of a direction has c − 1 wrong options.

    >>> most_options(np.array([0, 0, 1, 1, 1]), 2, "i2t"), most_options(np.array([0, 0, 1, 1, 1]), 2, "t2i")
    (3, 2)
    """
    if direction == "t2i":
        return images
    return len(image_of_text) - int(np.bincount(image_of_text, minlength=images).max()) + 1


def c_way_accuracy(
    scores: Scores,
    image_of_text: np.ndarray,
    options: Sequence[int],
    direction: Direction,
    protocol: Protocol = Protocol(),
) -> dict[int, Accuracy]:
    """Compute the accuracy for each number c of options, which includes the right answer. InputError: see `option_faults`.

    The example has three images with one caption each and c = 3, so nothing is random. Captions 0 and 1 choose a wrong
    image (.95 > .9, .8 > .7), caption 2 the right one.

    >>> from coder_core.evaluation.sources import ScoreMatrix
    >>> from coder_core.evaluation.scores import check_scores
    >>> scores = check_scores([ScoreMatrix(np.array([[0.9, 0.8, 0.1], [0.95, 0.7, 0.2], [0.3, 0.4, 0.5]]))])
    >>> round(c_way_accuracy(scores, np.arange(3), [3], "t2i")[3].mean, 1)
    33.3
    """
    images, texts = scores.shape
    repeats = protocol.repeats
    faults = option_faults(options, image_of_text, images, direction, repeats)
    if faults:
        raise InputError(faults)

    questions = _questions(image_of_text, images, direction)
    queries = protocol.queries(direction)
    every = np.arange(texts) if queries is None else np.flatnonzero(np.isin(questions.query, queries))
    right = np.zeros((len(options), repeats), dtype=np.int64)
    for block, start in enumerate(range(0, len(every), BLOCK)):
        rows = every[start : start + BLOCK]
        random = np.random.default_rng([protocol.seed, DIRECTIONS.index(direction), block])
        asked = questions.part(rows)
        foreign = len(asked.order) - asked.count
        wrong = draw(random, np.tile(foreign, repeats), max(options) - 1).reshape(repeats, len(rows), -1)
        wrong += np.where(wrong >= asked.first[:, None], asked.count[:, None], 0)  # step over its own image
        right += _hits(scores, asked, wrong, options, protocol.ties)

    shares = 100.0 * right / len(every)
    return {c: _accuracy(row) for c, row in zip(options, shares, strict=True)}


def option_faults(
    options: Sequence[int], image_of_text: np.ndarray, images: int, direction: Direction, repeats: int
) -> list[Fault]:
    """Find impossible requests: too few options or repeats, or more options than the split has.

    >>> [str(fault) for fault in option_faults([3], np.array([0, 1]), 2, "t2i", repeats=10)]
    ['t2i 3-way: the split has 1 wrong images for a question; expected 2. Choose fewer options, or a larger split']
    """
    most = most_options(image_of_text, images, direction)
    kind = "images" if direction == "t2i" else "captions"
    fact = f"the split has {most - 1:,} wrong {kind} for a question"
    fix = "choose fewer options, or a larger split"
    faults = [Fault(f"{c} options", "leave nothing to choose from", "2 or more") for c in options if c < 2]
    faults += [Fault(f"{direction} {c}-way", fact, f"{c - 1:,}", fix) for c in options if c > most]
    if repeats < 2:
        faults.append(Fault("repeats", f"is {repeats}", "2 or more", "an interval needs two draws"))
    return faults


def draw(random: np.random.Generator, limits: np.ndarray, count: int) -> np.ndarray:
    """Draw (Q, count) whole numbers: distinct and in random order in each row, and below its limit in `limits` (Q,).

    Floyd's algorithm (Bentley & Floyd 1987) on all rows at once takes `count` steps, whatever the limits.

    >>> np.sort(draw(np.random.default_rng(0), np.array([3]), 3))
    array([[0, 1, 2]])
    """
    drawn = np.empty((count, len(limits)), dtype=np.int64)
    for step in range(count):
        top = limits - count + step
        number = random.integers(0, top, endpoint=True)
        taken = (drawn[:step] == number).any(0)
        drawn[step] = np.where(taken, top, number)
    return random.permuted(drawn.T, axis=1)


def _questions(owner: np.ndarray, images: int, direction: Direction) -> _Questions:
    if direction == "t2i":
        one = np.ones(len(owner), dtype=np.int64)
        return _Questions(np.arange(len(owner)), owner, owner, one, np.arange(images), by_image=False)
    order = np.argsort(owner, kind="stable")
    image = owner[order]
    count = np.bincount(owner, minlength=images)[image]
    first = np.searchsorted(image, image)
    return _Questions(image, np.arange(len(owner)), first, count, order, by_image=True)


def _hits(
    scores: Scores, questions: _Questions, wrong: np.ndarray, options: Sequence[int], ties: Ties
) -> np.ndarray:
    """Count the hits of a block, (len(options), R): questions whose right answer scores above all wrong options. `wrong`
    is (R, questions, max(options) − 1)."""
    right = np.zeros((len(options), len(wrong)), dtype=np.int64)
    for own, foreign in _scored(scores, questions, wrong):
        beaten = foreign >= own[:, None] if ties == "pessimistic" else foreign > own[:, None]
        for position, c in enumerate(options):
            right[position] += (~beaten[..., : c - 1].any(2)).sum(1)
    return right


def _scored(
    scores: Scores, questions: _Questions, wrong: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the scores of some right answers, (k,), and of the wrong ones of the same questions, (R, k, options)."""
    queries, line = np.unique(questions.query, return_inverse=True)
    drawn = wrong.shape[0] * wrong.shape[2] + 1
    if PAIR_COST * drawn * len(line) < len(questions.order) * len(queries):
        for part in slices(len(line), TILE_ELEMENTS // drawn):
            inside = np.arange(part.start, part.stop)
            own = _of_pairs(scores, questions, questions.query[inside], questions.answer[inside])
            query = np.broadcast_to(questions.query[inside, None], wrong[:, inside].shape)
            yield own, _of_pairs(scores, questions, query, wrong[:, inside])
        return

    for part in slices(len(queries), TILE_ELEMENTS // len(questions.order)):
        some = torch.from_numpy(queries[part])
        of_some = scores.exact(some) if questions.by_image else scores.exact(EVERY, some).T
        tile = of_some.cpu().numpy()
        inside = np.flatnonzero((line >= part.start) & (line < part.stop))
        lines = line[inside] - part.start
        own = tile[lines, questions.order[questions.answer[inside]]]
        yield own, tile[lines[:, None], questions.order[wrong[:, inside]]]


def _of_pairs(scores: Scores, questions: _Questions, query: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the exact scores of queries with the candidates in some places, both of one shape."""
    queries = torch.from_numpy(query.ravel())
    candidates = torch.from_numpy(questions.order[place].ravel())
    rows, columns = (queries, candidates) if questions.by_image else (candidates, queries)
    return scores.pairs(rows.to(scores.device), columns.to(scores.device)).cpu().numpy().reshape(place.shape)


def _accuracy(shares: np.ndarray) -> Accuracy:
    from scipy.special import stdtrit  # a quarter of a second to import

    spread = float(shares.std(ddof=1)) / len(shares) ** 0.5
    quantile = float(stdtrit(len(shares) - 1, (1 + CONFIDENCE) / 2))
    return Accuracy(float(shares.mean()), quantile * spread, shares)
