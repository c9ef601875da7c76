"""Pictures inside tar, parquet and text files: recorded with an analysis, opened again, and refused if they changed."""

import base64
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.data.captioned.positions import (
    Base64Members,
    Files,
    ParquetRows,
    TarMembers,
    note_packed,
    open_packed,
)
from tests.support.picture_folders import draw
from tests.support.precomp_folders import assert_refused

NAMES = [f"{number}.jpg" for number in range(5)]
CONTENTS = [draw(number) for number in range(5)]


def joined(file, contents):
    """Write contents one after the other, behind four bytes, and return (offset, bytes) of each."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"head" + b"".join(contents))
    starts = np.cumsum([4, *map(len, contents)])
    return [(int(start), len(content)) for start, content in zip(starts, contents, strict=False)]


def in_tar(folder):
    files = [folder / "x" / "0.tar", folder / "y" / "1.tar"]
    first = joined(files[0], CONTENTS[:2])
    second = joined(files[1], CONTENTS[2:])
    places = [(0, *place) for place in first] + [(1, *place) for place in second]
    return TarMembers(files, NAMES, np.array(places))


def in_tsv(folder):
    encoded = [base64.urlsafe_b64encode(content).rstrip(b"=") for content in CONTENTS]
    file = folder / "train_imgs.tsv"
    return Base64Members([file], NAMES, np.array([(0, *place) for place in joined(file, encoded)]))


def in_parquet(folder):
    """Write row groups of two rows."""
    file = folder / "train.parquet"
    rows = [
        {"image": {"bytes": content, "path": name}} for content, name in zip(CONTENTS, NAMES, strict=True)
    ]
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=2)
    return ParquetRows([file], NAMES, np.array([(0, row // 2, row % 2) for row in range(5)]))


@pytest.mark.parametrize("pack", [in_tar, in_tsv, in_parquet])
def test_pictures_are_read_in_any_order_and_from_the_record_of_some(tmp_path, pack):
    store = pack(tmp_path)
    for image in (0, 1, 4, 3, 0, 2, 2):
        assert store.read(image) == CONTENTS[image]
    assert store.missing([0, 4]) == []
    chosen = np.array([4, 1, 3])
    document, positions = note_packed(store, chosen)
    opened = open_packed(document, positions, [NAMES[row] for row in chosen], "pictures.json")
    for row, image in enumerate(chosen):
        assert opened.read(row) == CONTENTS[image]
        assert opened.state(row) == store.state(image)
        assert opened.place(row) == store.place(image)
    assert opened.missing(range(3)) == []


def test_files_are_not_packed_and_a_record_names_the_files_that_it_uses(tmp_path):
    assert note_packed(Files(tmp_path, NAMES), np.arange(5)) is None
    document, positions = note_packed(in_tar(tmp_path), np.array([3, 2]))
    assert (document["kind"], document["folder"]) == ("tar", str(tmp_path.resolve()))
    size = 4 + sum(map(len, CONTENTS[2:]))
    assert document["files"] == [{"name": "y/1.tar", "bytes": size}]
    assert positions[:, 0].tolist() == [0, 0]


def test_a_changed_missing_or_linked_file_is_not_read(tmp_path):
    store = in_tar(tmp_path / "data")
    document, positions = note_packed(store, np.arange(5))
    opened = open_packed(document, positions, NAMES, "pictures.json")
    size = store.files[0].stat().st_size
    store.files[0].write_bytes(store.files[0].read_bytes() + b"x")
    changed = f"has {size + 1:,} bytes; expected {size:,} bytes, as when the run was written"
    assert_refused(changed, opened.read, 0)
    store.files[0].unlink()
    assert_refused("0.tar: there is no such file", opened.read, 1)
    assert opened.missing(range(5)) == [0, 1]
    assert opened.state(0) == (0, 0)
    shutil.move(store.files[1], tmp_path / "elsewhere.tar")
    store.files[1].symlink_to(tmp_path / "elsewhere.tar")
    assert opened.missing(range(5)) == [0, 1, 2, 3, 4]
    assert_refused("1.tar", opened.read, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 99}, "of version 99"),
        ({"kind": "zip"}, "kind 'zip'"),
        ({"folder": "data"}, "key folder: is 'data'; expected an absolute path"),
        ({"files": [{"name": "x/0.zip", "bytes": 1}]}, "key files: names 'x/0.zip'; expected a .tar file"),
        ({"files": [{"bytes": 1}]}, "key files: names 'None'"),
        ({"files": [{"name": "x/0.tar", "bytes": -1}]}, "key bytes: is -1"),
        ({"files": [{"name": "x/0.tar", "bytes": 1}]}, "names 1 files; expected one for every file number"),
        ({"files": 7}, "key files: is 7"),
    ],
)
def test_records_that_no_run_writes_are_refused(tmp_path, change, message):
    document, positions = note_packed(in_tar(tmp_path), np.arange(5))
    assert_refused(message, open_packed, document | change, positions, NAMES, "pictures.json")
    assert_refused("names 2 files", open_packed, document, positions - 1, NAMES, "pictures.json")
    empty = document | {"files": [{"name": "x/0.tar", "bytes": 0}]}
    assert open_packed(empty, positions[:0], [], "pictures.json").missing([]) == []


def test_rows_that_a_file_does_not_have_are_named(tmp_path):
    store = in_parquet(tmp_path)
    for position, message in (
        ((0, 3, 0), "train.parquet row group 3 row 0: the file has no such row group of pictures"),
        ((0, 2, 1), "row group 2 row 1: cannot be read: its row group has fewer rows"),
    ):
        store.positions[0] = position
        assert_refused(message, store.read, 0)
    assert store.read(4) == CONTENTS[4]
    nothing = pa.table({"image": pa.array([None, b""], pa.binary())})
    pq.write_table(nothing, tmp_path / "empty.parquet")
    empty = ParquetRows([tmp_path / "empty.parquet"], NAMES[:2], np.array([(0, 0, 0), (0, 0, 1)]))
    assert_refused("has no bytes: a path alone is not read", empty.read, 0)
    assert_refused("has 0 bytes", empty.read, 1)


def test_pieces_outside_a_file_and_other_texts_are_named(tmp_path):
    store = in_tar(tmp_path)
    size = store.files[1].stat().st_size
    store.positions[4] = (1, size - 5, 9)
    assert_refused("has 5 of its 9 bytes", store.read, 4)
    store.positions[4] = (1, 0, 0)
    assert_refused("has 0 bytes", store.read, 4)
    texts = in_tsv(tmp_path)
    texts.files[0].write_bytes(b"!" * texts.files[0].stat().st_size)
    assert_refused("is not base64", texts.read, 0)
