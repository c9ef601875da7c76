"""Columns of a table of one's own, joined to the samples of a split (`coder_core.data.joined_columns`), by hand."""

import numpy as np
import pytest

from coder_core.data.joined_columns import UnrelatedTableError, join_to_splits, read_table_columns
from tests.support.precomp_folders import assert_refused

NAMES = ["shop/a.jpg", "shop/b.PNG", "c.d", "x/e.jpg", "y/e.png"]
OWNER = np.array([0, 0, 1, 4])
IDS = np.array([70, 80, 90, 95])


def table(folder, text, name="table.csv"):
    file = folder / name
    file.write_text(text)
    return file


def test_rows_about_pictures_are_joined_and_the_others_counted(tmp_path):
    """Pictures are named with or without folder and ending; e is the name of two."""
    file = table(tmp_path, "brand,name\nOne,a\nTwo,shop\\b.png\nThree,c.d\nFour,e\nFive,f\nSix,shop/a.jpg\n")
    columns, notes = read_table_columns(file, NAMES, OWNER)
    assert list(columns.images) == ["brand"]
    brand = columns.images["brand"]
    assert [brand.cell(row) for row in range(5)] == ["One", "Two", "Three", None, None]
    assert [(note.severity, note.found) for note in notes[-2:]] == [
        ("note", "joined by the column 'name' to 3 of 5 pictures; 2 rows are about other samples"),
        (
            "warning",
            f"1 rows repeat a sample, whose first row counts; the first: {file} line 7, 'shop/a.jpg'",
        ),
    ]


def test_rows_about_captions_are_joined_by_their_ids_or_places(tmp_path):
    file = table(tmp_path, "id,score\n70,1\n90,2\n80,3\n")
    columns, notes = read_table_columns(file, NAMES, OWNER, IDS)
    assert not columns.images
    assert columns.captions["score"].values[:3].tolist() == [1, 3, 2]
    assert np.isnan(columns.captions["score"].values[3])
    assert notes[-1].found == "joined by the column 'id' to 3 of 4 captions"
    file = table(tmp_path, "key,score\na.jpg#1,5\nshop/b.PNG#0,6\n")
    columns, _ = read_table_columns(file, NAMES, OWNER)  # one value at every image, which has it, too
    assert [columns.images["score"].cell(row) for row in range(5)] == [5, 6, None, None, None]


def test_one_table_may_be_about_pictures_and_captions(tmp_path):
    file = table(tmp_path, "key,score\na.jpg#1,5\nshop/a.jpg,6\n")
    columns, notes = read_table_columns(file, NAMES, OWNER)
    assert notes[-1].found == "joined by the column 'key' to 1 of 5 pictures and 1 of 4 captions"
    assert columns.images["score"].cell(0) == 5  # that of the captions comes last


def test_the_column_that_names_most_samples_is_the_key(tmp_path):
    file = table(tmp_path, "first,second\na,c.d\na,shop/a.jpg\nb,shop/b.PNG\nz,c.d\n")
    columns, notes = read_table_columns(file, NAMES, OWNER)
    assert list(columns.images) == ["first"]
    assert "joined by the column 'second' to 3 of 5" in notes[-2].found


def test_a_rare_name_in_a_long_table_is_found(tmp_path):
    """Of a long table some rows are tried first; if they name nothing, all are."""
    lines = ["name,brand", *(f"other{number},x" for number in range(5_999)), "shop/a.jpg,Acme"]
    columns, notes = read_table_columns(table(tmp_path, "\n".join(lines) + "\n"), NAMES, OWNER)
    assert columns.images["brand"].cell(0) == "Acme"
    assert "1 of 5 pictures; 5,999 rows are about other samples" in notes[-1].found


def test_what_is_not_a_table_about_the_split_is_refused(tmp_path):
    assert_refused(
        "is not a table; expected a table: ", read_table_columns, tmp_path / "none.csv", NAMES, OWNER
    )
    sheet = table(tmp_path, "x", "table.xlsx")
    assert_refused("is not a table.*[Cc][Ss][Vv]", read_table_columns, sheet, NAMES, OWNER)
    other = table(tmp_path, "name,brand\nnothing,x\n")
    expected = "has no row about a picture or a caption of this split; expected a column of names such as 'shop/a.jpg'"
    assert_refused(expected, read_table_columns, other, NAMES, OWNER)
    assert_refused(
        "a column of names of pictures, or of ids", read_table_columns, other, [], np.array([], int)
    )


def test_a_table_is_joined_to_the_splits_that_it_is_about(tmp_path):
    file = table(tmp_path, "name,brand\na,Acme\n")
    splits = {"train": (["z.jpg"], np.array([0]), None), "dev": (NAMES, OWNER, None)}
    assert list(join_to_splits(file, splits)) == ["dev"]
    with pytest.raises(UnrelatedTableError, match=r"such as 'z\.jpg'"):
        join_to_splits(file, {"train": splits["train"], "test": (["w.jpg"], np.array([0]), None)})
    assert join_to_splits(file, {}) == {}
