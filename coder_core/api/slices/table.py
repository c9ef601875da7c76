"""Slices of a split's captions: the columns that define them, the usual slices, and recall by slice, which shows where
a run misses more often than elsewhere."""

import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from coder_core.api.clusters import prototypes
from coder_core.api.concepts import ConceptView, summarise_attention
from coder_core.api.run import Run
from coder_core.api.sides import Array, Direction
from coder_core.api.slices.caption_words import CaptionWords, words_of_split
from coder_core.api.slices.expressions import LONGEST_EXPRESSION, Columns, select
from coder_core.api.slices.lazy import Lazy
from coder_core.api.slices.own_columns import MOST_SLICES, own_names, suggested
from coder_core.console.faults import InputError
from coder_core.evaluation.metrics import label_metrics, label_values, places
from coder_core.evaluation.rank_metrics import Metrics, query_metrics
from coder_core.evaluation.sampled import random_halves
from coder_core.model.concepts.choosing import STOP_WORDS

_USUAL = tomllib.loads(Path(__file__).with_name("usual.toml").read_text("utf-8"))
KINDS = {kind: frozenset(words.split()) for kind, words in _USUAL["kinds"].items()}
TENTHS = 10
ORDINALS = ("lowest", "2nd", "3rd", *(f"{n}th" for n in range(4, TENTHS)), "highest")
NEIGHBOURS = 50
IMAGE_NEIGHBOURS = 10
LEAST_QUERIES = 20  # fewest queries, in either half, of a slice that is listed
MOST_IMAGES = 10_000
MOST_WORDS = 400  # most frequent words, and concepts, with a slice
DRAWS = 1000
_SEED = 20220910


def slice_columns(
    run: Run, split: str, *, tags: Mapping[int, Sequence[str]] | None = None, images: Array | None = None
) -> Columns:
    """Return the columns of a split that slices are defined by, each computed when it is first read.

    Args:
        tags: caption → tags, from reviews.
        images: only their captions are meant; None: those of all images.

    Returns:
        numbers: length, numbers, colours, spatial, negations, image, rank (of the caption's image, from 1), tenth (1
        to 10 by diversity of the caption, 1 the least; if the split is small enough to measure it), cluster (of a run
        with prototypes). sets: words, tags, neighbours (of caption 12: the 50 captions nearest to it in the run's
        space, and itself), image_neighbours (of image 12: the captions of the 10 images nearest to it, and its own).
        texts: caption. labels: concept (of a run with a concept branch: the one with the caption's highest attention,
        the first of equal ones, whether or not the caption contains its word). own: the user's columns.
    """
    of_split = run.image_of_text(split)
    rows = None if images is None else np.flatnonzero(np.isin(of_split, images))
    chosen: Array | slice = slice(None) if rows is None else rows
    numbers_of_captions = np.arange(len(of_split))[chosen]
    owner = of_split[chosen]

    @cache
    def captions() -> Sequence[str]:
        every = run.captions(split)
        return every if rows is None else [every[row] for row in rows.tolist()]

    @cache
    def words() -> CaptionWords:
        return words_of_split(run, split) if rows is None else CaptionWords.of(captions())

    numbers: dict[str, Callable[[], Array]] = {
        "length": lambda: words().lengths,
        "image": lambda: owner,
        "rank": lambda: places(run.ranks(split)["t2i"])[chosen],
        **{kind: partial(_count, words, kind) for kind in KINDS},
    }
    if run.sample(split) is None and run.lists(split) is None:
        numbers["tenth"] = lambda: _tenths(run, split)[chosen]
    if (clusters := prototypes(run, split)) is not None:
        numbers["cluster"] = lambda: clusters.pairs[chosen]

    sets: dict[str, Callable[[], Mapping[str, Array]]] = {"words": lambda: words().rows}
    if not run.without_embeddings(split):
        sets["neighbours"] = lambda: _Neighbours(run.scoring(split)[1], NEIGHBOURS, numbers_of_captions)
        sets["image_neighbours"] = lambda: _Neighbours(run.scoring(split)[0], IMAGE_NEIGHBOURS, owner)
    if tags is not None:
        tags_of_rows = [tags.get(row, ()) for row in numbers_of_captions.tolist()] if tags else []
        sets["tags"] = lambda: _rows([tag.casefold() for tag in of_row] for of_row in tags_of_rows)

    labels = {}
    if (view := run.concepts(split)) is not None:
        labels["concept"] = partial(_strongest_concepts, view, chosen)
    own = own_names(run.columns(split).of_captions(np.asarray(owner)))
    texts = Lazy({"caption": captions})
    return Columns(len(owner), Lazy(numbers), Lazy(sets), texts, Lazy(labels), own, rows)


def counted_columns(run: Run, split: str, *, tags: Mapping[int, Sequence[str]] | None = None) -> Columns:
    """Return `slice_columns` of the captions whose images `slice_table` counts: of a large split, a sample's."""
    images = images_counted(run, split)
    are_all = len(images) == run.count(split, "image")
    return slice_columns(run, split, tags=tags, images=None if are_all else images)


def _tenths(run: Run, split: str) -> Array:
    """Return (m,) int64, 1 to 10 by diversity of every caption, 1 the least."""
    order = np.argsort(run.diversity(split)["diversity"].to_numpy(), kind="stable")
    tenths = np.empty(len(order), np.int64)
    tenths[order] = np.arange(len(order)) * TENTHS // len(order) + 1
    return tenths


def _strongest_concepts(view: ConceptView, chosen: Array | slice) -> Mapping[str, Array]:
    """Map each concept to the captions whose highest attention it has."""
    names = view.names
    strongest = summarise_attention(view, "text").first[chosen].tolist()
    return _rows([names[number].casefold()] for number in strongest)


class _Neighbours(Mapping[str, Array]):
    """Mapping, computed on demand, from a sample's number to the captions of the sample and of the `count` samples
    nearest to it. `vectors`: (k, D) unit rows of the samples. `sample_of_text`: (m,) the sample of every caption."""

    def __init__(self, vectors: Array, count: int, sample_of_text: Array) -> None:
        self._vectors = np.asarray(vectors)
        self._count = count
        self._sample_of_text = sample_of_text

    def __getitem__(self, number: str) -> Array:
        if not number.isdecimal() or int(number) >= len(self._vectors):
            raise KeyError(number)
        cosines = self._vectors @ self._vectors[int(number)]
        nearest = np.argsort(-cosines, kind="stable")[: self._count + 1]
        return np.flatnonzero(np.isin(self._sample_of_text, nearest))

    def __iter__(self) -> Iterator[str]:
        return map(str, range(len(self._vectors)))

    def __len__(self) -> int:
        return len(self._vectors)


def _count(words: Callable[[], CaptionWords], kind: str) -> Array:
    """Count the words of a kind in every caption; words that begin with a digit are numbers too."""
    return words().counts(KINDS[kind], digits=kind == "numbers")


def _rows(members: Iterable[Iterable[str]]) -> dict[str, Array]:
    """Map each member to the sorted rows that contain it."""
    rows: dict[str, list[int]] = {}
    for row, names in enumerate(members):
        for name in set(names):
            rows.setdefault(name, []).append(row)
    return {name: np.array(numbers) for name, numbers in rows.items()}


@dataclass(frozen=True)
class Queries:
    """Queries of one direction; a query is a hit if a true match is among its first `at` results."""

    direction: Direction
    at: int = 1


class Slice(NamedTuple):
    """Captions that an expression selects, and their name for readers."""

    kind: str
    expression: str
    label: str


def usual_slices(columns: Columns) -> list[Slice]:
    """List slices by length, kinds of words, diversity, clusters, concepts, tags and the user's columns, and one for
    each frequent word.
    Members too long for an expression, such as a word of 500 letters, are left out."""
    words = _frequent(columns.sets["words"], without=STOP_WORDS)
    concepts = _frequent(columns.labels.get("concept", {}))
    tenths = range(1, TENTHS + 1) if "tenth" in columns.numbers else ()
    labels = {
        **_USUAL["labels"],
        "diversity": {f"tenth == {n}": f"{ORDINALS[n - 1]} tenth of diversity" for n in tenths},
        "cluster": {f"cluster == {n}": f"cluster {n}" for n in np.unique(columns.numbers.get("cluster", []))},
        "concept": {f"concept == {json.dumps(c, ensure_ascii=False)}": f"concept “{c}”" for c in concepts},
        "word": {f'"{word}" in words': f"word “{word}”" for word in words},
        "tag": {f"{tag!r} in tags": f"tag “{tag}”" for tag in sorted(columns.sets.get("tags", {}))},
    }
    slices = [
        Slice(kind, expression, label)
        for kind, of_kind in labels.items()
        for expression, label in of_kind.items()
    ]
    slices += islice(own_slices(columns), MOST_SLICES)
    return [entry for entry in slices if len(entry.expression) <= LONGEST_EXPRESSION]


def own_slices(columns: Columns, names: Collection[str] = ()) -> Iterator[Slice]:
    """Yield the slices that the user's columns suggest, or those of these `names`; their kind is the column's name."""
    for name, column in columns.own.items():
        if not names or name in names:
            for expression, label in suggested(name, column):
                yield Slice(name, expression, label)


def _frequent(rows: Mapping[str, Array], without: Collection[str] = ()) -> list[str]:
    """Return at most `MOST_WORDS` members, those in the most rows first."""
    counts = {name: len(of_name) for name, of_name in rows.items() if name not in without}
    return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_WORDS]


def slice_table(
    runs: Sequence[Run], split: str, queries: Queries, slices: Sequence[Slice], columns: Columns
) -> pd.DataFrame:
    """Compute recall by slice, with the most misses beyond the expected ones first.

    A slice is discovered on one half of the images, fixed by a seed, and reported on the other: the order of the table
    follows from excess misses on the first half, and all numbers are from the other half, so that the worst of many
    slices is not worst by chance. Slices without excess misses on the other half come last. An image→text query belongs
    to a slice if any of its captions does.

    Args:
        runs: on the same samples; the last is compared with the others.
        slices: slices to list; those with fewer than 20 queries in either half are left out.

    Returns:
        One row per slice: kind, expression, label, queries (of the reported half of `images_of_all`), share (% of
        them), excess (misses of the last run beyond those at its overall recall), lost (by the first half alone: queries
        that the last run misses and the first one hits, minus the opposite; 0 for one run); for run r recall_r, low_r and high_r
        (percent and 95% interval, a bootstrap over images), mrr_r and ndcg10_r (percent); and for several runs gain,
        gain_low and gain_high (last − first).
    """
    images, counts, hits, graded = _hits(runs, split, queries, slices, columns)
    discovery = np.zeros(images, dtype=bool)
    discovery[random_halves(images)[0]] = True
    halves = [counts[:-1, half].sum(1) >= LEAST_QUERIES for half in (discovery, ~discovery)]

    rows = np.flatnonzero(halves[0] & halves[1])
    expected, excess = (_excess(counts, hits[-1], half)[rows] for half in (discovery, ~discovery))
    order = np.lexsort((-expected, excess <= 0))
    rows = rows[order]

    reported = [table[:, ~discovery] for table in (counts, *hits)]
    reported_queries = reported[0][rows].sum(1)

    frame = pd.DataFrame([slices[row] for row in rows.tolist()], columns=list(Slice._fields))
    share = 100 * reported_queries / max(reported[0][-1].sum(), 1)
    frame = frame.assign(queries=reported_queries.astype(np.int64), share=share, excess=excess[order])
    frame["lost"] = (hits[0] - hits[-1])[rows][:, discovery].sum(1)
    if not len(rows):
        return frame

    of_queries, *of_hits = (table[rows] for table in reported)
    means = 100 * np.stack([table[rows][:, ~discovery].sum(1) for table in graded]) / reported_queries
    names = [f"{name}_{run}" for run in range(len(runs)) for name in ("mrr", "ndcg10")]
    return frame.assign(**_recalls(of_queries, of_hits), **dict(zip(names, means, strict=True)))


def slices_by(columns: Columns, names: Collection[str]) -> list[Slice]:
    """List the slices that these columns suggest, or those of kinds such as "length" and "word". InputError: a name is
    neither."""
    usual = [*usual_slices(columns), *own_slices(columns, names)] if names else []
    kinds = {entry.kind for entry in usual}
    unknown = [name for name in names if name not in kinds]
    if unknown:
        texts = [name for name in unknown if name in columns.own]
        problem = (
            "is a column of texts, which suggests no slices" if texts else "is not a column of the split"
        )
        expected = f"one of {', '.join(dict.fromkeys(entry.kind for entry in usual_slices(columns)))}"
        raise InputError.at(
            f"--by {(texts or unknown)[0]}", problem, expected, "join a table with --columns FILE"
        )
    return list(dict.fromkeys(entry for entry in usual if entry.kind in names))


def slice_recalls(
    runs: Sequence[Run], split: str, queries: Queries, slices: Sequence[Slice], columns: Columns
) -> pd.DataFrame:
    """Compute recall on every slice with at least 20 queries, over the whole split, in the order of `slices`.

    Unlike in `slice_table`, no half is held out, because slices are not ordered by their result. Arguments as there.

    Return one row per slice: kind, expression, label, queries (of `images_of_all`), and for run r recall_r, low_r and
    high_r (percent and 95% interval, a bootstrap over images)."""
    _, counts, hits, _ = _hits(runs, split, queries, slices, columns)
    of_slices = counts[:-1].sum(1).astype(np.int64)
    rows = np.flatnonzero(of_slices >= LEAST_QUERIES)
    frame = pd.DataFrame([slices[row] for row in rows.tolist()], columns=list(Slice._fields))
    frame["queries"] = of_slices[rows]
    return frame.assign(**_recalls(counts[rows], [of_run[rows] for of_run in hits])) if len(rows) else frame


def slice_gains(
    runs: Sequence[Run], split: str, queries: Queries, slices: Sequence[Slice], columns: Columns
) -> pd.DataFrame:
    """Compute the change of R@K from the first run to the last on every slice that has a query.

    Unlike in `slice_table`, no half is held out, because slices are not ordered by their result. Arguments as there.

    Return one row per slice: kind, expression, label, queries (of `images_of_all`), gain, gain_low and gain_high
    (points, and its 95% interval, a paired bootstrap over images)."""
    _, counts, hits, _ = _hits(runs, split, queries, slices, columns)
    of_slices = counts[:-1].sum(1).astype(np.int64)
    rows = np.flatnonzero(of_slices)
    frame = pd.DataFrame([slices[row] for row in rows.tolist()], columns=list(Slice._fields))
    frame["queries"] = of_slices[rows]
    gains = _recalls(counts[rows], [hits[0][rows], hits[-1][rows]]) if len(rows) else {}
    return frame.assign(**{name: gains.get(name, np.empty(0)) for name in ("gain", "gain_low", "gain_high")})


def _hits(
    runs: Sequence[Run], split: str, queries: Queries, slices: Sequence[Slice], columns: Columns
) -> tuple[int, Array, list[Array], Iterator[Array]]:
    """Return the number of images counted, and (slices + 1, images) arrays whose last row is the whole split: the
    queries of every slice and image; for each run its hits; and, computed lazily, for each run the sums of reciprocal
    rank and of nDCG@10."""
    images = images_of_all(runs, split)
    owner = runs[0].image_of_text(split)
    direction = queries.direction
    masks = [select(entry.expression, columns) for entry in slices]
    captions = np.flatnonzero(np.isin(owner, images))
    inside = np.stack(masks)[:, _positions(captions, columns)]
    members, rows, query_image = _members(owner[captions], captions, inside, direction, images)
    every = sparse.vstack([members, sparse.csr_array(np.ones((1, len(rows))))])
    per_image = _one_hot(query_image, len(images))

    def summed(values: Array) -> Array:
        return np.asarray((sparse.csr_array(every.multiply(values)) @ per_image).toarray())

    ranks = [run.ranks(split)[direction][rows] for run in runs]
    hits = [summed((of_run >= 0) & (of_run < queries.at)) for of_run in ranks]
    of_queries = (label_values(run.analysis(split), owner)[direction][rows] for run in runs)
    graded = (summed(column) for values in of_queries for column in values.T)
    return len(images), summed(ranks[0] >= 0), hits, graded


def slice_metrics(run: Run, split: str, captions: Array) -> Metrics:
    """Compute R@K, MRR, nDCG@10, MedR, MeanR and R@sum over a slice's captions, at least one, and their images."""
    ranks = run.ranks(split)
    owner = run.image_of_text(split)
    of_ranks = query_metrics(ranks["i2t"][np.unique(owner[captions])], ranks["t2i"][captions])
    return of_ranks | label_metrics(run.analysis(split), owner, captions)


def images_counted(run: Run, split: str) -> Array:
    """Return the images whose queries the table counts: all; of a split of which a sample is ranked, those of the sample;
    or 10,000 drawn at random from another large split."""
    images = run.count(split, "image")
    ranked = run.ranked_images(split)
    if ranked is not None:
        return ranked
    if images <= MOST_IMAGES:
        return np.arange(images)
    return np.sort(np.random.default_rng(_SEED).choice(images, MOST_IMAGES, replace=False))


def images_of_all(runs: Sequence[Run], split: str) -> Array:
    """Return the images whose queries the table of several runs counts: those that it counts for each of them."""
    return reduce(np.intersect1d, [images_counted(run, split) for run in runs])


def _positions(captions: Array, columns: Columns) -> Array:
    """Return (k,) where captions, numbers in the split, are in the columns, which may be of some captions only."""
    if columns.rows is None:
        return captions
    positions = np.searchsorted(columns.rows, captions)
    found = positions < len(columns.rows)
    found[found] = columns.rows[positions[found]] == captions[found]
    if not found.all():
        raise ValueError(
            f"columns are of {len(columns.rows):,} captions, without caption {captions[~found][0]}"
        )
    return positions


def _members(
    image_of_text: Array, captions: Array, masks: Array, direction: Direction, images: Array
) -> tuple[sparse.csr_array, Array, Array]:
    """Return (slices, queries) with 1 for the queries of each slice, (queries,) their numbers, and (queries,) the
    positions of their images among `images`, ascending rows. `image_of_text`, `captions`: (k,) of the captions of these
    images. `masks`: (slices, k) bool, the captions of each slice."""
    owner = np.searchsorted(images, image_of_text)
    members = sparse.csr_array(masks).astype(np.float64)
    if direction == "t2i":
        return members, captions, owner
    of_images = (members @ _one_hot(owner, len(images))) > 0
    return sparse.csr_array(of_images.astype(np.float64)), images, np.arange(len(images))


def _one_hot(columns: Array, width: int) -> sparse.csr_array:
    """Return (k, width) with a 1 in the given column of every row."""
    rows = np.arange(len(columns))
    return sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(columns), width))


def _excess(counts: Array, hits: Array, half: Array) -> Array:
    """Return (slices,) misses on a half of the images beyond those at the recall of the whole half, the last row."""
    recall = hits[-1, half].sum() / max(counts[-1, half].sum(), 1.0)
    return np.asarray(counts[:-1, half].sum(1) * recall - hits[:-1, half].sum(1))


def _recalls(counts: Array, hits: Sequence[Array]) -> dict[str, Array]:
    """Compute recall of every run in percent and the gain of the last over the first, with 95% intervals over images.
    `counts`, and each run's `hits`: (slices, images) queries, and answered ones."""
    images = counts.shape[1]
    draws = np.random.default_rng(_SEED).multinomial(images, np.full(images, 1 / images), size=DRAWS)
    weights = draws.astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw without any query of a slice has no recall
        drawn = [100 * (weights @ answered.T) / (weights @ counts.T) for answered in hits]
    recalls = [100 * answered.sum(1) / counts.sum(1) for answered in hits]
    columns: dict[str, Array] = {}
    for run, recall in enumerate(recalls):
        columns[f"recall_{run}"] = recall
        columns[f"low_{run}"], columns[f"high_{run}"] = np.nanpercentile(drawn[run], [2.5, 97.5], axis=0)
    if len(hits) > 1:
        columns["gain"] = recalls[-1] - recalls[0]
        ends = np.nanpercentile(drawn[-1] - drawn[0], [2.5, 97.5], axis=0)
        columns["gain_low"], columns["gain_high"] = ends
    return columns
