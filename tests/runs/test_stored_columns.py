"""Files of columns in a run folder from elsewhere: what this program would not write is refused, and named."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from coder_core.console.faults import InputError
from coder_core.data.columns import Column, SampleColumns
from coder_core.files import sealed
from coder_core.runs.analysis.columns import IMAGE_COLUMNS, KINDS_KEY, column_files, read_columns


def written(folder, table, **options):
    """Return a sealed folder whose columns of images are this table."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    sealed.write_sealed(folder, {IMAGE_COLUMNS: sink.getvalue().to_pybytes()})
    return sealed.SealedFolder(folder)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (pa.table({"a": [1.0, 2.0]}), {}, "has 2 rows"),
        (pa.table({"a": [1, 2, 3]}), {}, "has a column of int64"),
        (pa.table({"a": [{"b": 1}] * 3}), {}, "has a column of struct"),
        (pa.table({"a": [[1.0]] * 3}), {}, "has a column of list"),
        (pa.table({"a": [1.0, np.inf, 2.0]}), {}, "column 'a': contains infinity"),
        (pa.table({"a": [["x"], [None], []]}), {}, "column 'a': has lists with missing texts"),
        (pa.table({"a": [1.0] * 3}), {"compression": "zstd"}, "compressed with ZSTD"),
        (pa.table({f"c{n}": [1.0] * 3 for n in range(201)}), {}, "has 201 columns"),
        (pa.table({"": [1.0] * 3}), {}, "without a title"),
        (pa.table([pa.array([1.0] * 3)] * 2, names=["a", "a"]), {}, "has 2 columns"),
    ],
)
def test_other_tables_are_refused(table, options, message, tmp_path):
    with pytest.raises(InputError, match=message) as caught:
        read_columns(written(tmp_path / "a", table, **options), 3, 3)
    assert IMAGE_COLUMNS in str(caught.value)


def test_a_file_that_is_not_parquet_is_refused(tmp_path):
    sealed.write_sealed(tmp_path / "a", {IMAGE_COLUMNS: b"PAR1 nothing PAR1"})
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        read_columns(sealed.SealedFolder(tmp_path / "a"), 3, 3)


def test_a_title_of_both_sides_is_refused(tmp_path):
    column = Column("number", np.zeros(3))
    sealed.write_sealed(tmp_path / "a", column_files(SampleColumns({"a": column}, {"a": column})))
    with pytest.raises(InputError, match="repeats the column 'a'"):
        read_columns(sealed.SealedFolder(tmp_path / "a"), 3, 3)


@pytest.mark.parametrize("kinds", [b"[]", b"not json", b'{"a": "tags"}', b'{"a": 1}', b"[" * 100_000])
def test_unknown_kinds_are_read_as_texts(kinds, tmp_path):
    table = pa.table({"a": ["x", None, "x"]}).replace_schema_metadata({KINDS_KEY: kinds})
    columns = read_columns(written(tmp_path / "a", table), 3, 3)
    assert columns.images["a"].kind == "text"
    assert [columns.images["a"].cell(row) for row in range(3)] == ["x", None, "x"]


def test_a_text_that_repeats_a_million_times_takes_the_memory_of_its_codes(tmp_path):
    """A long text in a dictionary would fill terabytes if every row had a copy."""
    rows = 1_000_000
    column = Column("text", np.zeros(rows, np.int32), ["x" * 9_000])
    sealed.write_sealed(tmp_path / "a", column_files(SampleColumns({"a": column})))
    folder = sealed.SealedFolder(tmp_path / "a")
    assert folder.manifest["files"][IMAGE_COLUMNS]["bytes"] < 100_000
    read = read_columns(folder, rows, 0).images["a"]
    assert read.labels == ["x" * 9_000]
    assert read.values.nbytes == 4 * rows


def test_labels_that_no_sample_has_are_not_stored(tmp_path):
    column = Column("category", np.array([2, -1, 2], np.int32), ["a", "b", "c"])
    files = column_files(SampleColumns({"a": column}))
    sealed.write_sealed(tmp_path / "a", files)
    read = read_columns(sealed.SealedFolder(tmp_path / "a"), 3, 0).images["a"]
    assert (read.kind, read.labels, read.values.tolist()) == ("category", ["c"], [0, -1, 0])
    kinds = pq.ParquetFile(pa.BufferReader(files[IMAGE_COLUMNS])).metadata.metadata[KINDS_KEY]
    assert json.loads(kinds) == {"a": "category"}
