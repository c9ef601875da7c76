"""The door: layouts, split names, fingerprints, and memory."""

import numpy as np
import psutil
import pytest

from coder_core.data.dataset import available_splits, read_split
from coder_core.data.split import Split, compare_splits, fingerprint
from tests.support.precomp_folders import features, refusal, write_split


@pytest.mark.parametrize("inner", ["", "precomp", "f30k_precomp"])
def test_the_folder_or_its_parent(tmp_path, inner):
    write_split(tmp_path / inner)
    assert available_splits(tmp_path) == ["train"]
    assert read_split(str(tmp_path), "train").n_images == 4
    assert read_split(tmp_path / inner, "train").n_images == 4


def test_splits_are_listed_train_first(tmp_path):
    for name in ("testall", "test", "dev", "train"):
        write_split(tmp_path, name)
    (tmp_path / "we\x1b[31mird_ims.npy").write_bytes(b"")
    (tmp_path / "..\n_caps.txt").write_bytes(b"")
    assert available_splits(tmp_path) == ["train", "dev", "test", "testall"]


def test_dev_and_val_are_one_name(tmp_path):
    write_split(tmp_path, "val")
    assert read_split(tmp_path, "dev").n_images == 4


def test_a_split_that_is_not_there_names_those_that_are(tmp_path):
    write_split(tmp_path)
    write_split(tmp_path, "dev")
    for name in ("test", "../train", "", "*"):
        assert "expected one of dev, train" in str(refusal(read_split, tmp_path, name))


def test_test_is_the_first_thousand_of_testall(tmp_path):
    array = features(1_200, 1, 2)
    ids = [f"{row // 2}.jpg" for row in range(2_400)]
    write_split(
        tmp_path, "testall", array=array, captions=[f"caption {row}" for row in range(2_400)], ids=ids
    )
    test = read_split(tmp_path, "test")
    assert (test.n_images, test.n_texts, len(test.image_names)) == (1_000, 2_000, 1_000)
    np.testing.assert_array_equal(test.features, array[:1_000])
    assert any('first 1,000 images of "testall"' in fault.found for fault in test.faults)
    write_split(tmp_path, "test", array=array[:10])
    assert read_split(tmp_path, "test").n_images == 10


def test_a_missing_half_is_named(tmp_path):
    write_split(tmp_path)
    (tmp_path / "train_caps.txt").unlink()
    assert "train_caps.txt: the file is missing" in str(refusal(read_split, tmp_path, "train"))


def test_nothing_and_too_much(tmp_path):
    assert "no data set" in str(refusal(read_split, tmp_path, "train"))
    assert "there is no such folder" in str(refusal(available_splits, tmp_path / "none"))
    (tmp_path / "file").write_text("")
    assert "not a folder" in str(refusal(available_splits, tmp_path / "file"))
    write_split(tmp_path / "coco_precomp")
    write_split(tmp_path / "f30k_precomp")
    assert "several data sets: coco_precomp, f30k_precomp" in str(refusal(available_splits, tmp_path))


def test_the_fingerprint_knows_values_captions_and_pairing(tmp_path):
    base = fingerprint(read_split(write_split(tmp_path), "train"))
    assert base == fingerprint(read_split(write_split(tmp_path), "train"))
    array = features()
    array[3, 2, 4] += 1
    changed = [
        write_split(tmp_path / "a", array=array),
        write_split(tmp_path / "b", array=features(dtype="<f8")),
        write_split(tmp_path / "c", captions=[f"a cat number {row} runs" for row in range(8)]),
        write_split(tmp_path / "d", ids=list("aabbccdd")),
        write_split(tmp_path / "e", ids=list("aaabccdd")),
    ]
    prints = [fingerprint(read_split(folder, "train")) for folder in changed]
    assert prints[3] == base  # the same pairing, named
    assert len({base, *prints}) == 5


def test_splits_must_agree_and_not_share_images(tmp_path):
    train = read_split(write_split(tmp_path, ids=["a", "b", "c", "d"]), "train")
    dev = read_split(write_split(tmp_path, "dev", array=features(size=6), ids=["x", "b", "y", "d"]), "dev")
    size, shared = compare_splits([train, dev])
    assert (size.severity, size.place) == ("error", "dev and train")
    assert "6 and 5 numbers a region" in size.found
    assert shared.severity == "warning"
    assert "2 images are in both; the first: 'b', 'd'" in shared.found
    assert compare_splits([]) == []


def test_row_numbers_as_ids_are_no_shared_images(tmp_path):
    train = read_split(write_split(tmp_path, ids=list("0123")), "train")
    dev = read_split(write_split(tmp_path, "dev", ids=list("0123")), "dev")
    assert compare_splits([train, dev]) == []


def test_other_region_counts_are_a_note():
    def split(name, regions):
        return Split(name, features(3, regions), ["a"] * 3, np.arange(3))

    (note,) = compare_splits([split("train", 36), split("dev", 10)])
    assert note.severity == "note"


def test_large_features_are_never_loaded_whole(tmp_path):
    """256 MiB of features, read and scanned, must not stay in memory."""
    images = 4_096
    shape = (images, 16, 1_024)
    array = np.lib.format.open_memmap(tmp_path / "train_ims.npy", mode="w+", dtype="<f4", shape=shape)
    for row in range(0, images, 256):
        array[row : row + 256] = 1
    del array
    (tmp_path / "train_caps.txt").write_text("a dog runs\n" * images)
    process = psutil.Process()
    before = process.memory_info().rss
    split = read_split(tmp_path, "train")
    assert process.memory_info().rss - before < 128 * 2**20
    assert split.features.nbytes == 256 * 2**20
