"""Columns besides pictures and captions: kept from every layout with records, typed, and named if they are left out."""

import csv
import json
import warnings
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import coder_core
from coder_core.console.faults import InputError
from coder_core.data import column_values
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.column_values import RawColumns
from coder_core.data.columns import SampleColumns
from coder_core.embedding.tables import read_table
from coder_core.evaluation.sampled import ALL, RankOptions
from coder_core.runs.analysis.import_embeddings import import_run, rank_imported
from coder_core.runs.analysis.read import open_analysis
from tests.support.picture_folders import add_to_tar, draw

ROWS = 6
IMAGES = np.arange(ROWS)


def typed(values, owners=IMAGES, images=ROWS):
    """Return the typed column of these values, one per caption, and the notes."""
    raw = RawColumns()
    raw.add_column("column", values)
    columns, notes = raw.typed(np.asarray(owners), images, "here")
    return {**columns.images, **columns.captions}.get("column"), " ".join(note.found for note in notes)


def cells(column):
    """Return the values of all samples."""
    return [column.cell(row) for row in range(len(column))]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (["1", "2.5", "", "-3e2", "n/a", "0"], "number", [1, 2.5, None, -300, None, 0]),
        ([1, 2.5, None, 3, 4, 5], "number", [1, 2.5, None, 3, 4, 5]),
        (["007", "008", "009", "007", "1", "2"], "category", ["007", "008", "009", "007", "1", "2"]),
        ([2**60, 2**60, 1, 1, 1, 1], "category", [str(2**60)] * 2 + ["1"] * 4),
        ([True, False, None, True, True, True], "category", ["true", "false", None, "true", "true", "true"]),
        (
            [
                "2026-05-31",
                "2026-05-31T10:00",
                "",
                "2026-05-31T10:00+02:00",
                "2026-05-31 10:00:00 UTC",
                "null",
            ],
            "date",
            [
                datetime(2026, 5, 31),
                datetime(2026, 5, 31, 10),
                None,
                datetime(2026, 5, 31, 8),
                datetime(2026, 5, 31, 10),
                None,
            ],
        ),
        (
            [["new", "sale"], [], None, ["sale"], "old", ["new", "new"]],
            "tags",
            [["new", "sale"], None, None, ["sale"], ["old"], ["new"]],
        ),
        (
            ['["a", "b"]', "[]", '["b"]', "", '["a"]', '["c"]'],
            "tags",
            [["a", "b"], None, ["b"], None, ["a"], ["c"]],
        ),
        (
            ["sale|new", "sale", "new|sale", "sale", "", "new"],
            "tags",
            [["sale", "new"], ["sale"], ["new", "sale"], ["sale"], None, ["new"]],
        ),
        (["31.05.2026"] * 6, "category", ["31.05.2026"] * 6),
        (["inf", "1", "2", "3", "4", "5"], "category", ["inf", "1", "2", "3", "4", "5"]),
        (
            [f"{number} " + "long " * 30 for number in range(6)],
            "text",
            [f"{n} " + "long " * 29 + "long" for n in range(6)],
        ),
    ],
)
def test_the_kind_follows_from_all_values(values, kind, expected):
    column, _ = typed(values)
    assert column.kind == kind
    assert cells(column) == expected
    assert column.present.tolist() == [value is not None for value in expected]
    taken = column.take(np.array([5, 0, 0]))
    assert cells(taken) == [expected[5], expected[0], expected[0]]
    assert len(column.series()) == ROWS


def test_guesses_and_odd_values_are_named():
    values = [str(number) for number in range(99)] + ["12 EUR"]
    column, notes = typed(values, np.arange(100), 100)
    assert column.kind == "text"
    assert "1 of 100 values are not numbers, such as '12 EUR'" in notes
    assert "separated by ;" in typed(["a;b", "b;a", "a", "b", "a;b", "a"])[1]
    assert "1 values of more than 10,000 characters are cut" in typed(["x" * 20_000, *"abcde"])[1]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": 1}, "objects within objects"),
        ([0.5, 0.25], "lists of numbers"),
        ([["a"]], "lists within lists"),
        (b"x", "values of type bytes"),
        ("half \ud800", "half a character"),
        ("", "no values"),
    ],
)
def test_what_cannot_be_kept_is_named_with_the_reason(value, reason):
    column, notes = typed([value] * ROWS)
    assert column is None
    assert f"columns not kept: 'column' ({reason}" in notes


def test_at_most_200_columns_are_kept():
    raw = RawColumns()
    for _ in range(2):
        raw.add({f"c{number}": number for number in range(203)} | {"": 1, "t" * 101: 1})
    columns, notes = raw.typed(np.arange(2), 2, "here")
    assert len(columns.images) == 200
    assert "'c200', 'c201', 'c202' (more than 200 columns)" in notes[1].found
    assert "'' (no title)" in notes[1].found
    assert "(a title of more than 100 characters)" in notes[1].found


def test_a_column_belongs_to_images_unless_captions_of_one_differ():
    raw = RawColumns()
    raw.add_column("brand", ["Acme", None, "Bolt", "Bolt"])
    raw.add_column("annotator", ["x", "y", "x", "x"])
    columns, _ = raw.typed(np.array([0, 0, 1, 1]), 2, "here")
    assert cells(columns.images["brand"]) == ["Acme", "Bolt"]
    assert cells(columns.captions["annotator"]) == ["x", "y", "x", "x"]
    assert columns.images["brand"].group_numbers().tolist() == [0, 1]
    of_captions = columns.of_captions(np.array([0, 0, 1, 1]))
    assert cells(of_captions["brand"]) == ["Acme", "Acme", "Bolt", "Bolt"]


ITEMS = [
    {"brand": ["Acme", "Bolt"][n % 2], "price": n + 0.5, "tags": ["new"] if n % 2 else ["old", "new"]}
    for n in range(ROWS)
]


def write_csv(folder):
    with (folder / "catalogue.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["", "image", "title", "brand", "price", "tags"])  # as pandas writes an index
        for n, item in enumerate(ITEMS):
            table.writerow(
                [n, f"{n}.jpg", f"a thing number {n}", item["brand"], item["price"], "|".join(item["tags"])]
            )


def write_json_lines(folder):
    rows = [{"file_name": f"{n}.jpg", "text": f"a thing number {n}"} | item for n, item in enumerate(ITEMS)]
    (folder / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))


def write_parquet(folder):
    named = [{"file_name": f"{n}.jpg", "text": f"a thing number {n}"} | item for n, item in enumerate(ITEMS)]
    table = pa.Table.from_pylist(named).append_column("vector", pa.array([[0.5, 1.0]] * ROWS))
    pq.write_table(table, folder / "metadata.parquet")


def write_packed_parquet(folder):
    rows = [
        {"image": {"bytes": draw(n), "path": f"{n}.jpg"}, "text": f"a thing number {n}"} | item
        for n, item in enumerate(ITEMS)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "train.parquet")


def write_tar(folder):
    import tarfile

    with tarfile.open(folder / "train-0.tar", "w") as tar:
        for n, item in enumerate(ITEMS):
            add_to_tar(tar, f"{n}.jpg", draw(n))
            add_to_tar(tar, f"{n}.txt", f"a thing number {n}".encode())
            add_to_tar(tar, f"{n}.json", json.dumps({"caption": "not read", **item}).encode())


def write_coco(folder):
    images = [{"id": n, "file_name": f"{n}.jpg", **item} for n, item in enumerate(ITEMS)]
    captions = [
        {"id": 10 + n, "image_id": n, "caption": f"a thing number {n}", "by": "me"} for n in range(ROWS)
    ]
    (folder / "captions_train.json").write_text(json.dumps({"images": images, "annotations": captions}))


@pytest.mark.parametrize(
    "write", [write_csv, write_json_lines, write_parquet, write_packed_parquet, write_tar, write_coco]
)
def test_layouts_with_records_keep_their_columns(write, tmp_path):
    write(tmp_path)
    for n in range(ROWS):
        if write not in (write_packed_parquet, write_tar):
            (tmp_path / f"{n}.jpg").write_bytes(draw(n))
    data = read_captioned(tmp_path)
    found = {}
    for split in data.splits:
        columns = {**split.columns.images, **split.columns.captions}
        for image, name in enumerate(split.image_names):
            number = int(name.rpartition("/")[2].split(".")[0])
            found[number] = {title: columns[title].cell(image) for title in ("brand", "price", "tags")}
    assert found == dict(enumerate(ITEMS))
    notes = " ".join(fault.found for fault in data.faults)
    assert "brand (category), price (number), tags (tags)" in notes
    assert ("'' (no title)" in notes) == (write is write_csv)
    assert ("'vector' (vectors)" in notes) == (write is write_parquet)
    assert not any(fault.severity == "error" for fault in data.faults)


def units(count, seed):
    rows = np.random.default_rng(seed).normal(size=(count, 4)).astype("f4")
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def stored(folder, split="dev"):
    return open_analysis(folder, split, verify=True).columns


def test_columns_of_an_imported_table_are_stored_with_the_analysis(tmp_path):
    rows = [
        {"text": f"a thing number {n}", "file": f"{n // 2}.jpg", "by": f"by {n % 2}", **ITEMS[n // 2]}
        for n in range(ROWS)
    ]
    table = pa.Table.from_pylist(rows)
    images = np.repeat(units(3, 0), 2, axis=0)
    table = table.append_column("image_embedding", pa.array(images.tolist()))
    table = table.append_column("text_embedding", pa.array(units(ROWS, 1).tolist()))
    pq.write_table(table, tmp_path / "table.parquet")
    embeddings = read_table(tmp_path / "table.parquet")
    for queries in (ALL, 0):  # without queries, the split waits for a ranking
        folder, _ = import_run(embeddings, tmp_path, f"run-{queries}", "dev", options=RankOptions(queries))
        rank_imported(folder, "dev", RankOptions(ALL))
        columns = stored(folder)
        assert [cells(columns.images[title]) for title in ITEMS[0]] == [
            [item[title] for item in ITEMS[:3]] for title in ITEMS[0]
        ]
        assert cells(columns.captions["by"]) == ["by 0", "by 1"] * 3
        assert [columns.images[title].kind for title in ITEMS[0]] == ["category", "number", "tags"]


def test_log_split_takes_a_table_of_images_or_of_captions(tmp_path):
    frame = pd.DataFrame(ITEMS[:3]).assign(
        when=pd.to_datetime(["2026-01-02", None, "2026-03-04"]), raw=[{}, {}, {}]
    )
    named = {"captions": [f"a thing number {n}" for n in range(ROWS)]}
    with pytest.warns(UserWarning, match=r"'raw' \(objects within objects\)"):
        coder_core.log_split(tmp_path / "a", "dev", units(3, 0), units(ROWS, 1), columns=frame, **named)
    columns = stored(tmp_path / "a")
    assert cells(columns.images["price"]) == [0.5, 1.5, 2.5]
    assert cells(columns.images["when"]) == [datetime(2026, 1, 2), None, datetime(2026, 3, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        by = {"by": list("xyzxyz"), "price": [0.5, 0.5, 1.5, 1.5, np.nan, 2.5]}
        coder_core.log_split(tmp_path / "b", "dev", units(3, 0), units(ROWS, 1), columns=by, **named)
    columns = stored(tmp_path / "b")
    assert cells(columns.captions["by"]) == list("xyzxyz")
    assert cells(columns.images["price"]) == [0.5, 1.5, 2.5]
    with pytest.raises(InputError, match="columns: have 4 rows"):
        coder_core.log_split(
            tmp_path / "c", "dev", units(3, 0), units(ROWS, 1), columns=frame.iloc[[0, 0, 1, 2]], **named
        )


def test_a_run_without_columns_has_none(tmp_path):
    coder_core.log_split(
        tmp_path / "a", "dev", units(ROWS, 0), units(ROWS, 1), captions=[f"thing {n}" for n in range(ROWS)]
    )
    assert stored(tmp_path / "a") == SampleColumns()


@pytest.mark.parametrize(("length", "kind"), [(60, "tags"), (61, "category")])
def test_tags_have_at_most_60_characters(length, kind):
    long = "x" * length
    column, _ = typed([f"{long};b", f"b;{long}", f"{long};b", "b", "b", "b"])
    assert column.kind == kind


def test_so_many_columns_that_are_left_out_are_remembered(monkeypatch):
    monkeypatch.setattr(column_values, "MOST_LEFT_OUT", 2)
    raw = RawColumns()
    for title in ("", " ", "  ", "   "):
        raw.add_column(title, ["1"])
    assert list(raw.left_out) == ["", " "]
