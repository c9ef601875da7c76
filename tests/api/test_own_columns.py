"""Slices by the user's columns: expressions against loops over the values, their errors, and the slices they suggest."""

from datetime import datetime

import numpy as np
import pytest

import coder_core
from coder_core.api import open_run, slices
from coder_core.api.slices.own_columns import own_names, written
from coder_core.data.column_values import RawColumns
from coder_core.data.columns import SearchableTexts
from tests.support.precomp_folders import refusal

ITEMS = [
    {"brand": "Acme", "price": 25.5, "unit price": 2.0, "when": datetime(2026, 6, 1, 9), "tags": ["sale"]},
    {
        "brand": "Bolt",
        "price": 20,
        "unit price": None,
        "when": datetime(2025, 6, 30),
        "tags": ["sale", "new"],
    },
    {"brand": "acme", "price": None, "unit price": 9.5, "when": None, "class": "a"},
    {"brand": "Kite Co", "price": -3, "unit price": 0.0, "when": datetime(2026, 12, 31, 23), "class": "b"},
    {"caption": "of the user", "in stock": True, "sold": False},
    {"brand": "Acme", "in stock": False, "sold": True, "when": datetime(2026, 6, 14), "length": 7},
]


def columns_of(items, built_in=True):
    """Return the columns that expressions use, of one caption per item."""
    raw = RawColumns()
    for item in items:
        raw.add(item)
    typed, _ = raw.typed(np.arange(len(items)), len(items), "here")
    numbers = {"length": np.arange(len(items))} if built_in else {}
    texts = {"caption": [f"a caption {n}" for n in range(len(items))]}
    reviewed = {"tags": {"blurred": np.array([3])}}
    return slices.Columns(len(items), numbers, reviewed, texts, {}, own_names(typed.images))


COLUMNS = columns_of(ITEMS)


@pytest.mark.parametrize(
    ("expression", "rows"),
    [
        ('price > 20 and brand == "Acme"', [0]),
        ("price >= 20", [0, 1]),
        ("price", [0, 1]),
        ("-5 < price < 21", [1, 3]),
        ("price != 20", [0, 2, 3, 4, 5]),
        ('brand == "ACME"', [0, 2, 5]),
        ('brand != "acme"', [1, 3, 4]),
        ('"Bolt" == brand', [1]),
        ('brand in ("Acme", "bolt")', [0, 1, 2, 5]),
        ('brand not in ["Acme"]', [1, 3, 4]),
        ("brand in ()", []),
        ("price in (20, -3)", [1, 3]),
        ('"co" in brand', [3]),
        ('"unit price" > 1', [0, 2]),
        ('"unit price" == 0 or "class" == "a"', [2, 3]),
        ('"sale" in tags', [0, 1]),
        ('"blurred" in tags', [3]),
        ('"blurred" in column.tags', []),
        ('"NEW" not in tags', [0, 2, 3, 4, 5]),
        ("month(when) == 6", [0, 1, 5]),
        ("year(when) == 2026 and not day(when) > 1", [0]),
        ("hour(when) == 23", [3]),
        ("weekday(when) == 7", [5]),
        ('when >= "2026"', [0, 3, 5]),
        ('"2026-06-01" <= when <= "2026-06-14"', [0, 5]),
        ('when == "2026-06"', [0, 5]),
        ('when > "2026-06-01"', [3, 5]),
        ('when > "2026-06-01T08:30"', [0, 3, 5]),
        ('when != "2026-06"', [1, 2, 3, 4]),
        ("column.price == 20", [1]),
        ('column.caption == "of the user"', [4]),
        ('"caption 5" in caption', [5]),
        ("column.length == 7", [5]),
        ("length == 2", [2]),
        ('"in stock"', [4]),
        ("sold", [5]),
        ("sold == True", [5]),
        ("sold == False", [4]),
    ],
)
def test_expressions_select_by_columns(expression, rows):
    assert np.flatnonzero(slices.select(expression, COLUMNS)).tolist() == rows
    assert np.flatnonzero(slices.search(expression, COLUMNS)).tolist() == rows


@pytest.mark.parametrize(
    ("expression", "fact"),
    [
        ("brand > 5", "does not specify which brand"),
        ("brand", "does not specify which brand"),
        ("tags == 5", "compares tags with a number"),
        ("month(brand) == 5", "takes the month of 'brand'"),
        ("month(when, when) == 5", "compares 'month(when, when)'"),
        ("len(brand) > 5", "compares 'len(brand)'"),
        ('when > "yesterday"', "compares a date with 'yesterday'"),
        ('when > "2026-13-01"', "compares a date with '2026-13-01'"),
        ("when > 5", "compares a date with 5"),
        ('"2026" < "2027" < when', "compares 2026 with 2027"),
        ("brand.upper == 5", "compares 'brand.upper'"),
        ('"Acme" in brand.x', "which is not a column"),
        ("column.nothing == 5", "unknown name 'column.nothing'"),
        ('"a" in price', "does not specify which price"),
        ("brand in (price, 5)", "does not specify"),
    ],
)
def test_mistakes_are_named(expression, fact):
    assert fact in str(refusal(slices.select, expression, COLUMNS))


def test_titles_are_written_so_that_expressions_read_them():
    titles = [
        "price",
        "unit price",
        "class",
        "caption",
        "ﬁne",
        "größe",
        'quoted "title"',
        "tags",
        "3",
        "length",
    ]
    columns = columns_of([{title: number for number, title in enumerate(titles)}] * 2)
    for number, title in enumerate(titles):
        name = f"column.{title}" if title in ("caption", "tags", "length") else title
        assert slices.select(f"{written(name)} == {number}", columns).all(), title
    assert "unit price" in columns.names


def test_slices_are_suggested_by_columns():
    items = [
        {
            "price": n / 2,
            "stars": n % 3,
            "brand": "AB"[n % 2],
            "name": f"name {n}",
            "day": datetime(2026, 1, 1 + n),
        }
        for n in range(24)
    ]
    columns = columns_of([item | {"tags": ["x"] if n % 4 else ["x", "y"]} for n, item in enumerate(items)])
    suggested = list(slices.own_slices(columns))
    assert {entry.kind for entry in suggested} == {"price", "stars", "brand", "day", "tags"}
    counts = {entry.label: int(slices.select(entry.expression, columns).sum()) for entry in suggested}
    assert counts == {
        "price below 3 (lowest quarter)": 6,
        "price 3 to 6": 6,
        "price 6 to 9": 6,
        "price from 9 (highest quarter)": 6,
        "stars 0": 8,
        "stars 1": 8,
        "stars 2": 8,
        "brand “A”": 12,
        "brand “B”": 12,
        "day below 2026-01-07 (lowest quarter)": 6,
        "day 2026-01-07 to 2026-01-13": 6,
        "day 2026-01-13 to 2026-01-19": 6,
        "day from 2026-01-19 (highest quarter)": 6,
        "tags “x”": 24,
        "tags “y”": 6,
    }
    assert [entry.kind for entry in slices.own_slices(columns, ["brand"])] == ["brand", "brand"]


def test_the_worst_slice_of_a_run_is_one_of_its_columns(tmp_path):
    """Captions of brand Bad are those of other images."""
    rng = np.random.default_rng(0)
    count = 240
    images = rng.normal(size=(count, 16))
    bad = np.arange(count) % 3 == 0
    texts = images.copy()
    texts[bad] = np.roll(images[bad], 1, axis=0)
    coder_core.log_split(
        tmp_path / "run",
        "dev",
        images,
        texts,
        captions=[f"a thing of number {n}" for n in range(count)],
        columns={
            "brand": np.where(bad, "Bad", "Good"),
            "price": np.where(bad, 5.0, 50) + np.arange(count) / 100,
        },
    )
    run = open_run(tmp_path / "run")
    columns = slices.slice_columns(run, "dev")
    found = slices.slice_table([run], "dev", slices.Queries("t2i"), slices.usual_slices(columns), columns)
    worst = found.iloc[0]
    assert worst["expression"] in ('brand == "Bad"', "price < 6.8")
    assert worst["recall_0"] == 0
    assert {"brand", "price"} <= {*found["kind"]}


@pytest.mark.parametrize(
    ("name", "chosen", "condition"),
    [
        ("brand", slices.Filter(("Acme",)), 'brand == "Acme"'),
        ("brand", slices.Filter(("Acme", 'x "y"')), 'brand in ("Acme", "x \\"y\\"")'),
        ("tags", slices.Filter(("sale",)), '"sale" in tags'),
        ("tags", slices.Filter(("sale", "new")), '("sale" in tags or "new" in tags)'),
        ("price", slices.Filter(low="-3", high="20.5"), "-3 <= price <= 20.5"),
        ("unit price", slices.Filter(low="2"), '"unit price" >= 2'),
        ("when", slices.Filter(high='"2026-06-01"'), 'when <= "2026-06-01"'),
        (
            "when",
            slices.Filter(low='"2025-01-01"', high='"2026-06-01"'),
            '"2025-01-01" <= when <= "2026-06-01"',
        ),
        ("column.length", slices.Filter(low="1"), "column.length >= 1"),
    ],
)
def test_filters_are_conditions_of_the_slice(name, chosen, condition):
    other = 'length > 1 or "caption" in caption'
    expression = slices.with_filter(other, name, COLUMNS, chosen)
    assert expression == f"({other}) and {condition}"
    assert slices.filter_of(expression, name, COLUMNS) == chosen
    assert not slices.filter_of(other, name, COLUMNS)
    slices.select(expression, COLUMNS)
    assert slices.with_filter(expression, name, COLUMNS, slices.Filter()) == f"({other})"
    others = {"brand", "tags", "price", "unit price", "when"} - {name}
    assert not any(slices.filter_of(condition, other, COLUMNS) for other in others)


def test_several_filters_join_and_plain_words_stay():
    expression = slices.with_filter('caption "a cap"', "brand", COLUMNS, slices.Filter(("Acme",)))
    expression = slices.with_filter(expression, "price", COLUMNS, slices.Filter(low="20"))
    assert expression == '"caption" in words and "a cap" in caption and brand == "Acme" and price >= 20'
    assert slices.with_filter("", "price", COLUMNS, slices.Filter(low="20")) == "price >= 20"
    assert slices.with_filter("price >= 20", "price", COLUMNS, slices.Filter()) == ""
    many = slices.Filter(tuple(f"a long name of a brand {n}" for n in range(100)))
    assert "choose fewer values" in str(refusal(slices.with_filter, "", "brand", COLUMNS, many)).lower()


def test_filters_offer_the_values_of_a_column():
    of_brands = slices.values_of(COLUMNS.own["brand"]).labels
    assert of_brands == {"Acme": 2, "Bolt": 1, "acme": 1, "Kite Co": 1}
    of_prices = slices.values_of(COLUMNS.own["price"])
    assert (of_prices.low, of_prices.high, sum(of_prices.bars)) == (-3, 25.5, 3)
    of_dates = slices.values_of(COLUMNS.own["when"])
    assert (of_dates.low, sum(of_dates.bars)) == (datetime(2025, 6, 30), 4)
    day = datetime(2025, 6, 30).date()
    assert slices.parsed_limit(slices.written_limit(day)) == day
    assert slices.parsed_limit(slices.written_limit(2.5)) == 2.5


def test_a_slice_joins_the_filters_and_replaces_what_is_no_filter():
    filtered = 'length > 3 and brand == "Acme" and price >= 20'
    assert (
        slices.with_slice(filtered, "length < 9", COLUMNS) == 'brand == "Acme" and price >= 20 and length < 9'
    )
    assert slices.with_slice(filtered, 'brand == "Bolt"', COLUMNS) == 'price >= 20 and brand == "Bolt"'
    either = 'length < 2 or "cap" in caption'
    assert slices.with_slice("price >= 20", either, COLUMNS) == f"price >= 20 and ({either})"
    assert slices.with_slice("", "length < 9", COLUMNS) == "length < 9"
    long = slices.with_filter("", "brand", COLUMNS, slices.Filter(("b" * 1980,)))
    assert "at most 2,000" in str(refusal(slices.with_slice, long, "price > 3", COLUMNS))


@pytest.mark.parametrize("texts", [["A Dog", "straße", "", "no\0dog"], ["A Dog", "STRASSE", "", "x"]])
def test_texts_are_searched_like_a_loop(texts):
    found = SearchableTexts(texts)
    for part in ("dog", "SS", "ß", "", "zzz"):
        assert found.containing(part).tolist() == [part.casefold() in text.casefold() for text in texts]
