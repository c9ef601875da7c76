"""Image of every caption: ids, ratios, and the lengths that could mean two things."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coder_core.data.dataset import read_split
from coder_core.data.split import texts_by_image
from tests.support.precomp_folders import features, refusal, write_split


def captions(count):
    return [f"caption {row}" for row in range(count)]


@pytest.mark.parametrize("each", [1, 2, 5, 7])
def test_without_ids_an_exact_ratio_decides(tmp_path, each):
    split = read_split(write_split(tmp_path, captions=captions(4 * each)), "train")
    assert split.image_of_text.tolist() == [row // each for row in range(4 * each)]
    assert split.image_of_text.dtype == np.int64
    assert split.image_names is None


@pytest.mark.parametrize("count", [3, 7, 9, 21])
def test_counts_without_a_ratio_are_refused_with_both_and_the_ratio(tmp_path, count):
    write_split(tmp_path, captions=captions(count))
    assert f"{count} captions for 4 images, {count / 4:.4f} an image" in str(
        refusal(read_split, tmp_path, "train")
    )


def test_ids_an_image_name_the_pictures(tmp_path):
    split = read_split(write_split(tmp_path, ids=list("dcba")), "train")
    assert split.image_names == list("dcba")
    assert split.image_of_text.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_ids_a_caption_allow_any_number_in_any_order(tmp_path):
    ids = ["d", "d", "a", "c", "d", "b", "a"]
    split = read_split(write_split(tmp_path, captions=captions(7), ids=ids), "train")
    assert split.image_names == ["d", "a", "c", "b"]
    assert split.image_of_text.tolist() == [0, 0, 1, 2, 0, 3, 1]
    offsets, order = texts_by_image(split.image_of_text, split.n_images)
    assert offsets.tolist() == [0, 3, 5, 6, 7]
    assert order.tolist() == [0, 1, 4, 2, 6, 3, 5]


@settings(max_examples=30, deadline=None)
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
    offsets, order = texts_by_image(split.image_of_text, split.n_images)
    assert sorted(order.tolist()) == list(range(len(of_text)))
    for image in range(split.n_images):
        assert (split.image_of_text[order[offsets[image] : offsets[image + 1]]] == image).all()


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        ("abc", ["3 ids for 4 rows of features and 8 captions", "one id an image (4) or one a caption (8)"]),
        ("aabbccde", ["one id a caption, 5 different ones, for 4 rows of features"]),
        ("01234567", ["These number the captions: remove the file, then every 2 captions are one image"]),
        ("abad", ["train_ids.txt line 3: 'a' is also the id of", "train_ids.txt line 1"]),
    ],
)
def test_ids_that_do_not_fit_are_refused_with_the_counts_or_lines(tmp_path, ids, said):
    write_split(tmp_path, ids=list(ids))
    message = str(refusal(read_split, tmp_path, "train"))
    assert [text for text in said if text not in message] == []


@pytest.mark.parametrize("with_ids", [True, False])
def test_rows_stored_once_a_caption_are_read_once(tmp_path, with_ids):
    array = features(4)
    ids = [name for name in "abcd" for _ in range(5)] if with_ids else None
    write_split(tmp_path, array=np.repeat(array, 5, axis=0), captions=captions(20), ids=ids)
    split = read_split(tmp_path, "train")
    assert (split.n_images, split.n_texts) == (4, 20)
    assert isinstance(split.features, np.memmap)
    np.testing.assert_array_equal(split.features, array)
    assert split.image_of_text.tolist() == [row // 5 for row in range(20)]
    assert split.image_names == (["a", "b", "c", "d"] if with_ids else None)
    assert any("every row is stored 5 times" in fault.found for fault in split.faults)


def test_zero_regions_of_repeated_rows_are_counted_once(tmp_path):
    array = features(4)
    array[2, 1] = 0
    write_split(tmp_path, array=np.repeat(array, 5, axis=0), captions=captions(20))
    assert read_split(tmp_path, "train").zero_regions.tolist() == [2 * 3 + 1]


def test_equal_ids_with_different_rows_are_refused(tmp_path):
    write_split(tmp_path, array=features(8), captions=captions(8), ids=list("aabbccdd"))
    assert "'a' is also the id of" in str(refusal(read_split, tmp_path, "train"))


def test_one_caption_an_image_needs_no_ids(tmp_path):
    split = read_split(write_split(tmp_path, captions=captions(4), ids=["a", "b", "c", "d"]), "train")
    assert split.image_of_text.tolist() == [0, 1, 2, 3]


def test_no_dev_truncation(tmp_path):
    write_split(tmp_path, "dev", array=features(1_200, 1, 2), captions=captions(6_000))
    assert read_split(tmp_path, "dev").n_texts == 6_000


def test_numbers_become_picture_names_through_a_mapping(tmp_path):
    folder = write_split(tmp_path / "precomp", ids=["11", "12", "13", "14"])
    names = {str(11 + row): f"t/{row}.jpg" for row in range(4)}
    (tmp_path / "id_mapping.json").write_text(json.dumps(names))
    for path in (tmp_path, folder):
        assert read_split(path, "train").image_names == list(names.values())


@pytest.mark.parametrize(
    "content", ['{"11": "a.jpg"}', "[1, 2]", "{", '{"11": 1, "12": 2, "13": 3, "14": 4}']
)
def test_a_mapping_that_does_not_fit_is_a_warning(tmp_path, content):
    write_split(tmp_path, ids=["11", "12", "13", "14"])
    (tmp_path / "id_mapping.json").write_text(content)
    split = read_split(tmp_path, "train")
    assert split.image_names == ["11", "12", "13", "14"]
    assert [f.severity for f in split.faults if "id_mapping" in f.place] == ["warning"]
