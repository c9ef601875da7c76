"""The user's columns of a split, stored as two Parquet files in a sealed folder: those of images and of captions.

A run folder may come from a stranger, so sizes, types and codecs are compared with what this program writes before
values are read, and texts are read as codes of their different values, however often these repeat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from coder_core.console.faults import InputError
from coder_core.data.columns import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    MISSING,
    MOST_COLUMNS,
    NO_COLUMNS,
    Column,
    Kind,
    SampleColumns,
)
from coder_core.files import sealed

if TYPE_CHECKING:  # functions import Arrow, so that opening a run is fast
    import pyarrow as pa
    import pyarrow.parquet as pq

IMAGE_COLUMNS = "image_columns.parquet"
CAPTION_COLUMNS = "caption_columns.parquet"
FILES = (IMAGE_COLUMNS, CAPTION_COLUMNS)
MOST_BYTES = 1 << 30  # of a file, and of its declared values
MOST_TAGS = 1 << 28  # of a column
CODECS = ("SNAPPY", "UNCOMPRESSED")  # others unpack a few bytes into any number
KINDS_KEY = b"coder_lab_kinds"
_LABELLED: tuple[Kind, ...] = ("category", "text")
_EXPECTED = "columns of numbers, texts, dates and lists of texts"
_FIX = "evaluate or embed the split again"


def column_files(columns: SampleColumns) -> dict[str, bytes]:
    """Return the files of a split's columns, name → content; {} without any."""
    parts = {IMAGE_COLUMNS: columns.images, CAPTION_COLUMNS: columns.captions}
    return {name: _parquet(of_part) for name, of_part in parts.items() if of_part}


def _parquet(columns: Mapping[str, Column]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({title: arrow_column(column) for title, column in columns.items()})
    kinds = {title: column.kind for title, column in columns.items()}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, store_schema=False, compression="snappy") as writer:
        writer.write_table(table, row_group_size=max(1, len(table)))
        writer.add_key_value_metadata({KINDS_KEY: json.dumps(kinds)})
    return cast(bytes, sink.getvalue().to_pybytes())


def arrow_column(column: Column) -> pa.Array:
    """Return a column as an Arrow array, without labels that no sample has."""
    import pyarrow as pa

    if column.kind in ("number", "date"):
        return pa.array(column.values, from_pandas=True)
    used, values = np.unique(column.values, return_inverse=True)
    missing = int((used == MISSING).sum())  # 1 or 0, the first of `used`
    labels = [column.labels[label] for label in used[missing:].tolist()]
    codes = values.astype(np.int32) - missing
    indices = pa.array(codes, mask=codes == MISSING)
    dictionary = pa.DictionaryArray.from_arrays(indices, pa.array(labels, pa.string()))
    if column.starts is None:
        return dictionary
    return pa.LargeListArray.from_arrays(pa.array(column.starts), dictionary)


def read_columns(folder: sealed.SealedFolder, images: int, captions: int) -> SampleColumns:
    """Read the columns in a sealed folder; none if it has no such files. InputError: a file is damaged, too large, or
    does not have one row per image or caption."""
    present = [name for name in FILES if name in folder.manifest["files"]]
    if not present:
        return NO_COLUMNS
    counts = {IMAGE_COLUMNS: images, CAPTION_COLUMNS: captions}
    parts = {name: _read_file(folder, name, counts[name]) for name in present}
    columns = SampleColumns(parts.get(IMAGE_COLUMNS, {}), parts.get(CAPTION_COLUMNS, {}))
    if both := columns.images.keys() & columns.captions.keys():
        where = str(folder.path / CAPTION_COLUMNS)
        raise InputError.at(where, f"repeats the column {min(both)[:80]!r} of images", "other titles", _FIX)
    return columns


def _read_file(folder: sealed.SealedFolder, name: str, count: int) -> dict[str, Column]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = str(folder.path / name)
    content = folder.read(name, MOST_BYTES)
    try:
        plain = pq.ParquetFile(pa.BufferReader(content))
        dictionaries = _check(plain, where, count)
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=dictionaries)
        table = file.read(use_threads=False).unify_dictionaries()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n", 1)[0][:200]
        raise InputError.at(where, f"cannot be read as Parquet: {reason}", _EXPECTED, _FIX) from None
    kinds = _kinds(plain.metadata.metadata)
    columns = {}
    for title, values in zip(table.column_names, table.columns, strict=True):
        columns[title] = _column(
            values.combine_chunks(), kinds.get(title, "text"), f"{where} column {title!r}"
        )
    return columns


def _check(file: pq.ParquetFile, where: str, count: int) -> list[str]:
    """Check what a file declares, and return the paths of its texts. InputError: it is not a file of columns."""
    import pyarrow as pa

    schema = file.schema_arrow
    metadata = file.metadata
    if metadata.num_rows != count:
        raise InputError.at(where, f"has {metadata.num_rows:,} rows", f"{count:,}, one per sample", _FIX)
    if len(schema) > MOST_COLUMNS or len(set(schema.names)) < len(schema):
        problem = f"has {len(schema)} columns"
        raise InputError.at(where, problem, f"at most {MOST_COLUMNS}, with different titles", _FIX)
    paths = []
    for column in schema:
        if not 0 < len(column.name) <= LONGEST_TITLE:
            raise InputError.at(where, "has a column without a title, or a long one", "titles", _FIX)
        is_tags = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
        kind = column.type.value_type if is_tags else column.type
        is_text = pa.types.is_string(kind)
        is_plain = not is_tags and (kind == pa.float64() or kind == pa.timestamp("us"))
        if not is_text and not is_plain:
            problem = f"has a column of {column.type!s:.80}"
            raise InputError.at(where, problem, _EXPECTED, _FIX)
    declared = 0
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(number)
            declared += chunk.total_uncompressed_size
            if chunk.compression not in CODECS or chunk.num_values > MOST_TAGS + count:
                problem = f"has {chunk.num_values:,} values, compressed with {chunk.compression}"
                raise InputError.at(where, problem, " or ".join(CODECS), _FIX)
            if chunk.physical_type == "BYTE_ARRAY":
                paths.append(chunk.path_in_schema)
    if declared > MOST_BYTES:
        raise InputError.at(where, f"declares {declared:,} bytes", f"at most {MOST_BYTES:,}", _FIX)
    return list(dict.fromkeys(paths))


def _kinds(metadata: Mapping[bytes, bytes] | None) -> dict[str, Any]:
    """Return title → kind as the file notes them; {} if it does not."""
    with suppress(ValueError, RecursionError):
        kinds = json.loads((metadata or {}).get(KINDS_KEY, b"{}"))
        return kinds if isinstance(kinds, dict) else {}
    return {}


def _column(values: pa.Array, kind: str, where: str) -> Column:
    import pyarrow as pa

    if pa.types.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False)
        if np.isinf(numbers).any():
            raise InputError.at(where, "contains infinity", "finite numbers", _FIX)
        return Column("number", numbers)
    if pa.types.is_timestamp(values.type):
        return Column("date", values.to_numpy(zero_copy_only=False).astype("datetime64[us]"))
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        starts = np.concatenate([[0], np.cumsum(values.value_lengths().fill_null(0).to_numpy())])
        codes, labels = _codes(values.flatten())
        if (codes == MISSING).any():
            raise InputError.at(where, "has lists with missing texts", "lists of texts", _FIX)
        return Column("tags", codes, labels, starts.astype(np.int64))
    codes, labels = _codes(values)
    return Column("category" if kind == "category" else "text", codes, labels)


def _codes(values: pa.Array) -> tuple[np.ndarray, list[str]]:
    """Return (n,) int32 rows of the labels, −1 without one, and the labels, none twice."""
    import pyarrow as pa

    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    codes = values.indices.fill_null(MISSING).to_numpy(zero_copy_only=False).astype(np.int32)
    texts = values.dictionary.to_numpy(zero_copy_only=False).tolist()
    if len(set(texts)) == len(texts) and max(map(len, texts), default=0) <= LONGEST_TEXT:
        return codes, texts
    labels: dict[str, int] = {}
    number = [labels.setdefault(text[:LONGEST_TEXT], len(labels)) for text in texts]
    return np.array([*number, MISSING], np.int32)[codes], list(labels)
