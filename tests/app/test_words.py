"""Numbers, durations and names in words, at the bounds where the words change."""

import math
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.ask import retrieval
from app.choice import Choice
from app.components import answers, cards, downloads, selection, table, words
from app.components.words import curve_label, curves, duration, gain_cell, steps_done
from coder_core.api import RunSummary

RUN = RunSummary("mine", Path("mine"), "running", status={"step": 3_000, "steps": 9_000})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (4.9, "a few seconds"),
        (5, "about 10 seconds"),
        (94, "about 90 seconds"),
        (95, "about 2 minutes"),
        (5399, "about 90 minutes"),
        (5400, "about 2 hours"),
        (36_000, "about 10 hours"),
    ],
)
def test_a_duration_is_rounded(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("gain", "text"),
    [
        ((0.0, 0.0, 0.0), "0"),
        ((1.25, 0.5, 2.0), "+1.2 [+0.5, +2.0]"),
        ((-1.0, -2.0, -0.1), "-1.0 [-2.0, -0.1]"),
        ((0.5, 0.0, 1.0), "+0.5 [+0.0, +1.0] may be noise"),
        ((-0.5, -1.0, 0.0), "-0.5 [-1.0, +0.0] may be noise"),
    ],
)
def test_a_gain_whose_interval_touches_zero_may_be_noise(gain, text):
    assert gain_cell(*gain) == text


def test_counts_lists_and_missing_numbers():
    assert [words.count(number, "image") for number in (0, 1, 2_000)] == [
        "0 images",
        "1 image",
        "2,000 images",
    ]
    assert words.count(3, "query", "queries") == "3 queries"
    assert [words.listed(list(names)) for names in ("a", "ab", "abc")] == ["a", "a and b", "a, b and c"]
    assert [words.number(value) for value in (0.12345, float("nan"))] == ["0.123", "–"]


@pytest.mark.parametrize(
    ("status", "state", "share", "text"),
    [
        ({"step": 3_000, "steps": 9_000}, "running", 1 / 3, "running: step 3,000 of 9,000"),
        ({"step": 9_001, "steps": 9_000}, "stopped", 1.0, "stopped: step 9,001 of 9,000"),
        ({"step": 3, "steps": 9}, "finished", 1.0, "finished"),
        ({"step": 0, "steps": 0}, "running", 0.0, "running"),
        ({"step": 0, "steps": 1}, "running", 0.0, "running: step 0 of 1"),
        ({"step": "3", "steps": 9}, "<b>", 0.0, "&lt;b&gt;"),
        ({"step": 3}, "running", 0.0, "running"),
    ],
)
def test_steps_of_a_run_in_words(status, state, share, text):
    assert steps_done(replace(RUN, status=status, state=state)) == (pytest.approx(share), text)


def test_curves_begin_with_recall_and_losses_and_have_labels():
    columns = ["time", "step", "zeal", "since_last.i2t_r1", "losses.instance", "metrics.rsum", "md", "note"]
    frame = pd.DataFrame([[1.0] * 7 + ["text"]], columns=columns)
    found = curves([frame, pd.DataFrame({"loss": [1.0], "epoch": [1]})])
    assert found == ["metrics.rsum", "loss", "losses.instance", "md", "since_last.i2t_r1", "zeal"]
    labels = [
        "R@sum",
        "loss",
        "loss: instance",
        "mean distance MD",
        "since the last evaluation: i2t R@1",
        "zeal",
    ]
    assert [curve_label(name) for name in found] == labels
    assert curve_label("other.t2i_ndcg10_low") == "other: t2i ndcg10 low"


def test_values_of_a_sample_are_written_by_their_kind():
    values = {
        "number": 1234.5,
        "whole": 3.0,
        "day": datetime(2026, 5, 1),
        "time": datetime(2026, 5, 1, 12, 30),
        "tags": ["a", "b"],
        "long": "x" * 501,
        "longest": "x" * 500,
    }
    texts = {name: cards.value_text(value) for name, value in values.items()}
    assert texts.pop("long") == "x" * 499 + "…"
    assert texts.pop("longest") == "x" * 500
    days = {"day": "2026-05-01", "time": "2026-05-01 12:30:00"}
    assert texts == {"number": "1,234.5", "whole": "3", "tags": "a, b", **days}


def test_bars_have_heights_relative_to_the_highest():
    assert cards.bars_html([1, 4, 0]).count("height:") == 3
    assert [f"height:{share}%" in cards.bars_html([1, 4, 0]) for share in (25, 100, 0)] == [True] * 3
    assert "height:0%" in cards.bars_html([0])


def test_only_boxes_with_more_than_five_lines_take_the_keyboard():
    assert cards._scrolls(["short"] * 5) == ""
    assert cards._scrolls(["short"] * 6) == ' tabindex="0"'
    assert cards._scrolls(["a" * 79]) == ""
    assert cards._scrolls(["a" * 80]) == ' tabindex="0"'


@pytest.mark.parametrize(
    ("name", "values", "decimals"),
    [
        ("R@1", [12.0, 13.0], 1),
        ("share, %", [12.345], 1),
        ("queries", [100.0, -3.0], 0),
        ("seconds", [0.5, math.inf], 4),
        ("seconds", [9.5], 3),
        ("seconds", [10.5], 2),
        ("seconds", [123456.5], 1),
        ("p", [1e-12], 12),
    ],
)
def test_decimals_of_a_column_follow_from_its_largest_number(name, values, decimals):
    assert downloads.decimals(name, pd.Series(values)) == decimals


def test_names_of_files_have_letters_digits_and_dashes():
    names = ["Recall of the runs", "μ", "--a__b--"]
    assert [downloads.file_name(name) for name in names] == ["recall-of-the-runs", "figure", "a-b"]


def test_infinite_ranks_and_gains_are_named():
    rank = table.Column("rank", ",d")
    gain = table.Column("gain", "+,d")
    assert table._cell(math.inf, rank) == table.NOT_LISTED
    assert [table._cell(value, gain) for value in (math.inf, -math.inf)] == ["+∞", "−∞"]


def test_the_largest_of_several_numbers_is_bold():
    assert table._largest(pd.Series([1.0, np.nan, 3.0])) == 3
    assert np.isnan(table._largest(pd.Series([3.0, np.nan])))  # alone
    assert table._largest(pd.Series([1.0, 2.0])) == 2


def test_steps_through_a_list_stop_at_its_ends_and_misses_go_on_at_the_other():
    ids = np.array([5, 3, 8, 1])
    assert [selection.neighbour(ids, 3, step) for step in (-1, 1)] == [5, 8]
    assert [selection.neighbour(ids, current, step) for current, step in ((5, -1), (1, 1))] == [5, 1]
    assert selection.neighbour(ids, 99, 1) == 5
    assert selection.neighbour(np.zeros(0, int), 7, 1) == 7
    missed = np.isin(np.arange(9), [5, 8])
    assert [selection.next_miss(ids, missed, 3, step) for step in (-1, 1)] == [5, 8]
    assert [selection.next_miss(ids, missed, 8, step) for step in (-1, 1)] == [5, 5]
    assert [selection.next_miss(ids, missed, 1, step) for step in (-1, 1)] == [8, 5]
    assert [selection.next_miss(ids, missed, 99, step) for step in (-1, 1)] == [8, 5]
    assert selection.next_miss(ids, missed & False, 3, 1) == 3


def test_chart_selections_are_unique_numbers_in_their_order():
    points = [{"customdata": value} for value in (7, [3, 1], True, None, [], "x", 7.0)]
    assert selection.selected_points({"selection": {"points": points}}) == [7, 3]
    assert selection.selected_points(None) == []


def test_recall_by_tenth_counts_the_anchors_of_each():
    tenths = selection.recall_by_tenth(np.arange(25)[::-1], np.r_[np.zeros(12), np.full(13, 5)], 5)
    assert tenths["tenth"].tolist() == [*range(1, 11)]
    assert tenths["anchors"].tolist() == [3, 2, 3, 2, 3, 2, 3, 2, 3, 2]
    recalls = tenths["recall"].tolist()
    assert recalls[:5] == [0] * 5
    assert recalls[6:] == [100] * 4
    assert not len(selection.recall_by_tenth(np.zeros(0), np.zeros(0), 1))


def test_the_recall_of_a_title_is_one_that_all_runs_have():
    both = {"rsum": 1.0, "i2t_r1": 1.0, "t2i_r1": 1.0}
    assert answers.main_recall({"a": both, "b": both}) == ("rsum", "R@sum")
    assert answers.main_recall({"a": both, "b": {"t2i_r1": 1.0}}) == ("t2i_r1", "text → image R@1")
    assert answers.main_recall({"a": {}}) == ("rsum", "R@sum")


@pytest.mark.parametrize(
    ("ends", "values", "text"),
    [
        ((1.0, 2.0), (20, 30), "b is better: R@1 30.0 against 20.0, +1.5 [+1.0, +2.0]"),
        ((-2.0, -1.0), (30, 20), "a is better: R@1 30.0 against 20.0, +1.5 [+1.0, +2.0]"),
        ((-1.0, 1.0), (20, 20), "No difference: R@1 of both runs is 20.0"),
        ((-1.0, 1.0), (20, 21), "No clear winner: R@1 21.0 of b, 20.0 of a, +0.0 [-1.0, +1.0] may be noise"),
    ],
)
def test_the_better_run_is_named_with_its_gain_over_the_other(ends, values, text):
    choice = Choice(replace(RUN, name="a"), replace(RUN, name="b"), "dev")
    gain = retrieval.Difference(sum(ends) / 2, *ends, seeds=False)
    assert answers.better_by(choice, gain, "R@1", values) == text


def test_several_runs_are_ordered_by_their_value():
    choice = Choice(RUN, None, "dev")
    text = answers.of_several(choice, "R@sum", {"a": 1.0, "b": 3.0, "c": 2.04})
    assert text == "b has the highest R@sum, 3.0; c 2.0 and a 1.0"
