"""Matrices of embeddings: what is converted is said."""

import numpy as np
import pytest

from coder_core.data.embeddings import join_repeated, open_matrix, picture_names, read_unit_rows, same_rows
from coder_core.data.unit_rows import first_equal_rows, unit_array
from tests.support.precomp_folders import assert_refused


@pytest.mark.parametrize(("dtype", "note"), [("f2", "float16"), ("f8", "float64"), ("f4", "")])
def test_only_floats_of_another_size_are_noted_as_converted(tmp_path, dtype, note):
    np.save(tmp_path / "rows.npy", np.eye(3, dtype=dtype))
    faults = []
    assert open_matrix(tmp_path / "rows.npy", faults).shape == (3, 3)
    assert [(fault.severity, "converted to float32" in str(fault)) for fault in faults] == (
        [("note", True)] if note else []
    )
    assert all(note in str(fault) for fault in faults)
    np.save(tmp_path / "regions.npy", np.zeros((2, 3, 4), np.float32))
    assert_refused(r"shape \(2, 3, 4\)", open_matrix, tmp_path / "regions.npy", [])


def test_embeddings_that_point_one_way_are_named_as_collapsed(tmp_path):
    random = np.random.default_rng(0)
    for spread, collapsed in ((0.01, True), (1.0, False)):
        rows = np.eye(1, 8) + spread * random.normal(size=(30, 8))
        np.save(tmp_path / "rows.npy", rows.astype(np.float32))
        faults = []
        read_unit_rows(open_matrix(tmp_path / "rows.npy", faults), "images", faults)
        assert any("collapsed" in str(fault) for fault in faults) == collapsed


def unit(*rows):
    array = np.array(rows, np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def test_rows_of_another_length_are_normalised_and_said_to_be():
    faults = []
    rows = unit_array(np.array([[0.5, 0], [0, 2], [1, 0]]), "rows.npy", "images", faults)
    assert rows.tolist() == [[1, 0], [0, 1], [1, 0]]
    assert [(fault.severity, fault.found) for fault in faults] == [
        ("note", "rows of length 0.5 to 2 are normalised: scores are cosines")
    ]
    faults = []
    nearly = np.array([[1 + 5e-7, 0], [0, 1]])
    assert unit_array(nearly, "rows.npy", "images", faults)[0, 0] == np.float32(1 + 5e-7)
    assert faults == []
    array = np.array([[3, 4]], np.float32)
    assert unit_array(array, "rows.npy", "images", [], in_place=True) is array
    np.testing.assert_allclose(array, [[0.6, 0.8]])


def test_unit_rows_are_not_copied_unless_they_are_stored_otherwise(tmp_path):
    rows = unit([1, 0], [3, 4], [0, 1])
    np.save(tmp_path / "rows.npy", rows)
    faults = []
    assert np.shares_memory(unit_array(rows, "rows.npy", "images", faults), rows)
    assert not read_unit_rows(open_matrix(tmp_path / "rows.npy", faults), "images", faults).flags.writeable
    columns_first = np.asfortranarray(rows)
    assert unit_array(columns_first, "rows.npy", "images", faults).flags.c_contiguous
    half = unit_array(unit([1, 0], [0, 1]).astype(np.float16), "rows.npy", "images", faults)
    assert half.dtype == np.float32
    assert faults == []


def test_rows_are_found_again_by_their_bytes():
    random = np.random.default_rng(0)
    rows = random.integers(0, 2, (200, 3)).astype(np.float32)
    expected = [next(other for other in range(200) if (rows[other] == row).all()) for row in rows]
    assert first_equal_rows(rows).tolist() == expected
    assert first_equal_rows(rows[:, :1]).tolist() == [
        rows[:, 0].tolist().index(value) for value in rows[:, 0]
    ]
    assert first_equal_rows(np.array([[0.0, 1], [-0.0, 1]], np.float32)).tolist() == [0, 1]


def test_rows_without_a_direction_are_counted_and_named():
    bad = np.ones((30, 2))
    bad[3:15] = 0
    problem = "12 rows contain only zeros, so they have no direction; .*: 3, 4, 5, 6, 7, 8, 9, 10, 11, 12"
    assert_refused(f"{problem}.*[Ee]mbed these captions", unit_array, bad, "rows.npy", "captions", [])
    bad[3:15] = 1
    bad[7] = np.inf
    assert_refused(
        "1 rows contain NaN, Inf or numbers that are too large", unit_array, bad, "rows.npy", "images", []
    )


def test_two_rows_are_collapsed_from_a_cosine_of_99_hundredths():
    for cosine, collapsed in ((0.9901, True), (0.9899, False)):
        faults = []
        unit_array(unit([1, 0], [cosine, (1 - cosine**2) ** 0.5]), "rows.npy", "images", faults)
        assert [fault.severity for fault in faults] == (["warning"] if collapsed else [])
    faults = []
    unit_array(unit([1, 0]), "rows.npy", "images", faults)
    assert faults == []


def test_different_captions_with_one_embedding_are_a_warning_from_five_and_a_twentieth():
    captions = [f"caption {number}" for number in range(101)]
    texts = np.random.default_rng(0).normal(size=(101, 4)).astype(np.float32)
    texts[[10, 20, 30, 40]] = texts[0]
    captions[50] = " Caption: 0!"  # the same words
    texts[50] = texts[0]
    assert same_rows(texts, captions, "texts.npy") == []
    texts[60] = texts[0]
    [fault] = same_rows(texts[:100], captions[:100], "texts.npy")
    assert fault.found.startswith("5 captions have the embedding of another, different caption")
    assert "10, 20, 30, 40, 60" in fault.found
    assert same_rows(texts, captions, "texts.npy") == []  # of 101, 5 are less than a twentieth
    assert same_rows(np.ones((5, 4), np.float32), captions[:5], "texts.npy") == []


def test_image_rows_of_one_name_are_joined_unless_they_differ():
    rows = unit([1, 0], [1, 0.01], [0, 1])
    faults = []
    joined, owners, names = join_repeated(rows, np.arange(3), ["a", "a", "b"], "rows.npy", faults)
    assert joined.tolist() == rows[[0, 2]].tolist()
    assert (owners.tolist(), names) == ([0, 0, 1], ["a", "b"])
    assert [(fault.severity, fault.found) for fault in faults] == [
        ("note", "3 rows are stored once per caption; those of one image are read once: 2 images")
    ]
    faults = []
    join_repeated(rows, np.arange(3), ["b", "a", "a"], "rows.npy", faults)
    assert faults[0].severity == "error"
    assert faults[0].found == "1 rows differ from an earlier one with the same name; the first: 2, 'a'"
    faults = []
    owners = np.array([0, 0, 1])
    unchanged = join_repeated(rows[:2], owners, ["a", "b"], "rows.npy", faults)
    assert unchanged[0] is not None
    assert (unchanged[1].tolist(), unchanged[2], faults) == ([0, 0, 1], ["a", "b"], [])


def test_equal_rows_that_follow_each_other_are_one_image():
    images = np.random.default_rng(0).normal(size=(20, 8))
    rows = unit(*np.repeat(images, 5, axis=0))
    faults = []
    joined, owners, names = join_repeated(rows, np.arange(100), None, "rows.npy", faults)
    assert (len(joined), owners.tolist(), names) == (20, np.repeat(np.arange(20), 5).tolist(), None)
    scattered = rows[np.random.default_rng(1).permutation(100)]
    assert len(join_repeated(scattered, np.arange(100), None, "rows.npy", [])[0]) == 100
    once = unit(*np.random.default_rng(2).normal(size=(50, 8)))
    once[[10, 20, 30, 40]] = once[[9, 19, 29, 39]]
    assert len(join_repeated(once, np.arange(50), None, "rows.npy", [])[0]) == 50  # 4 of 50 may be chance
    once[5] = once[4]
    assert len(join_repeated(once, np.arange(50), None, "rows.npy", [])[0]) == 45


def test_nearly_equal_rows_that_follow_each_other_are_a_warning():
    images = np.random.default_rng(0).normal(size=(20, 8))
    rows = unit(*(np.repeat(images, 5, axis=0) + 0.01 * np.random.default_rng(1).normal(size=(100, 8))))
    faults = []
    assert len(join_repeated(rows, np.arange(100), None, "rows.npy", faults)[0]) == 100
    [fault] = faults
    assert fault.severity == "warning"
    assert fault.found.startswith(
        "80 of 100 rows are nearly the same as the row before (cosine 0.999 or more)"
    )


def test_absolute_paths_of_pictures_become_names_in_a_folder(tmp_path):
    (tmp_path / "shop").mkdir()
    paths = [f"{tmp_path}/shop/a.jpg", f"{tmp_path}/shop/new/b.jpg"]
    faults = []
    assert picture_names(paths, None, faults) == (["a.jpg", "new/b.jpg"], tmp_path / "shop")
    assert picture_names(paths, tmp_path, faults) == (["shop/a.jpg", "shop/new/b.jpg"], tmp_path)
    assert picture_names(paths, tmp_path / "copy", faults) == (["a.jpg", "new/b.jpg"], tmp_path / "copy")
    assert picture_names(["a.jpg", paths[1]], tmp_path, faults) == (["a.jpg", "shop/new/b.jpg"], tmp_path)
    assert picture_names(["a.jpg"], None, faults) == (["a.jpg"], None)
    assert faults == []
    assert picture_names(["/gone/x/a.jpg", "/gone/x/b.jpg"], None, faults) == (["a.jpg", "b.jpg"], None)
    assert [(fault.severity, fault.place) for fault in faults] == [("warning", "/gone/x")]


def test_an_image_is_stored_at_most_a_hundred_times():
    images = np.random.default_rng(3).normal(size=(2, 8))
    for repeats, joined in ((100, 2), (101, 202)):
        rows = unit(*np.repeat(images, repeats, axis=0))
        assert len(join_repeated(rows, np.arange(2 * repeats), None, "rows.npy", [])[0]) == joined
