"""Recall by reviewed labels over all queries and over those of a slice."""

import numpy as np
import pandas as pd
import pytest

from coder_core.api.retrieval.results import LikelyMatches
from coder_core.api.reviews import ReviewedSplit, likely_pairs, near_miss_pairs, reviewed_recall
from coder_core.data.reviews import Reviews


@pytest.mark.parametrize("within", [None, np.array([3, 4, 5, 6, 60])])
def test_recall_counts_the_captions_of_a_slice_and_their_images(run, within):
    table = reviewed_recall(run, "dev", ReviewedSplit.of(run, "dev"), Reviews(), within)
    rows = table[table["queries"] == "all"].set_index("direction")
    ranks = run.ranks("dev")
    captions = np.arange(150) if within is None else within
    asked = {"i2t": np.unique(run.image_of_text("dev")[captions]), "t2i": captions}
    for direction, queries in asked.items():
        expected = 100 * np.mean(ranks[direction][queries] < 5)
        assert rows.loc[direction, "count"] == len(queries)
        assert rows.loc[direction, ["labels_5", "reviewed_5"]].tolist() == pytest.approx([expected] * 2)


def test_near_misses_are_queued_by_margin_and_each_text_once():
    margins = pd.DataFrame(
        {
            "query": [0, 1, 2, 3],
            "wrong": [7, 8, 9, 6],
            "rank": [1, 2, 2, 5],  # 1 is a hit
            "margin": [0.1, -0.3, -0.2, -0.25],
        }
    )
    assert near_miss_pairs(margins, ["a", "b", "c", "c"]) == [(9, 2), (8, 1)]


def test_likely_matches_are_queued_by_likeness():
    likeness = np.array([[0.2, 0.99], [0.97, 0.95], [0.98, 0.98], [0.1, 0.1]])
    match = np.array([[True, False], [False, False], [True, False], [False, False]])
    likely = LikelyMatches(likeness, match, np.array([0, 4, 0, 3]))
    best = np.array([[10, 11], [12, 13], [14, 15], [16, 17]])
    captions = ["a", "b", "c", "d"]
    assert likely_pairs(likely, best, captions) == [(11, 0), (15, 2), (12, 1)]
    assert likely_pairs(likely, best, captions, within=np.array([1, 3])) == [(12, 1)]
