"""Where one kind of column ends and the next begins, and what a column of each kind answers, by hand."""

from datetime import datetime

import numpy as np
import pytest

from coder_core.data.column_values import RawColumns, typed_column
from coder_core.data.columns import Column, SampleColumns, SearchableTexts

NUMBERS = Column("number", np.array([1.5, np.nan, 1.5]))
DATES = Column("date", np.array(["2026-05-31", "NaT", "2026-06-01"], "datetime64[us]"))
LABELS = Column("category", np.array([1, -1, 0], np.int32), ["Bolt", "Acme"])
TAGS = Column("tags", np.array([0, 1, 1], np.int32), ["new", "Sale"], np.array([0, 2, 2, 3]))
EVERY = (NUMBERS, DATES, LABELS, TAGS)


def typed(values):
    notes = []
    cells = list(dict.fromkeys(values))
    column = typed_column(np.array([cells.index(value) for value in values]), cells, notes)
    return column, " ".join(notes)


def kind_of(values):
    return typed(values)[0].kind


def texts(different, samples):
    return [f"text {number % different}" for number in range(samples)]


def test_texts_are_categories_if_they_are_few_or_repeated_and_short():
    assert kind_of(texts(20, 20)) == "category"
    assert kind_of(texts(21, 21)) == "text"
    assert kind_of(texts(21, 41)) == "text"
    assert kind_of(texts(21, 42)) == "category"
    assert kind_of(["x" * 100, "y"]) == "category"
    assert kind_of(["x" * 101, "y"]) == "text"


def test_whole_numbers_up_to_two_to_the_53rd_are_numbers():
    assert kind_of([str(2**53), "-9007199254740992"]) == "number"
    assert kind_of([str(2**53 + 1), "1"]) == "category"
    assert kind_of([2**53, 1]) == "number"
    raw = RawColumns()
    raw.add_column("id", [2**53 + 1, -(2**53) - 1, 2**53])
    ids = raw.typed(np.arange(3), 3, "here")[0].images["id"]
    assert [ids.cell(row) for row in range(3)] == [
        "9007199254740993",
        "-9007199254740993",
        "9007199254740992",
    ]


def test_the_few_values_that_are_no_numbers_are_named_if_nine_of_ten_are():
    numbers = [str(number) for number in range(10)]
    assert "1 of 11 values are not numbers, such as 'ten'" in typed([*numbers, "ten"])[1]
    assert typed([*numbers[:8], "ten"])[1] == ""
    assert kind_of([*numbers, "n/a", "-", "None"]) == "number"
    assert kind_of(["n/a", "-"]) == "category"
    days = [f"2026-05-{number + 10}" for number in range(10)]
    assert "1 of 11 values are not dates in ISO 8601" in typed([*days, "May"])[1]


def test_a_separator_makes_tags_if_it_occurs_twice_and_in_a_tenth_of_the_values():
    words = ["a", "b"] * 9
    assert kind_of(["a|b", *words]) == "category"
    column, note = typed(["a|b", "b|a", *words])
    assert (column.kind, note) == ("tags", "read as tags, separated by |")
    assert kind_of(["a|b", "b|a", *words, "a"]) == "category"  # 2 of 21
    assert kind_of(["a b c|b", "b|a b c", "b", "b"]) == "tags"
    assert kind_of(["a b c d|b", "b|a b c d", "b", "b"]) == "category"
    assert kind_of(["a|b", "c|b", "b"]) == "category"  # 3 tags, used 5 times
    assert kind_of(["a|b", "c|b", "b", "b"]) == "tags"


def test_texts_of_ten_thousand_characters_are_whole():
    raw = RawColumns()
    raw.add_column("note", ["x" * 10_000, "y" * 10_001])
    columns, notes = raw.typed(np.arange(2), 2, "here")
    assert columns.images["note"].cell(0) == "x" * 10_000
    assert columns.images["note"].cell(1) == "y" * 9_999 + "…"
    assert notes[-1].found == "column 'note': 1 values of more than 10,000 characters are cut"


def test_columns_that_are_left_out_are_named_ten_at_a_time():
    raw = RawColumns()
    for number in range(12):
        raw.add_column(f"c{number}", [{}])
    raw.add_column("t" * 100, [1])
    kept, left_out = raw.typed(np.arange(1), 1, "here")[1]
    assert kept.found.startswith("columns kept of pictures: ttt")
    assert left_out.found.endswith("'c9' and 2 more (objects within objects)")


def test_every_kind_tells_which_samples_have_a_value():
    for column in EVERY:
        assert len(column) == 3
        assert column.present.tolist() == [True, False, True]
        assert column.cell(1) is None
        assert column.series().isna().tolist() == [False, True, False]
    assert NUMBERS.cell(0) == 1.5
    assert DATES.cell(2) == datetime(2026, 6, 1)
    assert (LABELS.cell(0), LABELS.cell(2)) == ("Acme", "Bolt")
    assert (TAGS.cell(0), TAGS.cell(2)) == (["new", "Sale"], ["Sale"])
    assert TAGS.series()[0] == "new, Sale"


@pytest.mark.parametrize("column", EVERY, ids=lambda column: column.kind)
def test_some_samples_of_a_column_and_nobody(column):
    taken = column.take(np.array([2, -1, 0, 0]))
    assert [taken.cell(row) for row in range(4)] == [column.cell(2), None, column.cell(0), column.cell(0)]
    masked = column.take(np.array([False, True, True]))
    assert [masked.cell(row) for row in range(2)] == [None, column.cell(2)]
    assert len(column.take(np.zeros(0, int))) == 0


def test_labels_are_searched_and_group_samples():
    assert LABELS.having([1]).tolist() == [True, False, False]
    assert LABELS.having([]).tolist() == [False, False, False]
    assert TAGS.having([1]).tolist() == [True, False, True]
    assert TAGS.having([0]).tolist() == [True, False, False]
    assert TAGS.sample_of_tag.tolist() == [0, 0, 2]
    assert TAGS.searchable_labels.containing("SALE").tolist() == [False, True]
    assert TAGS.folded_labels == ["new", "sale"]
    assert NUMBERS.group_numbers()[[0, 2]].tolist() == [0, 0]
    assert NUMBERS.group_numbers()[1] == -1
    assert LABELS.group_numbers()[1] == -1
    assert len(set(LABELS.group_numbers().tolist())) == 3
    with pytest.raises(ValueError, match="several tags"):
        TAGS.group_numbers()
    with_nul = SearchableTexts(["a\0b", "B", ""])
    assert with_nul.containing("b").tolist() == [True, True, False]
    assert SearchableTexts(["x", "", "y"]).containing("y").tolist() == [False, False, True]


def test_samples_have_the_values_of_their_columns_and_later_ones_replace_earlier():
    columns = SampleColumns({"price": NUMBERS, "brand": LABELS}, {"tags": TAGS})
    assert columns.of_image(0) == {"price": 1.5, "brand": "Acme"}
    assert columns.of_image(1) == {}
    assert columns.of_caption(2) == {"tags": ["Sale"]}
    joined = columns.joined(SampleColumns({"tags": DATES}, {"price": NUMBERS}))
    assert (list(joined.images), list(joined.captions)) == (["brand", "tags"], ["price"])
    assert not SampleColumns()
    assert SampleColumns({}, {"tags": TAGS})
