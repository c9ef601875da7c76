"""Filters of the user's columns and heat maps: labels, ends of sliders, chips, and rows of the table."""

from datetime import datetime
from types import SimpleNamespace

import numpy as np
import pytest

from app.ask import heat_maps, slices
from app.components.heat_maps import Drawn, _long, _row_of
from app.frame import filters


@pytest.mark.parametrize(
    ("chosen", "label"),
    [
        (slices.Filter(), "price"),
        (slices.Filter(("a", "b")), "price: a, b"),
        (slices.Filter(low="1", high="2"), "price: 1 – 2"),
        (slices.Filter(low="1"), "price ≥ 1"),
        (slices.Filter(high='"2026-01-01"'), "price ≤ 2026-01-01"),
        (slices.Filter(("x" * 21,)), "price: " + "x" * 21),
        (slices.Filter(("x" * 22,)), "price: " + "x" * 20 + "…"),
    ],
)
def test_a_chip_says_what_its_filter_keeps(chosen, label):
    assert filters._label("price", chosen) == label


@pytest.mark.parametrize(
    ("low", "high", "ends"),
    [
        (0.3, 99.8, (0.0, 100.0, 0.5)),
        (3.5, 4.0, (3.5, 4.0, 0.005)),
        (2.0, 2.0, (2.0, 2.0, None)),
        (None, None, (None, None, None)),
        (
            datetime(2026, 1, 2, 9),
            datetime(2026, 3, 4),
            (datetime(2026, 1, 2).date(), datetime(2026, 3, 4).date(), None),
        ),
    ],
)
def test_a_slider_ends_at_multiples_of_its_step(low, high, ends):
    assert filters._ends(slices.Values({}, low, high)) == pytest.approx(ends)


def test_eight_columns_have_a_chip_those_that_filter_and_texts_last():
    kinds = {"text": "text"} | {f"number {place}": "number" for place in range(9)}
    columns = SimpleNamespace(own={name: SimpleNamespace(kind=kind) for name, kind in kinds.items()})
    numbers = [f"number {place}" for place in range(9)]
    assert filters._shown(columns, {}) == numbers[:8]
    active = {name: slices.Filter(low="1") for name in ("number 8", "text")}
    assert filters._shown(columns, active) == ["number 8", "text", *numbers[:6]]


@pytest.mark.parametrize(("chosen", "last"), [("number 8", ["number 8"]), ("number 2", []), ("unknown", [])])
def test_a_column_chosen_from_the_list_gets_a_chip_behind_the_others_once(monkeypatch, chosen, last):
    columns = SimpleNamespace(own={f"number {place}": SimpleNamespace(kind="number") for place in range(9)})
    monkeypatch.setitem(filters.st.session_state, filters.MORE, chosen)
    assert filters._shown(columns, {}) == [*list(columns.own)[:8], *last]


def test_the_table_of_a_heat_map_has_a_row_for_every_word_and_region():
    boxes = np.array([[0.0, 0.1, 0.5, 0.6], [0.5, 0.1, 1.0, 0.6]])
    heat = heat_maps.HeatMap(["a", "dog", "a"], np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0]]), boxes)
    drawn = Drawn(("a dog a", 0), heat, "cosine", ["a", "dog", "a (2)"])
    assert drawn.ends == (1.0, 6.0)
    rows = _long(drawn.words, heat)
    assert rows["word"].tolist() == ["a", "a", "dog", "dog", "a (2)", "a (2)"]
    assert rows["region"].tolist() == [1, 2, 1, 2, 1, 2]
    np.testing.assert_array_equal(rows["value"], [1, 2, 3, np.nan, 5, 6])
    sides = rows[["left", "top", "right", "bottom"]].to_numpy()
    np.testing.assert_array_equal(sides, np.tile(boxes, (3, 1)))
    assert [_row_of(drawn, word) for word in ("a (2)", "cat")] == [2, None]
    of_tower = Drawn(drawn.pair, heat, "tower", drawn.words)
    assert [_row_of(of_tower, word) for word in ("dog", "cat")] == [1, 0]
