"""Karpathy's JSON: splits, order, features beside it, and every fault by its key."""

import json
import os

import numpy as np
import pytest

from coder_core.data.dataset import available_splits, read_split
from coder_core.data.split import fingerprint
from tests.support.precomp_folders import features, real_flickr8k, refusal


def image(imgid, split="train", captions=2, **more):
    raw = [f"image {imgid} caption {j}" for j in range(captions)]
    sentences = [{"raw": text, "imgid": imgid, "sentid": 10 * imgid + j} for j, text in enumerate(raw)]
    return {"imgid": imgid, "filename": f"{imgid}.jpg", "split": split, "sentences": sentences} | more


def write(folder, images, arrays, **more):
    (folder / "dataset_small.json").write_text(json.dumps({"dataset": "small", "images": images} | more))
    for name, array in arrays.items():
        np.save(folder / name, array)
    return folder


@pytest.fixture
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("CODER_CACHE", str(folder))
    return folder


def test_restval_joins_train_and_val_is_dev(tmp_path):
    images = [image(0), image(1, "restval", 3), image(2, "val"), image(3, "test", 1)]
    arrays = {"train_ims.npy": features(2), "val_ims.npy": features(1), "test_ims.npy": features(1)}
    write(tmp_path, images, arrays)
    assert available_splits(tmp_path) == ["train", "dev", "test"]
    train = read_split(tmp_path, "train")
    assert train.captions == [f"image {i} caption {j}" for i, j in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]]
    assert train.image_of_text.tolist() == [0, 0, 1, 1, 1]
    assert train.image_names == ["0.jpg", "1.jpg"]
    assert read_split(tmp_path, "val").captions == read_split(tmp_path, "dev").captions
    assert read_split(tmp_path / "dataset_small.json", "test").n_texts == 1


def test_images_come_in_imgid_order_and_filepath_is_part_of_the_name(tmp_path):
    write(tmp_path, [image(2), image(0, filepath="val2014"), image(1)], {"train_ims.npy": features(3)})
    assert read_split(tmp_path, "train").image_names == ["val2014/0.jpg", "1.jpg", "2.jpg"]


def test_one_file_for_all_images_is_viewed_where_a_split_stands_together(tmp_path):
    array = features(5)
    images = [image(i, "train" if i < 3 else "val") for i in range(5)]
    write(tmp_path, images, {"ims.npy": array})
    dev = read_split(tmp_path, "dev")
    assert isinstance(dev.features, np.memmap)
    np.testing.assert_array_equal(dev.features, array[3:])
    array[1] = np.nan  # a fault of train does not concern dev
    np.save(tmp_path / "ims.npy", array)
    assert "(1, 0)" in str(refusal(read_split, tmp_path, "train"))
    np.testing.assert_array_equal(read_split(tmp_path, "dev").features, array[3:])


def test_linked_json_and_features_are_read_with_notes(tmp_path):
    disk, data = tmp_path / "disk", tmp_path / "data"
    disk.mkdir()
    (data / "flickr_precomp").mkdir(parents=True)
    write(disk, [image(0), image(1)], {"ims.npy": features(2)})
    (data / "dataset_small.json").symlink_to(disk / "dataset_small.json")
    (data / "flickr_precomp" / "ims.npy").symlink_to(disk / "ims.npy")
    split = read_split(data, "train")
    assert split.n_images == 2
    assert [(fault.severity, fault.place) for fault in split.faults] == [
        ("note", str(data / "dataset_small.json")),
        ("note", str(data / "flickr_precomp" / "ims.npy")),
    ]
    (disk / "ims.npy").unlink()
    assert f"ims.npy: a link to {disk / 'ims.npy'}, which does not exist" in str(
        refusal(read_split, data, "train")
    )
    (disk / "dataset_small.json").unlink()
    assert "dataset_small.json, which does not exist" in str(refusal(read_split, data, "train"))


def test_zero_regions_of_a_view_count_from_its_first_image(tmp_path):
    array = features(5)
    array[4, 2] = 0
    write(tmp_path, [image(i, "train" if i < 3 else "val") for i in range(5)], {"ims.npy": array})
    assert read_split(tmp_path, "dev").zero_regions.tolist() == [1 * 3 + 2]


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4"])
def test_scattered_rows_are_copied_once_into_the_cache(tmp_path, cache, dtype):
    array = features(600, dtype=dtype)
    order = ["train" if i % 3 else "val" for i in range(600)]
    write(tmp_path, [image(i, split) for i, split in enumerate(order)], {"features.npy": array})
    train = read_split(tmp_path, "train")
    assert isinstance(train.features, np.memmap)
    np.testing.assert_array_equal(train.features, array[[i for i in range(600) if i % 3]])
    (copy,) = (cache / "splits").iterdir()
    before = copy.stat().st_mtime_ns
    again = read_split(tmp_path, "train")
    assert fingerprint(again) == fingerprint(train)
    assert copy.stat().st_mtime_ns == before
    assert any(str(copy) in fault.found for fault in train.faults)
    array[1] += 1
    np.save(tmp_path / "features.npy", array)
    os.utime(tmp_path / "features.npy", ns=(1, 1))
    np.testing.assert_array_equal(read_split(tmp_path, "train").features[0], array[1])


def test_a_cache_that_cannot_be_written_says_how_to_go_on(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CODER_CACHE", str(blocked))
    write(tmp_path, [image(0), image(1, "val"), image(2)], {"ims.npy": features(3)})
    assert "CODER_CACHE" in str(refusal(read_split, tmp_path, "train"))


def test_coco_test_is_the_first_thousand_of_testall(tmp_path):
    images = [image(i, "test", 1) for i in range(1_200)]
    write(tmp_path, images, {"testall_ims.npy": features(1_200, 1, 2)}, dataset="coco")
    assert read_split(tmp_path, "testall").n_images == 1_200
    test = read_split(tmp_path, "test")
    assert (test.n_images, test.n_texts) == (1_000, 1_000)
    assert any("first 1,000" in fault.found for fault in test.faults)


@pytest.mark.parametrize("rows", [2, 4])
def test_features_of_another_count_are_refused(tmp_path, rows):
    write(tmp_path, [image(0), image(1), image(2)], {"train_ims.npy": features(rows)})
    assert f"{rows} rows of features for 3 images" in str(refusal(read_split, tmp_path, "train"))


def test_features_that_are_not_there_are_asked_for(tmp_path):
    write(tmp_path, [image(0)], {})
    assert "train_ims.npy (this split's images in imgid order) or ims.npy" in str(
        refusal(read_split, tmp_path, "train")
    )


def without(key):
    item = image(1)
    del item[key]
    return item


@pytest.mark.parametrize(
    ("item", "place"),
    [
        (without("imgid"), "images[1].imgid: the key is missing"),
        (without("filename"), "images[1].filename: the key is missing"),
        (without("split"), "images[1].split: the key is missing"),
        (without("sentences"), "images[1].sentences: the key is missing"),
        (image(0), "images[1].imgid: 0 is also the imgid of images[0]"),
        (image(1, "trian"), "images[1].split: 'trian'; expected one of train, restval, val"),
        (image(1, captions=0), "images[1].sentences: holds no caption"),
        (image(1, sentences=[{"tokens": ["a"]}]), "images[1].sentences[0].raw: the key is missing"),
        (image(1, sentences=[{"raw": " \n"}]), "images[1].sentences[0].raw: the caption is empty"),
        (image(1, sentences=[{"raw": 3}]), "images[1].sentences[0].raw: is of type int"),
        (image(1, sentences=["a dog"]), "images[1].sentences[0]: is of type str"),
        (image(1, sentences=[{"raw": "a", "sentid": 1}]), "1 is also the sentid of images[0].sentences[1]"),
        (image(1, sentences=[{"raw": "a", "imgid": 7}]), "differs from its image's imgid 1"),
        (image(1) | {"imgid": True}, "images[1].imgid: is of type bool"),
        (image(1, filename=None), "images[1].filename: is null"),
        ([], "images[1]: is of type list"),
        (
            image(1, sentences=[{"raw": "a \ud83d"}]),
            r"images[1].sentences[0].raw: 'a \ud83d' holds half a char",
        ),
        (image(1, filename="\udc00.jpg"), r"images[1].filename: '\udc00.jpg' holds half a character"),
        (image(1, filepath="\udc00"), r"images[1].filepath: '\udc00' holds half a character"),
    ],
)
def test_faults_are_named_by_their_key(tmp_path, item, place):
    write(tmp_path, [image(0), item], {"train_ims.npy": features(2)})
    assert place in str(refusal(read_split, tmp_path, "train"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"images": [{"imgid": 1, "imgid": 2}]}', "the key 'imgid' occurs twice"),
        ('{"images": [{"imgid": NaN}]}', "holds NaN"),
        ('{"images": [{"imgid": -Infinity}]}', "holds -Infinity"),
        ('{"images": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"images": [', "line 1, column"),
        ("", "not JSON"),
        ("[]", "the file: is of type list"),
        ("{}", "the file.images: the key is missing"),
        ('{"images": []}', "images: is empty"),
        ('{"images": {}}', "the file.images: is of type dict"),
        ('{"images": [' + "1" * 5000 + "]}", "dataset_small.json"),
        (b'{"images": "\xff"}', "byte 13"),
    ],
)
def test_what_the_parser_would_let_pass(tmp_path, text, says):
    (tmp_path / "dataset_small.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert says in str(refusal(read_split, tmp_path, "train"))


def test_twenty_faults_are_enough(tmp_path):
    write(tmp_path, [image(0, "trian") for _ in range(1_000)], {})
    error = refusal(read_split, tmp_path, "train")
    assert str(error).count("\n") == 20
    assert len(error.faults) < 30


def test_a_caption_over_two_lines_becomes_one(tmp_path):
    write(tmp_path, [image(0, sentences=[{"raw": "a dog\nruns\n"}])], {"train_ims.npy": features(1)})
    assert read_split(tmp_path, "train").captions == ["a dog runs"]


def test_two_json_files_are_not_guessed_between(tmp_path):
    write(tmp_path, [image(0)], {})
    (tmp_path / "dataset_other.json").write_text("{}")
    assert "several: dataset_other.json, dataset_small.json" in str(refusal(available_splits, tmp_path))


def test_real_flickr8k_is_the_same_in_both_layouts():
    folder = real_flickr8k()
    for split, images in (("train", 6_000), ("dev", 1_000)):
        json_split = read_split(folder / "dataset_flickr8k.json", split)
        assert (json_split.n_images, json_split.n_texts) == (images, 5 * images)
        assert fingerprint(json_split) == fingerprint(read_split(folder / "f8k_precomp", split))
