"""Groups of images, from a file or a column (`coder_core.data.groups`), by hand."""

import numpy as np
import pytest

from coder_core.console.faults import InputError
from coder_core.data.column_values import RawColumns
from coder_core.data.groups import (
    group_numbers,
    groups_of_splits,
    ids_of_column,
    open_groups,
    read_groups,
    shared_groups,
)
from tests.support.precomp_folders import assert_refused

NAMES = ["x/a.jpg", "b.jpg", "c.jpg", "y/d.jpg", "z/d.jpg"]


def written(folder, *lines):
    file = folder / "groups.tsv"
    file.write_text("".join(f"{line}\n" for line in lines))
    return file


def columns_of(values, image_of_text):
    raw = RawColumns()
    raw.add_column("product", values)
    return raw.typed(np.asarray(image_of_text), 3, "here")[0]


def test_numbers_of_groups_are_the_same_in_every_split_and_alone_below_zero():
    numbers = group_numbers(["shoe", "", "hat", "shoe", ""])
    assert numbers.tolist() == [numbers[0], -2, numbers[2], numbers[0], -5]
    assert numbers[0] == group_numbers(["", "shoe"])[1] == 6716756827359227920
    assert min(numbers[0], numbers[2]) >= 0
    assert numbers[0] != numbers[2]


def test_a_file_of_groups_names_images_and_is_counted(tmp_path):
    file = written(tmp_path, "a.jpg\tshoe", "c.jpg\tshoe", "b.jpg \t hat", "other.jpg\that", "c.jpg\tshoe")
    groups, note = read_groups(file, NAMES)
    assert groups.tolist() == group_numbers(["shoe", "hat", "shoe", "", ""]).tolist()
    assert (note.severity, note.place) == ("note", str(file))
    assert note.found == "3 of 5 images are in 2 groups; 1 lines are about other images"
    _, note = read_groups(written(tmp_path, "a.jpg\tshoe"), NAMES)
    assert note.found == "1 of 5 images are in 1 groups"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a.jpg shoe"], "line 1: is 'a.jpg shoe'"),
        (["b.jpg\that", "a.jpg\tshoe\tblue"], "line 2: is "),
        (["a.jpg\t"], "line 1: is "),
        (["a.jpg\tshoe", "a.jpg\that"], "line 2: puts 'a.jpg' into group 'hat', an earlier line into 'shoe'"),
        (["a.jpg\tshoe", "x/a.jpg\that"], "line 2: puts 'x/a.jpg' into group 'hat', an earlier"),
        (["d.jpg\tshoe"], "line 1: 'd.jpg' is the name of several images"),
        (["other.jpg\tshoe"], "names no image of this split; expected names such as x/a.jpg"),
    ],
)
def test_files_that_do_not_group_the_images_are_refused(tmp_path, lines, message):
    assert_refused(message, read_groups, written(tmp_path, *lines), NAMES)


def test_splits_without_groups_are_left_out_and_some_split_must_have_them(tmp_path):
    file = open_groups(written(tmp_path, "a.jpg\tshoe"))
    groups, notes = groups_of_splits(file, {"train": NAMES, "dev": ["q.jpg"]})
    assert list(groups) == list(notes) == ["train"]
    assert groups_of_splits(file, {"dev": ["q.jpg"]}) == ({}, {})
    with pytest.raises(InputError, match=r"names no image of the data; expected names such as q\.jpg"):
        groups_of_splits(file, {"dev": ["q.jpg"], "test": ["r.jpg"]})
    with pytest.raises(InputError, match="is not a file"):
        open_groups(tmp_path / "none.tsv")


def test_a_column_groups_images_by_its_values():
    ids, note = ids_of_column(columns_of([7, 7, None, 2.5], [0, 0, 1, 2]), "product", "table.csv")
    assert ids == ["7", "", "2.5"]
    assert note.found == "2 of 3 images are in 2 groups"
    ids, _ = ids_of_column(columns_of([" x ", " x ", None, "y"], [0, 0, 1, 2]), "product", "table.csv")
    assert ids == ["x", "", "y"]


def test_columns_that_cannot_group_images_are_refused():
    of_captions = columns_of(["a", "b", "c", "d"], [0, 0, 1, 2])
    where = "table.csv, --group-column product: "
    assert_refused(
        f"{where}has different values at the captions", ids_of_column, of_captions, "product", "table.csv"
    )
    tags = columns_of([["a", "b"], ["a", "b"], ["c"], ["c"]], [0, 0, 1, 2])
    assert_refused(f"{where}has lists of values", ids_of_column, tags, "product", "table.csv")
    expected = "is not a further column of the data; expected one of 'product'"
    assert_refused(expected, ids_of_column, tags, "brand", "table.csv")


def test_groups_in_two_splits_are_a_warning_with_their_numbers():
    """Images without a group have numbers below 0, which splits share without a meaning."""
    assert shared_groups("dev and train", np.array([-1, 0, 5]), np.array([-1, 6])) == []
    [fault] = shared_groups("dev and train", np.array([-1, 0, 5, 5, 8]), np.array([-1, 5, 0, 9]))
    assert (fault.severity, fault.place) == ("warning", "dev and train")
    assert fault.found == "2 groups are in both; the first of the two has 3 images of them"
