"""Karpathy's JSON: splits, order, features beside it, and every fault by its key."""

import os

import numpy as np
import pytest

from coder_core.console.faults import MOST_FAULTS_SHOWN
from coder_core.data.dataset import available_splits, read_split
from coder_core.data.split import fingerprint
from tests.support.karpathy import image, write
from tests.support.precomp_folders import features, real_flickr8k, reason, refusal


def test_splits_captions_and_their_order_are_read(tmp_path):
    """restval is train, val is dev; images are in imgid order, and filepath is part of a name."""
    images = [image(2, "test", 1), image(1, "restval", 3, filepath="val2014"), image(3, "val"), image(0)]
    images[2]["sentences"][0]["raw"] = "a dog\nruns\n"
    write(tmp_path, images, {"ims.npy": features(4)})
    assert available_splits(tmp_path) == ["train", "dev", "test"]
    train = read_split(tmp_path, "train")
    ids = [0, 1, 10, 11, 12]
    assert train.captions == ["image {} caption {}".format(*divmod(number, 10)) for number in ids]
    assert (train.image_of_text.tolist(), train.caption_ids.tolist()) == ([0, 0, 1, 1, 1], ids)
    assert train.image_names == ["0.jpg", "val2014/1.jpg"]
    assert read_split(tmp_path, "val").captions == read_split(tmp_path, "dev").captions
    assert read_split(tmp_path, "dev").captions[0] == "a dog runs"
    assert read_split(tmp_path / "dataset_small.json", "test").n_texts == 1


def test_a_contiguous_split_is_a_view_of_the_shared_feature_file(tmp_path):
    array = features(5)
    array[4, 2] = 0
    write(tmp_path, [image(i, "train" if i < 3 else "val") for i in range(5)], {"ims.npy": array})
    dev = read_split(tmp_path, "dev")
    assert isinstance(dev.features, np.memmap)
    np.testing.assert_array_equal(dev.features, array[3:])
    assert dev.zero_regions.tolist() == [1 * 3 + 2]  # counted from its first image
    array[1] = np.nan  # a fault of train does not concern dev
    np.save(tmp_path / "ims.npy", array)
    assert "(1, 0)" in reason(tmp_path)
    np.testing.assert_array_equal(read_split(tmp_path, "dev").features, array[3:])


def test_linked_json_and_features_are_read_with_notes(tmp_path):
    data = tmp_path / "data"
    (data / "flickr_precomp").mkdir(parents=True)
    write(tmp_path, [image(0), image(1)], {"ims.npy": features(2)})
    links = [data / "dataset_small.json", data / "flickr_precomp" / "ims.npy"]
    for link in links:
        link.symlink_to(tmp_path / link.name)
    notes = [(fault.severity, fault.place) for fault in read_split(data, "train").faults]
    assert notes == [("note", str(link)) for link in links]
    for link in links[::-1]:
        (tmp_path / link.name).unlink()
        assert str(link) in refusal(read_split, data, "train").faults[0].place


@pytest.mark.parametrize("dtype", ["<f2", "<f4", ">f4"])
def test_scattered_rows_are_copied_once_into_the_cache(tmp_path, monkeypatch, dtype):
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    array = features(600, dtype=dtype)
    write(tmp_path, [image(i, "train" if i % 3 else "val") for i in range(600)], {"features.npy": array})
    train = read_split(tmp_path, "train")
    assert isinstance(train.features, np.memmap)
    np.testing.assert_array_equal(train.features, array[[i for i in range(600) if i % 3]])
    assert train.rows == (0, 400, 1)  # of the copy: all of them are scanned
    (copy,) = (tmp_path / "cache" / "splits").iterdir()
    before = copy.stat().st_mtime_ns
    assert fingerprint(read_split(tmp_path, "train")) == fingerprint(train)
    assert copy.stat().st_mtime_ns == before
    assert any(str(copy) in fault.found for fault in train.faults)
    array[1] += 1
    np.save(tmp_path / "features.npy", array)
    os.utime(tmp_path / "features.npy", ns=(1, 1))
    np.testing.assert_array_equal(read_split(tmp_path, "train").features[0], array[1])
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "features.npy"))  # no folder
    assert "CODER_CACHE" in reason(tmp_path)


def test_coco_test_is_the_first_thousand_of_testall(tmp_path):
    images = [image(i, "test", 1) for i in range(1_200)]
    write(tmp_path, images, {"testall_ims.npy": features(1_200, 1, 2)}, dataset="coco")
    assert read_split(tmp_path, "testall").n_images == 1_200
    test = read_split(tmp_path, "test")
    assert (test.n_images, test.n_texts) == (1_000, 1_000)
    assert any("first 1,000" in fault.found for fault in test.faults)


def test_mismatched_files_are_refused_and_only_twenty_faults_printed(tmp_path):
    error = refusal(read_split, write(tmp_path, [image(0, "trian") for _ in range(1_000)], {}), "train")
    assert str(error).count("\n") == 20
    assert len(error.faults) < 30
    write(tmp_path, [image(0), image(1), image(2)], {})
    assert "train_ims.npy" in refusal(read_split, tmp_path, "train").faults[0].expected
    for rows in (2, 4):
        np.save(tmp_path / "train_ims.npy", features(rows))
        assert f"{rows} rows of features for 3 images" in reason(tmp_path)
    (tmp_path / "dataset_other.json").write_text("{}")  # neither is guessed
    assert "dataset_other.json, dataset_small.json" in str(refusal(available_splits, tmp_path))


ODD = [
    *(({k: v for k, v in image(1).items() if k != key}, f".{key}") for key in image(1)),
    (image(0), ".imgid: 0 is also the imgid of images[0]"),
    (image(1, "trian"), ".split: 'trian'"),
    (image(1, captions=0), ".sentences"),
    (image(1, sentences=[{"tokens": ["a"]}]), ".sentences[0].raw"),
    (image(1, sentences=[{"raw": " \n"}]), ".sentences[0].raw"),
    (image(1, sentences=["a dog"]), ".sentences[0]"),
    (image(1, sentences=[{"raw": "a", "sentid": 1}]), ".sentences[0].sentid: 1 is also"),
    (image(1, sentences=[{"raw": "a", "sentid": "1"}]), ".sentences[0].sentid"),
    (image(1, sentences=[{"raw": "a", "imgid": 7}]), ".sentences[0].imgid"),
    (image(1, sentences=[{"raw": "a \ud83d"}]), r".sentences[0].raw: 'a \ud83d'"),
    (image(1) | {"imgid": True}, ".imgid"),
    (image(1, filename=None), ".filename"),
    (image(1, filename="\udc00.jpg"), r".filename: '\udc00.jpg'"),
    (image(1, filepath="\udc00"), r".filepath: '\udc00'"),
    ([], ""),
    # texts that Python's JSON parser accepts
    ('{"images": [{"imgid": 1, "imgid": 2}]}', "the key 'imgid'"),
    ('{"images": [{"imgid": NaN}]}', "NaN"),
    ('{"images": ' + "[" * 100_000 + "]" * 100_000 + "}", "json: "),
    ('{"images": [', "json line 1, column"),
    ("[]", "the file: "),
    ("{}", "the file.images: "),
    ('{"images": []}', "json: images: "),
    ('{"images": [' + "1" * 5000 + "]}", "json: "),
    (b'{"images": "\xff"}', "json line 1, byte 13"),
]


@pytest.mark.parametrize(("content", "part"), ODD)
def test_faults_are_named_by_their_key_or_byte(tmp_path, content, part):
    write(tmp_path, [image(0), "" if isinstance(content, bytes) else content], {"train_ims.npy": features(2)})
    if isinstance(content, str | bytes):
        text = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "dataset_small.json").write_bytes(text)
    else:
        part = f"dataset_small.json: images[1]{part}"
    assert part in reason(tmp_path)


def test_of_a_file_without_any_valid_image_the_first_faults_are_listed(tmp_path):
    write(tmp_path, [{} for _ in range(40)], {"train_ims.npy": features(2)})
    faults = refusal(read_split, tmp_path, "train").faults
    assert len(faults) == MOST_FAULTS_SHOWN + 1
    assert {fault.place.split("images[")[1][0] for fault in faults} > {"0", "1"}


def test_real_flickr8k_is_the_same_in_both_layouts():
    folder = real_flickr8k()
    files = folder / "dataset_flickr8k.json", folder / "f8k_precomp"
    annotated, plain = (read_split(file, "dev", check_values=False) for file in files)
    assert (annotated.n_images, annotated.n_texts) == (1_000, 5_000)
    assert fingerprint(annotated) == fingerprint(plain)
