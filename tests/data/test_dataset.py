"""Data sets of features: layouts, split names, fingerprints, checksums, and memory."""

import os
import time

import numpy as np
import psutil

from coder_core.data import split as checksums
from coder_core.data.dataset import available_splits, leaves, read_split
from coder_core.data.split import Split, compare_splits, fingerprint, split_checksums
from tests.support.precomp_folders import features, reason, refusal, write_split


def test_test_is_the_first_thousand_of_testall(tmp_path):
    array = features(1_200, 1, 2)
    captions, ids = ([f"{name} {row // each}" for row in range(2_400)] for name, each in (("a", 1), ("b", 2)))
    write_split(tmp_path, "testall", array=array, captions=captions, ids=ids)
    test = read_split(tmp_path, "test")
    assert (test.n_images, test.n_texts, len(test.image_names)) == (1_000, 2_000, 1_000)
    np.testing.assert_array_equal(test.features, array[:1_000])
    assert any("1,000" in fault.found for fault in test.faults)
    write_split(tmp_path, "test", array=array[:10])
    assert read_split(tmp_path, "test").n_images == 10


def test_splits_are_listed_train_first_and_missing_files_named(tmp_path):
    assert str(tmp_path) in reason(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("none", "file"):
        assert refusal(available_splits, tmp_path / name).faults[0].place == str(tmp_path / name)
    write_split(tmp_path / "coco_precomp")
    (tmp_path / "coco_precomp" / "train_caps.txt").unlink()
    assert "train_caps.txt: the file is missing" in reason(tmp_path / "coco_precomp")
    write_split(tmp_path / "f30k_precomp")
    assert "coco_precomp, f30k_precomp" in str(refusal(available_splits, tmp_path))
    for inner in ("", "precomp", "f30k_precomp"):  # the folder, or its parent
        folder = tmp_path / f"in {inner}"
        for name in ("testall", "test", "val", "train"):
            write_split(folder / inner, name)
        (folder / inner / "we\x1b[31mird_ims.npy").write_bytes(b"")
        (folder / inner / "..\n_caps.txt").write_bytes(b"")
        for path in (folder, folder / inner):
            assert available_splits(path) == ["train", "val", "test", "testall"]
            assert read_split(str(path), "dev").n_images == 4
        for name in ("extra", "../train", "", "*"):
            assert "test, testall, train, val" in refusal(read_split, folder, name).faults[0].expected


def test_fingerprints_depend_on_every_value_but_not_on_the_path(tmp_path, monkeypatch):
    array = features()
    array[3, 2, 4] += 1
    changes = ({}, {}, {"ids": "aabbccdd"}, {"array": array}, {"array": features(dtype="<f8")})
    changes += ({"captions": [f"a cat number {row} runs" for row in range(8)]}, {"ids": "aaabccdd"})
    folders = [write_split(tmp_path / f"{k}", **values) for k, values in enumerate(changes)]
    prints = [fingerprint(read_split(folder, "train")) for folder in folders]
    assert prints[0] == prints[1] == prints[2]  # the same pairing, named
    assert len(set(prints)) == 5
    monkeypatch.setattr(checksums, "PIECE_BYTES", 100)
    array = features(images=100)
    base = checksum(write_split(tmp_path / "a", array=array))
    assert checksum(write_split(tmp_path / "b", array=array)) == base
    assert checksum(write_split(tmp_path / "c", array=np.asfortranarray(array))) == base
    for row in range(0, 100, 13):
        array[row, -1, -1] += 1
        changed = checksum(write_split(tmp_path / "d", array=array))
        array[row, -1, -1] -= 1
        assert changed["features"] != base["features"]
        assert changed["captions"] == base["captions"]


def test_splits_must_agree_and_not_share_images(tmp_path):
    def splits(train_ids, dev_ids, size=5):
        write_split(tmp_path, ids=train_ids)
        write_split(tmp_path, "dev", array=features(size=size), ids=dev_ids)
        return [read_split(tmp_path, name) for name in ("train", "dev")]

    size, shared = compare_splits(splits("abcd", "xbyd", size=6))
    assert (size.severity, size.place) == ("error", "dev and train")
    assert "6 and 5 numbers per region" in size.found
    assert (shared.severity, "'b', 'd'" in shared.found) == ("warning", True)
    assert compare_splits(splits("0123", "0123")) == compare_splits([]) == []  # row numbers are not names
    regions = (Split(str(count), features(3, count), ["a"] * 3, np.arange(3)) for count in (36, 10))
    assert [fault.severity for fault in compare_splits([*regions])] == ["note"]


def test_links_out_of_the_root_are_found_in_deep_folders(tmp_path):
    root = tmp_path / "root"
    outside = write_lines_in(tmp_path / "outside", "a.txt")
    inner = write_lines_in(root / "data/train/part", "a.txt")
    (inner / "pictures").symlink_to(write_lines_in(tmp_path / "pictures", "a.jpg"))
    assert not leaves(root / "data", root)
    link = inner / "b.txt"
    link.symlink_to(outside / "a.txt")
    assert leaves(root / "data", root)
    link.unlink()
    (inner / "captions").symlink_to(outside)
    assert leaves(root / "data", root)


def write_lines_in(folder, name):
    folder.mkdir(parents=True)
    (folder / name).write_text("a dog\n")
    return folder


def test_large_features_are_never_loaded_into_memory(tmp_path):
    """128 MiB of features, read and scanned, must not stay in memory."""
    shape = (2_048, 16, 1_024)
    array = np.lib.format.open_memmap(tmp_path / "train_ims.npy", mode="w+", dtype="<f4", shape=shape)
    array[:] = 1
    del array
    (tmp_path / "train_caps.txt").write_text("a dog runs\n" * shape[0])
    process = psutil.Process()
    before = process.memory_info().rss
    split = read_split(tmp_path, "train")
    assert process.memory_info().rss - before < 64 * 2**20
    assert split.features.nbytes == 128 * 2**20


def checksum(folder):
    return split_checksums(read_split(folder, "train"))


def test_checksums_are_cached_and_computed_again_after_changes_or_damage(tmp_path, monkeypatch):
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    started = time.monotonic()
    folder = write_split(tmp_path / "data", array=features(images=6))
    first = checksum(folder)  # not cached, as the file has just changed
    cache = tmp_path / "cache" / "checksums"
    assert not cache.exists() or time.monotonic() - started > 2
    monkeypatch.setattr("coder_core.files.atomic.SETTLED_NS", 0)
    reads = []
    hash_rows = checksums._hash
    monkeypatch.setattr(checksums, "_hash", lambda rows, bar: reads.append(1) or hash_rows(rows, bar))
    assert checksum(folder) == checksum(folder) == first
    assert len(reads) == 1
    (cached,) = cache.iterdir()
    cached.write_bytes(b"\xff\x00")
    assert checksum(folder) == first
    cached.unlink()
    cache.rmdir()
    cache.write_text("a file in its place")
    assert checksum(folder) == first
    assert len(reads) == 3
    cache.unlink()
    checksum(folder)
    file = folder / "train_ims.npy"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    rows = np.lib.format.open_memmap(file, mode="r+")
    rows[3, 0, 0] += 1
    rows.flush()
    os.utime(file, ns=times)  # restored; only the inode's change time differs
    assert checksum(folder)["features"] != first["features"]
    assert len(reads) == 5
