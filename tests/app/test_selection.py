"""Selections, filters and orders as functions."""

import numpy as np
import pandas as pd
import pytest

from app.choice import NO_RUN
from app.components import selection
from app.frame import sidebar


def test_points_give_their_customdata_once_each() -> None:
    points = [
        {"customdata": [3], "point_index": 0},
        {"customdata": 3},
        {"customdata": [1, "x"]},
        {"point_index": 9},
    ]
    assert selection.selected_points({"selection": {"points": points}}) == [3, 1]
    assert selection.selected_points({}) == []


@pytest.mark.parametrize(
    ("current", "step", "expected"), [(5, 1, 9), (5, -1, 5), (9, 1, 2), (2, 1, 2), (77, 1, 5)]
)
def test_neighbours_stay_inside(current: int, step: int, expected: int) -> None:
    assert selection.neighbour([5, 9, 2], current, step) == expected


def test_outcomes_are_counted_and_filtered_by_change() -> None:
    changes = pd.DataFrame(
        {"query": [0, 1, 2], "outcome": ["fixed", "broken", "fixed"], "change": [1, -9, 5]}
    )
    assert selection.outcome_counts(changes, ("fixed", "both right")) == {"fixed": 2, "both right": 0}
    assert selection.by_outcome(changes, "fixed")["query"].tolist() == [2, 0]
    assert selection.by_outcome(changes, None)["query"].tolist() == [1, 2, 0]


def test_tenths_by_hand() -> None:
    """Twenty anchors, the two lowest are missed."""
    spread = np.arange(20.0)[::-1]
    ranks = np.where(spread < 2, 50, 0)
    found = selection.recall_by_tenth(spread, ranks, 10)
    assert found["tenth"].tolist() == list(range(1, 11))
    assert found["recall"].tolist() == [0.0] + [100.0] * 9
    assert found["anchors"].tolist() == [2] * 10
    assert selection.recall_by_tenth(np.zeros(0), np.zeros(0), 10).empty


def test_words_match_in_any_order_and_case() -> None:
    captions = ["A red ring", "a ring, and a RED star", "blue"]
    assert selection.matching(captions, "ring red").tolist() == [0, 1]
    assert selection.matching(captions, "  ").tolist() == [0, 1, 2]
    assert selection.matching(captions, "zebra").tolist() == []


def test_failures_are_found_on_both_sides() -> None:
    """Order 5 9 2 7; 9 and 7 failed."""
    failed = np.zeros(10, dtype=bool)
    failed[[9, 7, 1]] = True
    order = [5, 9, 2, 7]
    assert selection.next_failure(order, failed, 5, 1) == 9
    assert selection.next_failure(order, failed, 9, 1) == 7
    assert selection.next_failure(order, failed, 7, 1) == 7
    assert selection.next_failure(order, failed, 7, -1) == 9
    assert selection.next_failure(order, failed, 5, -1) == 5
    assert selection.next_failure(order, failed, 3, 1) == 9  # not in this order: from its beginning
    assert selection.next_failure([], failed, 3, 1) == 3


def test_the_largest_fall_and_rise_come_first() -> None:
    changes = pd.DataFrame({"change": [1.0, -5.0, 3.0, -5.0]})
    assert selection.largest_change(changes, -1).tolist() == [1, 3, 0, 2]
    assert selection.largest_change(changes, 1).tolist() == [2, 0, 1, 3]
    assert selection.largest_change(None, 1).tolist() == []


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        (["coder-demo", "demo-baseline"], ("demo-baseline", "coder-demo")),
        (["demo", "demo-baseline"], ("demo-baseline", "demo")),
        (["coder-demo", "demo", "demo-baseline"], ("demo-baseline", "coder-demo")),
        (["a", "b"], ("a", "b")),
        (["a"], ("a", NO_RUN)),
    ],
)
def test_the_baseline_is_the_first_of_the_default_pair(names: list[str], pair: tuple[str, str]) -> None:
    assert sidebar.default_pair(names) == pair
