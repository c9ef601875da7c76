"""Recall by slices of the captions: where does a run miss more often than elsewhere?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from coder_core.api.sides import Direction
from coder_core.api.slices.columns import TENTHS
from coder_core.api.slices.expressions import LONGEST_EXPRESSION, Columns, select
from coder_core.evaluation.recall import HALVES_SEED, Metrics, query_metrics
from coder_core.model.concepts.lemmas import STOP_WORDS

if TYPE_CHECKING:
    from coder_core.api.run import Run

LEAST_QUERIES = 20  # of a slice that is listed
MOST_IMAGES = 10_000
MOST_WORDS = 400  # the most frequent ones
DRAWS = 1000
_SEED = 20220910


class Slice(NamedTuple):
    """Captions that an expression selects."""

    kind: str
    expression: str


def usual_slices(columns: Columns) -> list[Slice]:
    """Slices by length, kinds of words, diversity, clusters, concepts and tags, and one for each frequent word.

    What no expression has room for, as a word of 500 letters, is left out.
    """
    slices = [
        Slice("length", "length <= 6"),
        Slice("length", "7 <= length <= 10"),
        Slice("length", "11 <= length <= 15"),
        Slice("length", "length > 15"),
        *(Slice("kind of word", kind) for kind in ("numbers", "colours", "spatial", "negations")),
        Slice("kind of word", "colours >= 2"),
        Slice("kind of word", "not colours and not numbers and not spatial"),
    ]
    if "tenth" in columns.numbers:
        slices += [Slice("diversity", f"tenth == {tenth}") for tenth in range(1, TENTHS + 1)]
    if "cluster" in columns.numbers:
        slices += [Slice("cluster", f"cluster == {label}") for label in np.unique(columns.numbers["cluster"])]
    concepts = columns.labels.get("concept", {})
    frequent = sorted(concepts, key=lambda concept: (-len(concepts[concept]), concept))[:MOST_WORDS]
    slices += [
        Slice("concept", f"concept == {json.dumps(concept, ensure_ascii=False)}") for concept in frequent
    ]
    words = columns.sets["words"]
    frequent = sorted(
        (word for word in words if word not in STOP_WORDS), key=lambda word: (-len(words[word]), word)
    )
    slices += [Slice("word", f'"{word}" in words') for word in frequent[:MOST_WORDS]]
    slices += [Slice("tag", f"{tag!r} in tags") for tag in sorted(columns.sets.get("tags", {}))]
    return [each for each in slices if len(each.expression) <= LONGEST_EXPRESSION]


def slice_table(
    runs: Sequence[Run], split: str, direction: Direction, at: int, slices: Sequence[Slice], columns: Columns
) -> pd.DataFrame:
    """Recall of slices, the one with the most misses beyond the expected ones first.

    A slice is discovered on one half of the images and reported on the other: its place in the table follows from
    `excess` on the half that is fixed by a seed, every other number is of the other half, so that the worst of many
    slices is not worst by chance. An image→text query belongs to a slice by any of its captions.

    Args:
        runs: on the same samples; the last is the one that is judged.
        split: name of the split. direction: of the queries. at: a query is answered within the first `at`.
        slices: to be listed; one with less than 20 queries in either half is left out.
        columns: of `slice_columns`.

    Returns:
        One row a slice: kind, expression, queries (of the images counted, see `images_counted`), share (% of them),
        excess (misses of the last run beyond those at its overall recall), of run r recall_r, low_r and high_r (percent
        and 95% interval, a bootstrap over images), and of several runs gain, gain_low and gain_high (last − first).
    """
    shown = images_counted(runs[0], split)
    images = len(shown)
    members, queries, query_image = _members(runs[0], split, direction, slices, columns, shown)
    answers = [run.ranks(split)[direction][queries] for run in runs]
    asks = answers[0] >= 0
    per_image = sparse.csr_array(
        (np.ones(len(asks)), (np.arange(len(asks)), query_image)), shape=(len(asks), images)
    )

    def counted(queries: np.ndarray) -> np.ndarray:
        """(slices + 1, images) how many of these queries each slice has of each image; the last row is the split."""
        every = sparse.vstack([members, sparse.csr_array(np.ones((1, len(asks))))])
        return np.asarray((sparse.csr_array(every.multiply(queries)) @ per_image).toarray())

    counts, hits = counted(asks), [counted((ranks >= 0) & (ranks < at)) for ranks in answers]
    discovery = np.zeros(images, dtype=bool)
    discovery[np.random.default_rng(HALVES_SEED).permutation(images)[: images // 2]] = True
    large = (counts[:-1, discovery].sum(1) >= LEAST_QUERIES) & (
        counts[:-1, ~discovery].sum(1) >= LEAST_QUERIES
    )
    listed = np.flatnonzero(large)
    listed = listed[np.argsort(-_excess(counts, hits[-1], discovery)[listed], kind="stable")]
    chosen = [slices[int(row)] for row in listed]
    frame = pd.DataFrame(
        {
            "kind": [each.kind for each in chosen],
            "expression": [each.expression for each in chosen],
            "queries": counts[listed].sum(1).astype(np.int64),
            "share": 100 * counts[listed].sum(1) / max(asks.sum(), 1),
            "excess": _excess(counts, hits[-1], ~discovery)[listed],
        }
    )
    reported = counts[listed][:, ~discovery], [own[listed][:, ~discovery] for own in hits]
    return frame.assign(**_recalls(*reported)) if len(listed) else frame


def slice_metrics(run: Run, split: str, captions: np.ndarray) -> Metrics:
    """R@K, MedR, MeanR and R@sum (see `query_metrics`) over the captions of a slice and their images.

    Args:
        captions: (c,) their numbers, at least one.
    """
    ranks = run.ranks(split)
    images = np.unique(run.image_of_text(split)[captions])
    return query_metrics(ranks["i2t"][images], ranks["t2i"][captions])


def images_counted(run: Run, split: str) -> np.ndarray:
    """The images whose queries the table counts: all, or 10,000 drawn at random from a larger split."""
    images = run.count(split, "image")
    if images <= MOST_IMAGES:
        return np.arange(images)
    return np.sort(np.random.default_rng(_SEED).choice(images, MOST_IMAGES, replace=False))


def _members(
    run: Run, split: str, direction: Direction, slices: Sequence[Slice], columns: Columns, shown: np.ndarray
) -> tuple[sparse.csr_array, np.ndarray, np.ndarray]:
    """(slices, queries) which queries belong to each slice, (queries,) their numbers, and the place of the image of
    each among those shown."""
    position = np.full(run.count(split, "image"), -1)
    position[shown] = np.arange(len(shown))
    captions = np.flatnonzero(position[run.image_of_text(split)] >= 0)
    owner = position[run.image_of_text(split)[captions]]
    rows = [np.flatnonzero(select(each.expression, columns)[captions]) for each in slices]
    ends = np.cumsum([0, *map(len, rows)])
    masks = sparse.csr_array(
        (np.ones(ends[-1]), np.concatenate(rows), ends), shape=(len(slices), len(captions))
    )
    if direction == "t2i":
        return masks, captions, owner
    owners = sparse.csr_array(
        (np.ones(len(owner)), (np.arange(len(owner)), owner)), shape=(len(owner), len(shown))
    )
    return sparse.csr_array(((masks @ owners) > 0).astype(np.float64)), shown, np.arange(len(shown))


def _excess(counts: np.ndarray, hits: np.ndarray, half: np.ndarray) -> np.ndarray:
    """(slices,) misses on a half of the images beyond those at the recall of the whole half, the last row."""
    recall = hits[-1, half].sum() / max(counts[-1, half].sum(), 1.0)
    return np.asarray(counts[:-1, half].sum(1) * recall - hits[:-1, half].sum(1))


def _recalls(counts: np.ndarray, hits: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Recall of every run in percent and the gain of the last over the first, with 95% intervals over images.

    Args:
        counts: (slices, images) queries. hits: of each run, (slices, images) those answered.
    """
    images = counts.shape[1]
    weights = (
        np.random.default_rng(_SEED)
        .multinomial(images, np.full(images, 1 / images), size=DRAWS)
        .astype(float)
    )
    columns: dict[str, np.ndarray] = {}
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw without any query of a slice has no recall
        draws = [100 * (weights @ own.T) / (weights @ counts.T) for own in hits]
    for number, own in enumerate(hits):
        columns[f"recall_{number}"] = 100 * own.sum(1) / counts.sum(1)
        columns[f"low_{number}"], columns[f"high_{number}"] = np.nanpercentile(
            draws[number], [2.5, 97.5], axis=0
        )
    if len(hits) > 1:
        columns["gain"] = columns[f"recall_{len(hits) - 1}"] - columns["recall_0"]
        columns["gain_low"], columns["gain_high"] = np.nanpercentile(
            draws[-1] - draws[0], [2.5, 97.5], axis=0
        )
    return columns
