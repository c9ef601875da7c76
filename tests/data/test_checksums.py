"""Checksums of a split follow from all its values, are kept while the file is unchanged, and never outlive a change."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coder_core.data import split as checksums
from coder_core.data.dataset import read_split
from coder_core.data.split import split_checksums
from tests.support.precomp_folders import features, write_split


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """Numbers of rows hashed, call by call."""
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("coder_core.files.cache.SETTLED_NS", 0)
    counts: list[int] = []
    hash_rows = checksums._hash
    monkeypatch.setattr(
        checksums, "_hash", lambda rows, tell: (counts.append(len(rows)), hash_rows(rows, tell))[1]
    )
    return counts


def of(folder: Path) -> dict[str, str]:
    return split_checksums(read_split(folder, "train"))


def test_every_value_counts_and_no_place_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "PIECE_BYTES", 100)
    array = features(images=200)
    base = of(write_split(tmp_path / "a", array=array))
    assert of(write_split(tmp_path / "b", array=array)) == base
    assert of(write_split(tmp_path / "c", array=np.asfortranarray(array))) == base
    for row in range(0, 200, 7):
        array[row, -1, -1] += 1
        changed = of(write_split(tmp_path / "d", array=array))
        array[row, -1, -1] -= 1
        assert changed["features"] != base["features"]
        assert changed["captions"] == base["captions"]


def test_an_unchanged_file_is_read_once_and_a_changed_one_again(tmp_path: Path, read: list[int]) -> None:
    folder = write_split(tmp_path / "data", array=features(images=6))
    first = of(folder)
    assert of(folder) == first
    assert read == [6]
    file = folder / "train_ims.npy"
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    rows: Any = np.lib.format.open_memmap(file, mode="r+")
    rows[3, 0, 0] += 1
    rows.flush()
    os.utime(file, ns=times)  # as before: the time of change of the inode tells
    assert of(folder)["features"] != first["features"]
    assert read == [6, 6]


def test_a_damaged_or_unwritable_cache_costs_time_only(tmp_path: Path, read: list[int]) -> None:
    folder = write_split(tmp_path / "data", array=features(images=6))
    first = of(folder)
    (kept,) = (tmp_path / "cache" / "checksums").iterdir()
    kept.write_bytes(b"\xff\x00")
    assert of(folder) == first
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("a file stands here")
    assert of(folder) == first
    assert read == [6, 6, 6]


def test_a_file_that_has_just_changed_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODER_CACHE", str(tmp_path / "cache"))
    started = time.monotonic()
    of(write_split(tmp_path / "data"))
    assert not (tmp_path / "cache" / "checksums").exists() or time.monotonic() - started > 2
