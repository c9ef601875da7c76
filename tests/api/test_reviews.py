"""Recall by reviewed labels over all queries and over those of a slice."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from coder_core.api.retrieval.results import LikelyMatches
from coder_core.api.reviews import (
    ReviewedSplit,
    ambiguous_pairs,
    likely_pairs,
    near_miss_pairs,
    reviewed_recall,
    reviewer_agreement,
    reviews_folder,
    suspicious_pairs,
)
from coder_core.data.reviews import Review, Reviews


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


def test_queues_have_each_text_once_and_at_most_fifty_pairs():
    captions = [f"text {number % 60}" for number in range(70)]
    table = pd.DataFrame({"caption": np.arange(70)[::-1], "image": np.arange(70)})
    queue = suspicious_pairs(table, captions)
    assert queue[:2] == [(0, 69), (1, 68)]
    assert len(queue) == 50
    diversity = pd.DataFrame({"anchor": [3, 0, 2, 1], "diversity": [0.9, 0.6, 0.8, 0.6]})
    assert ambiguous_pairs(diversity, np.array([5, 6, 7, 8]), ["a", "b", "c", "b"]) == [
        (5, 0),
        (6, 1),
        (7, 2),
    ]


def reviews_of(*verdicts):
    """Return reviews by (reviewer, image, verdict)."""
    return Reviews(tuple(Review(image, "a dog", verdict, reviewer) for reviewer, image, verdict in verdicts))


def test_agreement_of_two_people_is_corrected_for_chance():
    """Both judged four pairs, alike on three; by chance they would be alike on half."""
    verdicts = {"x": "wwrr", "y": "wrrr"}
    names = {"w": "wrong-caption", "r": "label-right"}
    given = [
        (reviewer, f"{number}.jpg", names[letter])
        for reviewer, letters in verdicts.items()
        for number, letter in enumerate(letters)
    ]
    remarks = [("x", "9.jpg", "none"), ("y", "9.jpg", "label-right"), ("z", "8.jpg", "label-right")]
    table = reviewer_agreement(reviews_of(*given, *remarks))
    [row] = table.to_dict("records")
    assert (row["first"], row["second"], row["pairs"], row["same"]) == ("x", "y", 4, 75)
    assert row["kappa"] == pytest.approx((0.75 - 0.5) / 0.5)
    same = reviewer_agreement(reviews_of(("x", "a.jpg", "label-right"), ("y", "a.jpg", "label-right")))
    assert same["same"].tolist() == [100]
    assert np.isnan(same["kappa"]).all()


def test_rows_and_tags_of_pairs_are_those_of_the_split():
    split = ReviewedSplit(["a.jpg", "b.jpg"], ["a dog", "a cat", "a dog"], np.array([0, 0, 1]))
    assert split.pair(1, None) == ("b.jpg", "")
    assert split.pair(0, 1) == ("a.jpg", "a cat")
    named = [("b.jpg", "a dog"), ("a.jpg", "a dog"), ("b.jpg", "a cat"), ("b.jpg", ""), ("c.jpg", "a dog")]
    named.append(("a.jpg", "a bird"))
    assert split.rows(named) == [(1, 2), (0, 0), (1, 1), (1, -1), None, None]
    reviews = Reviews(
        (
            Review("a.jpg", "a dog", "wrong-caption", "x", tags=("Blurred",)),
            Review("a.jpg", "a dog", "none", "y", tags=("odd",)),
            Review("b.jpg", "a cat", "label-right", "x"),  # no pair of the labels
        )
    )
    assert split.tags(reviews) == {0: ["blurred", "odd", "wrong-caption"]}


def test_reviews_lie_in_the_data_folder_only_if_it_was_named(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    root = tmp_path / "runs"
    assert reviews_folder(str(data), [data], root) == data
    assert reviews_folder(str(data / "captions.tsv"), [data], root) == data
    assert reviews_folder(str(data / "more" / "captions.tsv"), [data], root) == root
    assert reviews_folder(str(tmp_path), [data], root) == root
    assert reviews_folder("", [Path.cwd()], root) == root
    assert reviews_folder(str(data), [], root) == root
