"""Image of every caption: ids, ratios, and the lengths that could mean two things."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data.dataset import read_split
from tests.support.precomp_folders import features, reason, write_split


def captions(count):
    return [f"caption {row}" for row in range(count)]


def test_without_ids_an_exact_ratio_decides(tmp_path):
    for each in (1, 2, 5, 7):
        split = read_split(write_split(tmp_path, captions=captions(4 * each)), "train")
        assert split.image_of_text.tolist() == [row // each for row in range(4 * each)]
        assert split.image_of_text.dtype == np.int64
        assert split.image_names is None
    for count in (3, 7, 9, 21):
        write_split(tmp_path, captions=captions(count))
        assert f"{count} captions for 4 images, {count / 4:.4f}" in reason(tmp_path)
    write_split(tmp_path, "dev", array=features(1_200, 1, 2), captions=captions(6_000))
    assert read_split(tmp_path, "dev").n_texts == 6_000  # dev is never cut to 5,000


@pytest.mark.parametrize(
    ("ids", "names", "owners"),
    [
        ("dcba", "dcba", [0, 0, 1, 1, 2, 2, 3, 3]),  # one id an image
        ("ddacdbab", "dacb", [0, 0, 1, 2, 0, 3, 1, 3]),  # one id a caption, in any order
        ("aabbccdd", "abcd", [0, 0, 1, 1, 2, 2, 3, 3]),
    ],
)
def test_ids_name_images_and_decide(tmp_path, ids, names, owners):
    split = read_split(write_split(tmp_path, ids=list(ids)), "train")
    assert split.image_names == list(names)
    assert split.image_of_text.tolist() == owners


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=30))
def test_ids_a_caption_are_read_back(tmp_path_factory, of_text):
    first = list(dict.fromkeys(of_text))
    if len(first) == len(of_text):  # one caption an image: one id an image is the same
        of_text = [*of_text, of_text[0]]
    folder = tmp_path_factory.mktemp("ids")
    names = [f"p{i}.jpg" for i in of_text]
    write_split(folder, array=features(len(first)), captions=captions(len(of_text)), ids=names)
    split = read_split(folder, "train")
    assert [split.image_names[image] for image in split.image_of_text] == names


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ("abc", ["3 ids for 4 rows of features and 8 captions", "an image (4) or one a caption (8)"]),
        ("aabbccde", ["5 different ones, for 4 rows"]),
        ("01234567", ["remove the file, then every 2 captions are one image"]),
        ("abad", ["train_ids.txt line 3: 'a'", "train_ids.txt line 1"]),
    ],
)
def test_ids_that_do_not_fit_are_refused_with_the_counts_or_lines(tmp_path, ids, parts):
    write_split(tmp_path, ids=list(ids))
    assert [part for part in parts if part not in reason(tmp_path)] == []


@pytest.mark.parametrize("with_ids", [True, False])
def test_rows_stored_once_a_caption_are_read_once(tmp_path, with_ids):
    array = features(4)
    array[2, 1] = 0
    ids = [name for name in "abcd" for _ in range(5)] if with_ids else None
    write_split(tmp_path, array=np.repeat(array, 5, axis=0), captions=captions(20), ids=ids)
    split = read_split(tmp_path, "train")
    assert (split.n_images, split.n_texts) == (4, 20)
    assert isinstance(split.features, np.memmap)
    np.testing.assert_array_equal(split.features, array)
    assert split.image_of_text.tolist() == [row // 5 for row in range(20)]
    assert split.image_names == (["a", "b", "c", "d"] if with_ids else None)
    assert "note" in [fault.severity for fault in split.faults]
    assert split.zero_regions.tolist() == [2 * 3 + 1]  # counted once
    write_split(tmp_path, array=features(8), captions=captions(8), ids=list("aabbccdd"))
    assert "train_ids.txt line 2: 'a'" in reason(tmp_path)  # equal ids, different rows


def test_numbers_become_picture_names_through_a_mapping(tmp_path):
    folder = write_split(tmp_path / "precomp", ids=["11", "12", "13", "14"])
    names = {str(11 + row): f"t/{row}.jpg" for row in range(4)}
    mapping = tmp_path / "id_mapping.json"
    mapping.write_text(json.dumps(names))
    for path in (tmp_path, folder):
        assert read_split(path, "train").image_names == list(names.values())
    for content in ('{"11": "a.jpg"}', "[1, 2]", "{", '{"11": 1, "12": 2, "13": 3, "14": 4}'):
        mapping.write_text(content)
        split = read_split(folder, "train")
        assert split.image_names == ["11", "12", "13", "14"]
        assert [fault.severity for fault in split.faults if str(mapping) in fault.place] == ["warning"]
