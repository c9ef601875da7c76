"""People's verdicts on the pairs of a run's split: what was judged, how the run does on it, what to judge next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from coder_core.api.sides import Array
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
    Verdict,
    append_review,
    append_undo,
    image_keys,
    judge_split,
    read_reviews,
)
from coder_core.evaluation.bootstrap import RANKS, Hits, differences
from coder_core.runs.analysis.reviewed import reviewed_positives

if TYPE_CHECKING:
    from coder_core.api.retrieval import LikelyMatches
    from coder_core.api.run import Run

__all__ = [
    "FILE",
    "LONGEST",
    "LONGEST_TAG",
    "MOST_TAGS",
    "QUEUE",
    "VERDICTS",
    "Pair",
    "Review",
    "ReviewedSplit",
    "Reviews",
    "Verdict",
    "agreement",
    "ambiguous_pairs",
    "append_review",
    "append_undo",
    "data_folder",
    "likely_pairs",
    "near_miss_pairs",
    "read_reviews",
    "reviewed_recall",
]

QUEUE = 50  # pairs of a queue


@dataclass(frozen=True)
class ReviewedSplit:
    """Names of a split's images and captions in reviews.

    Args:
        keys: of the n images. captions: m texts. image_of_text: (m,) the image of every caption.
    """

    keys: Sequence[str]
    captions: Sequence[str]
    image_of_text: Array

    @classmethod
    def of(cls, run: Run, split: str) -> ReviewedSplit:
        """Names for a run's split."""
        captions, owner = run.captions(split), run.image_of_text(split)
        names = list(run.image_names(split))
        return cls(image_keys(names, captions, owner, len(names)), captions, owner)

    @cached_property
    def _images(self) -> dict[str, int]:
        return {key: row for row, key in enumerate(self.keys)}

    @cached_property
    def _texts(self) -> dict[str, list[int]]:
        texts: dict[str, list[int]] = {}
        for row, caption in enumerate(self.captions):
            texts.setdefault(caption, []).append(row)
        return texts

    def pair(self, image: int, caption: int | None) -> Pair:
        """Name of a pair of rows; without a caption, of the image with all its captions."""
        return self.keys[image], "" if caption is None else self.captions[caption]

    def tags(self, reviews: Reviews) -> dict[int, list[str]]:
        """Row of a judged caption → tags and verdicts on it with its own image."""
        tags: dict[Pair, set[str]] = {}
        for review in reviews.standing:
            verdict = {review.verdict} - {"none"}
            tags.setdefault(review.pair, set()).update(tag.casefold() for tag in (*review.tags, *verdict))
        pairs = (
            (self.keys[image], caption)
            for image, caption in zip(self.image_of_text, self.captions, strict=True)
        )
        return {row: sorted(tags[pair]) for row, pair in enumerate(pairs) if tags.get(pair)}

    def judged(self, reviews: Reviews) -> JudgedSplit:
        """The verdicts as rows of this split."""
        return judge_split(
            reviews.verdicts, list(self.keys), self.captions, self.image_of_text, len(self.keys)
        )

    def rows(self, pairs: Iterable[Pair]) -> list[tuple[int, int] | None]:
        """(image, caption) of every pair, the first where a caption stands twice, −1 for no caption; None elsewhere."""
        places: list[tuple[int, int] | None] = []
        for key, caption in pairs:
            image, rows = self._images.get(key), self._texts.get(caption, [-1] if not caption else [])
            own = [row for row in rows if row >= 0 and self.image_of_text[row] == image]
            places.append((image, (own or rows)[0]) if image is not None and rows else None)
        return places


def reviewed_recall(
    run: Run, split: str, reviewed: ReviewedSplit, reviews: Reviews, within: Array | None = None
) -> pd.DataFrame:
    """R@1, 5 and 10 by the labels and by the reviewed labels, from the ten best results of every query.

    "all" queries, and those of which a label was judged wrong or another match was found ("changed").

    Args:
        within: captions that count as queries, and with them their images; None for all.

    Returns:
        One row a direction ("i2t", "t2i") and group: direction, queries, count, labels_1, labels_5, labels_10,
        reviewed_1, reviewed_5, reviewed_10 in percent, and of the difference of the two the ends of its 95% interval,
        low_1, high_1, … (`differences`). A query whose labels are all wrong is not counted in either.
    """
    judged, analysis, ranks = reviewed.judged(reviews), run.analysis(split), run.ranks(split)
    positives = reviewed_positives(judged, reviewed.image_of_text)
    n, m = len(reviewed.keys), len(reviewed.captions)
    wrong = np.flatnonzero(judged.labels == "wrong-caption")
    sides = (
        (
            "i2t",
            positives[:, ::-1],
            analysis.image_best,
            n,
            (reviewed.image_of_text[wrong], judged.matches[:, 1]),
        ),
        ("t2i", positives, analysis.text_best, m, (wrong, judged.matches[:, 0])),
    )
    rows: list[dict[str, object]] = []
    images = {"i2t": np.arange(n), "t2i": reviewed.image_of_text}
    captions = np.arange(m) if within is None else within
    counted = {"i2t": np.arange(n) if within is None else reviewed.image_of_text[captions], "t2i": captions}
    by_image: dict[str, list[Array]] = {"all": [], "changed": []}
    for direction, pairs, best, count, (of_wrong, of_matches) in sides:
        codes = pairs[:, 0] * max(n, m) + pairs[:, 1]
        hits = np.isin(np.arange(count)[:, None] * max(n, m) + np.asarray(best), codes)
        asks = np.isin(np.arange(count), pairs[:, 0]) & (ranks[direction] >= 0)
        asks &= np.isin(np.arange(count), counted[direction])
        changed = np.zeros(count, bool)
        changed[np.concatenate([of_wrong, of_matches]).astype(np.int64)] = True
        right = np.stack([ranks[direction] < k for k in RANKS] + [hits[:, :k].any(1) for k in RANKS], 1)
        for name, group in (("all", asks), ("changed", asks & changed)):
            row: dict[str, object] = {"direction": direction, "queries": name, "count": int(group.sum())}
            for number, k in enumerate(RANKS):
                for column, labels in ((number, "labels"), (len(RANKS) + number, "reviewed")):
                    row[f"{labels}_{k}"] = 100 * right[group, column].mean() if group.any() else np.nan
            rows.append(row)
            asked = np.concatenate([right, np.ones((count, 1))], 1) * group[:, None]
            by_image[name].append(np.stack([np.bincount(images[direction], one, n) for one in asked.T], 1))
    for name, (of_images, of_texts) in by_image.items():
        queries = np.stack([of_images[:, -1], of_texts[:, -1]], 1)
        by_labels, corrected = (
            Hits(np.concatenate([of_images[:, part], of_texts[:, part]], 1), queries)
            for part in (slice(0, len(RANKS)), slice(len(RANKS), -1))
        )
        changes = differences(corrected, by_labels)
        for row in (row for row in rows if row["queries"] == name):
            for k in RANKS:
                change = changes[f"{row['direction']}_r{k}"]
                row |= {f"low_{k}": change.low, f"high_{k}": change.high}
    return pd.DataFrame(rows)


def ambiguous_pairs(diversity: pd.DataFrame, image_of_text: Array) -> list[tuple[int, int]]:
    """(image, caption): the captions of the lowest diversity with their own images; `diversity` is of captions."""
    captions = diversity.sort_values("diversity", kind="stable")["anchor"].to_numpy()[:QUEUE]
    return [(int(image_of_text[caption]), int(caption)) for caption in captions]


def near_miss_pairs(margins: pd.DataFrame) -> list[tuple[int, int]]:
    """(image, caption): captions that miss their image by the smallest margins, with the image ranked above it."""
    missed = margins[margins["rank"] > 1]
    nearest = missed.iloc[np.argsort(missed["margin"].abs().to_numpy(), kind="stable")[:QUEUE]]
    return list(
        zip(nearest["wrong"].astype(int).tolist(), nearest["query"].astype(int).tolist(), strict=True)
    )


def likely_pairs(likely: LikelyMatches, best: Array, within: Array | None = None) -> list[tuple[int, int]]:
    """(image, caption): results that are probably matches though no label says so, the likeliest first.

    Args:
        likely: of captions as queries. best: (m, K) their best images. within: captions to choose from (None: all).
    """
    likeness = np.where(likely.likely(), likely.likeness, -1)
    column = likeness.argmax(1)
    largest = likeness[np.arange(len(column)), column]
    order = np.argsort(-largest, kind="stable")
    order = order if within is None else order[np.isin(order, within)]
    chosen = order[largest[order] > 0][:QUEUE]
    return [(int(best[caption, column[caption]]), int(caption)) for caption in chosen]


def agreement(reviews: Reviews) -> pd.DataFrame:
    """Agreement of two reviewers on the pairs both judged.

    Returns:
        One row a pair of reviewers: first, second, pairs, same (percent), kappa (Cohen 1960: agreement beyond chance, 1
        is complete; NaN where both gave one and the same verdict throughout).
    """
    given = {
        reviewer: {pair: review.verdict for pair, review in own.items() if review.verdict != "none"}
        for reviewer, own in reviews.by_reviewer.items()
    }
    rows = []
    for first, second in combinations(given, 2):
        shared = [pair for pair in given[first] if pair in given[second]]
        if shared:
            from sklearn.metrics import cohen_kappa_score

            theirs = [[given[reviewer][pair] for pair in shared] for reviewer in (first, second)]
            same = np.mean([one == other for one, other in zip(*theirs, strict=True)])
            several = len(set(theirs[0]) | set(theirs[1])) > 1
            kappa = float(cohen_kappa_score(*theirs)) if several else np.nan
            rows.append((first, second, len(shared), 100 * same, kappa))
    return pd.DataFrame(rows, columns=["first", "second", "pairs", "same", "kappa"])


def data_folder(data: str, folders: Sequence[Path], root: Path) -> Path:
    """Folder of the reviews of a run's data: the data folder if it is one of `folders`, else `root`.

    Args:
        data: as the run's configuration names it. folders: data sets that a person named when starting the program.
        root: the folder of runs, for built-in data, imported embeddings, and data sets elsewhere.
    """
    place = Path(data).resolve() if data else root
    match = next((folder for folder in folders if folder.resolve() in (place, place.parent) and data), None)
    return match if match is not None else root
