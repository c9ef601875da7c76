"""People's verdicts on the pairs of a run's split: the judged pairs, recall by corrected labels, what to judge next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from coder_core.api.retrieval.results import LikelyMatches
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS, Array, Direction
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.reviews import (
    FILE,
    LONGEST,
    LONGEST_TAG,
    MOST_TAGS,
    VERDICTS,
    JudgedSplit,
    Pair,
    Review,
    Reviews,
    append_review,
    append_undo,
    image_keys,
    judge_split,
    read_reviews,
)
from coder_core.evaluation.bootstrap import Hits, recall_differences
from coder_core.evaluation.metrics import RECALL_AT, listed_ndcg
from coder_core.evaluation.relevance import Relevance
from coder_core.runs.analysis.reviewed import reviewed_relevance

QUEUE = 50  # most pairs in a queue
MEASURES = (*map(str, RECALL_AT), "mrr", "ndcg10")


@dataclass(frozen=True)
class ReviewedSplit:
    """Names that reviews use for a split's n images (`keys`) and m captions; (m,) the image of every caption."""

    keys: Sequence[str]
    captions: Sequence[str]
    image_of_text: Array

    @classmethod
    def of(cls, run: Run, split: str) -> ReviewedSplit:
        """Name the samples of a run's split."""
        captions = run.captions(split)
        owner = run.image_of_text(split)
        names = list(run.image_names(split))
        return cls(image_keys(names, captions, owner, len(names)), captions, owner)

    @cached_property
    def _images(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    @cached_property
    def _texts(self) -> dict[str, list[int]]:
        texts: dict[str, list[int]] = {"": [-1]}
        for row, caption in enumerate(self.captions):
            texts.setdefault(caption, []).append(row)
        return texts

    @cached_property
    def _by_image(self) -> Array:
        return np.argsort(self.image_of_text, kind="stable")

    def _captions_of(self, image: int) -> list[int]:
        """Return the numbers of an image's captions, in ascending order."""
        first, end = np.searchsorted(self.image_of_text, [image, image + 1], sorter=self._by_image)
        return list(self._by_image[first:end].tolist())

    def pair(self, image: int, caption: int | None) -> Pair:
        """Return the name of a pair of rows; without a caption, that of the image with all its captions."""
        return self.keys[image], "" if caption is None else self.captions[caption]

    def tags(self, reviews: Reviews) -> dict[int, list[str]]:
        """Return row of a judged caption → tags and verdicts on it with its own image."""
        tags: dict[Pair, set[str]] = {}
        for review in reviews.standing:
            verdict = {review.verdict} - {"none"}
            tags.setdefault(review.pair, set()).update(tag.casefold() for tag in (*review.tags, *verdict))

        of_rows: dict[int, list[str]] = {}
        for (key, caption), names in tags.items():
            image = self._images.get(key)
            if names and image is not None:
                rows = [row for row in self._captions_of(image) if self.captions[row] == caption]
                of_rows |= dict.fromkeys(rows, sorted(names))
        return dict(sorted(of_rows.items()))

    def judged(self, reviews: Reviews) -> JudgedSplit:
        """Convert the verdicts to rows of this split."""
        names = list(self.keys)
        verdicts = reviews.verdicts
        return judge_split(verdicts, names, self.captions, self.image_of_text, len(names))

    def rows(self, pairs: Iterable[Pair]) -> list[tuple[int, int] | None]:
        """Return (image, caption) of each pair: the first of equal captions, −1 for none; None for a pair elsewhere."""
        positions: list[tuple[int, int] | None] = []
        for key, caption in pairs:
            image = self._images.get(key)
            rows = self._texts.get(caption, [])
            of_image = [row for row in rows if row >= 0 and self.image_of_text[row] == image]
            positions.append((image, (of_image or rows)[0]) if image is not None and rows else None)
        return positions


def verdicts_on(split: CaptionedSplit, reviews: Reviews) -> int:
    """Count the verdicts on pairs of the split."""
    names = split.image_names
    captions = split.captions
    judged = judge_split(reviews.verdicts, names, captions, split.image_of_text, len(names))
    return len(reviews.verdicts) - judged.elsewhere


def reviewed_recall(
    run: Run, split: str, reviewed: ReviewedSplit, reviews: Reviews, within: Array | None = None
) -> pd.DataFrame:
    """Compute R@1, 5 and 10, MRR@10 and nDCG@10 by labels and by reviewed labels, from every query's ten best results.

    Groups are "all" queries, and "changed", those with a label judged wrong or another match found.

    `within`: captions that count as queries, and with them their images; None for all. Return one row per direction
    ("i2t", "t2i") and group: direction, queries (the group), count, and in percent labels_1, labels_5, labels_10,
    labels_mrr, labels_ndcg10, the same with reviewed_, and the ends of the 95% intervals of the recalls' differences,
    low_1, high_1, … A query whose labels are all wrong is not counted."""
    judged = reviewed.judged(reviews)
    owner = reviewed.image_of_text
    n = len(reviewed.keys)
    captions = np.arange(len(owner)) if within is None else within
    counted = {"i2t": owner[captions], "t2i": captions}
    relevances = Relevance.of_labels(owner, n), reviewed_relevance(judged, owner, n)
    every = [_reviewed_results(run, split, way, relevances, counted[way]) for way in DIRECTIONS]
    changed = [
        results.some(np.isin(results.queries, _affected(judged, owner, way)))
        for way, results in zip(DIRECTIONS, every, strict=True)
    ]
    rows: list[dict[str, object]] = []
    for group, both in {"all": every, "changed": changed}.items():
        hits = []
        for results, images in zip(both, (np.arange(n), owner), strict=True):
            per_query = np.concatenate([results.values, np.ones((len(results.queries), 1))], 1)
            of_query = images[results.queries]
            hits.append(np.stack([np.bincount(of_query, column, n) for column in per_query.T], 1))

        queries = np.stack([part[:, -1] for part in hits], 1)
        by_labels, corrected = (
            Hits(np.concatenate([part[:, columns] for part in hits], 1), queries)
            for columns in (slice(len(RECALL_AT)), slice(len(MEASURES), len(MEASURES) + len(RECALL_AT)))
        )
        changes = recall_differences(corrected, by_labels)
        for direction, results in zip(DIRECTIONS, both, strict=True):
            count = len(results.queries)
            row: dict[str, object] = {"direction": direction, "queries": group, "count": count}
            means = 100 * results.values.mean(0) if count else np.full(2 * len(MEASURES), np.nan)
            for name, by_label, by_review in zip(MEASURES, *np.split(means, 2), strict=True):
                row |= {f"labels_{name}": by_label, f"reviewed_{name}": by_review}
            for k in RECALL_AT:
                change = changes.get(f"{direction}_r{k}")  # None without any query
                low, high = (change.low, change.high) if count and change else (np.nan, np.nan)
                row |= {f"low_{k}": low, f"high_{k}": high}
            rows.append(row)

    return pd.DataFrame(rows).sort_values("direction", kind="stable", ignore_index=True)


class _Results(NamedTuple):
    """Queries of one direction, and how they are answered."""

    queries: Array  # (q,) int64, ascending
    values: Array  # (q, 10) from 0 to 1: `MEASURES` by the labels, then by the reviews

    def some(self, which: Array) -> _Results:
        """Return some of the queries, by their flags (q,)."""
        return _Results(self.queries[which], self.values[which])


def _affected(judged: JudgedSplit, owner: Array, direction: Direction) -> Array:
    """Return the queries with a label judged wrong or another match found."""
    wrong = np.flatnonzero(judged.labels == "wrong-caption")
    matches = judged.matches  # rows (caption, image)
    if direction == "t2i":
        return np.concatenate([wrong, matches[:, 0]])
    return np.concatenate([owner[wrong], matches[:, 1]])


def _reviewed_results(
    run: Run, split: str, direction: Direction, relevances: Sequence[Relevance], counted: Array
) -> _Results:
    """Measure the ten best results of the queries among those `counted` that are ranked and have a right answer by the
    reviews. `relevances`: by the labels and by the reviews."""
    relations = [by.t2i if direction == "t2i" else by.i2t for by in relevances]
    asks = np.zeros(relations[0].count, bool)
    asks[counted] = True
    asks &= (run.ranks(split)[direction] >= 0) & (relations[1].sizes > 0)
    asked = np.flatnonzero(asks)
    listed = run.best(split, direction)[asked].astype(np.int64)
    values: list[Array] = []
    for relation in relations:
        hits = relation.contains(asked[:, None], listed)
        first = np.where(hits.any(1), hits.argmax(1), np.inf)
        ndcg = listed_ndcg(hits, relation.sizes[asked])
        values += [*(first < k for k in RECALL_AT), 1 / (first + 1), ndcg]

    return _Results(asked, np.stack(values, 1))


def ambiguous_pairs(
    diversity: pd.DataFrame, image_of_text: Array, captions: Sequence[str]
) -> list[tuple[int, int]]:
    """Queue, as (image, caption), captions of lowest diversity with their own images; `diversity` is of captions."""
    anchors = diversity.sort_values("diversity", kind="stable")["anchor"].to_numpy()
    return _queue(image_of_text[anchors], anchors, captions)


def suspicious_pairs(table: pd.DataFrame, captions: Sequence[str]) -> list[tuple[int, int]]:
    """Queue, as (image, caption), captions that probably belong to another image with their own image; `table`: rows
    of `data_quality.mismatches`, the most suspicious first."""
    return _queue(table["image"].to_numpy(), table["caption"].to_numpy(), captions)


def near_miss_pairs(margins: pd.DataFrame, captions: Sequence[str]) -> list[tuple[int, int]]:
    """Queue, as (image, caption), captions that miss their image by the smallest margins, with the image above it."""
    missed = margins[margins["rank"] > 1]
    nearest = missed.iloc[np.argsort(missed["margin"].abs().to_numpy(), kind="stable")]
    return _queue(nearest["wrong"].to_numpy(), nearest["query"].to_numpy(), captions)


def likely_pairs(
    likely: LikelyMatches, best: Array, captions: Sequence[str], within: Array | None = None
) -> list[tuple[int, int]]:
    """Queue, as (image, caption), results that are probably unlabelled matches, likeliest first. `likely` is of
    captions as queries, `best` (m, K) are their best images; chosen from the captions `within` (None: all)."""
    likeness = np.where(likely.likely(), likely.likeness, -1)
    column = likeness.argmax(1)
    largest = likeness.max(1)
    order = np.argsort(-largest, kind="stable")
    order = order if within is None else order[np.isin(order, within)]
    order = order[largest[order] > 0]
    return _queue(best[order, column[order]], order, captions)


def _queue(images: Array, texts: Array, captions: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first `QUEUE` (image, caption) of these rows, best first; only the first of captions with one text."""
    first: dict[str, tuple[int, int]] = {}
    for image, text in zip(images.tolist(), texts.tolist(), strict=True):
        first.setdefault(captions[text], (image, text))
    return list(first.values())[:QUEUE]


def reviewer_agreement(reviews: Reviews) -> pd.DataFrame:
    """Compute the agreement of every two reviewers on the pairs that both judged. Return one row per two reviewers:
    first, second, pairs, same (percent), kappa (Cohen 1960: agreement beyond chance, 1 is complete; NaN if both always
    gave the same single verdict)."""
    verdicts = {
        reviewer: {pair: review.verdict for pair, review in of_reviewer.items() if review.verdict != "none"}
        for reviewer, of_reviewer in reviews.by_reviewer.items()
    }
    rows = []
    for first, second in combinations(verdicts, 2):
        shared = [pair for pair in verdicts[first] if pair in verdicts[second]]
        if shared:
            from sklearn.metrics import cohen_kappa_score

            of_first = [verdicts[first][pair] for pair in shared]
            of_second = [verdicts[second][pair] for pair in shared]
            same = np.mean([one == other for one, other in zip(of_first, of_second, strict=True)])
            several = len({*of_first, *of_second}) > 1
            kappa = float(cohen_kappa_score(of_first, of_second)) if several else np.nan
            rows.append((first, second, len(shared), 100 * same, kappa))
    return pd.DataFrame(rows, columns=["first", "second", "pairs", "same", "kappa"])


def reviews_folder(data: str, folders: Sequence[Path], root: Path) -> Path:
    """Return the folder for reviews of a run's data: the data folder if it is one of `folders`, else `root`. `data`: as
    in the run's configuration. `folders`: data sets named when the program was started. `root`: the folder of runs, for
    built-in data, imported embeddings, and data sets elsewhere."""
    path = Path(data).resolve()
    named = (folder for folder in folders if data and folder.resolve() in (path, path.parent))
    return next(named, root)
