"""What people know about the pairs of a split: verdicts, judgments and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coder_core.api.reviews import ReviewedSplit
from coder_core.api.run import Run
from coder_core.api.sides import Array
from coder_core.data.reviews import Reviews
from coder_core.evaluation.relevance import GROUP, widened


@dataclass(frozen=True)
class Known:
    """What people know about a split with m captions."""

    verdicts: Array  # (m,) verdict on each caption with its own image, "" without one
    people: Array  # (P, 2) int64 rows (caption, image) that match by a verdict, without a label
    others: Array  # (J, 2) that match by a judgement or a group
    refused: Array  # (R, 2) int64 rows that do not match

    @classmethod
    def nothing(cls, texts: int) -> Known:
        """Return the knowledge about a split of `texts` captions that nobody judged."""
        none = np.empty((0, 2), np.int64)
        return cls(np.full(texts, "", "<U16"), none, none, none)

    @property
    def matches(self) -> Array:
        """(P + J, 2) rows (caption, image) that match without a label."""
        return np.concatenate([self.people, self.others])

    @classmethod
    def of(
        cls, run: Run, split: str, reviewed: ReviewedSplit, reviews: Reviews, judged: Sequence[Array] = ()
    ) -> Known:
        """Collect the verdicts in a file of reviews, the groups of the images, and `judged`, arrays of (·, 2) rows
        (caption, image) that match by judgments."""
        split_verdicts = reviewed.judged(reviews)
        owner = reviewed.image_of_text
        refused = []
        named = list(reviews.verdicts.items())
        for row, (_, verdict) in zip(reviewed.rows(pair for pair, _ in named), named, strict=True):
            if row is not None and verdict == "label-right" and row[1] >= 0 and owner[row[1]] != row[0]:
                refused.append((row[1], row[0]))

        groups = run.analysis(split).image_groups
        if groups is not None:
            relation = widened(owner, len(groups), groups=groups).t2i
            pairs = np.stack([relation.queries, relation.candidates], 1)
            judged = [*judged, pairs[relation.sources == GROUP]]

        none = np.empty((0, 2), np.int64)
        others = np.concatenate([none, *judged])
        mismatches = np.array(refused, np.int64).reshape(len(refused), 2)
        return cls(split_verdicts.labels, split_verdicts.matches, others, mismatches)
