"""Parquet files with the pictures in them: a column image of struct{bytes, path}, captions as string or list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.records import (
    Contents,
    Layout,
    Record,
    caption_columns,
    captions_in,
    matching,
    split_name,
)
from coder_core.data.lines import plain_file

FOLDERS = ("data", "default", "default/train", "default/test")
SPLIT_OF_FILE = re.compile(r"([A-Za-z]+)")
ROWS_AT_ONCE = 256
IMAGE = "image"
PIXELS = f"{IMAGE}.bytes"  # column of the picture files


def open_parquet(file: Path, faults: list[Fault], *, buffer_size: int = 0) -> pq.ParquetFile:
    """Open a parquet file, to be read `buffer_size` bytes at a time; 0 reads whole columns of a row group.

    Raises:
        InputError: it is none, or damaged.
    """
    plain_file(file, faults)
    try:
        return pq.ParquetFile(file, memory_map=False, buffer_size=buffer_size)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).split("\n", 1)[0][:200]
        fault = Fault(
            str(file), f"cannot be read as parquet: {reason}", "a whole parquet file", "copy it again"
        )
        raise InputError(fault) from None


def holds_pictures(file: Path) -> bool:
    """True if a parquet file has the column image of struct{bytes, …}."""
    try:
        return has_pictures(open_parquet(file, []))
    except InputError:
        return False


def has_pictures(content: pq.ParquetFile) -> bool:
    """True if an opened parquet file has the column image of struct{bytes, …}."""
    schema = content.schema_arrow
    if schema.names.count(IMAGE) != 1 or not pa.types.is_struct(kind := schema.field(IMAGE).type):
        return False
    column = kind.field("bytes").type if kind.names.count("bytes") == 1 else pa.null()
    return bool(pa.types.is_binary(column) or pa.types.is_large_binary(column))


def _files(path: Path) -> list[Path]:
    return [file for file in matching(path, "*.parquet", inside=FOLDERS) if holds_pictures(file)]


def _recognise(path: Path) -> str:
    files = _files(path)
    return f"{files[0].name} has the column image with the pictures' bytes" if files else ""


def _read(path: Path, faults: list[Fault]) -> Contents:
    files = _files(path)
    source = {"captions": ", ".join(map(str, files))}
    return Contents(_records(files, faults), packed="parquet", files=files, source=source)


def _records(files: list[Path], faults: list[Fault]) -> Iterator[Record]:
    for number, file in enumerate(files):
        content = open_parquet(file, faults)
        titles = content.schema_arrow.names
        captions = caption_columns([title for title in titles if title != IMAGE], file)
        has_path = "path" in content.schema_arrow.field(IMAGE).type.names
        own = [title for title in ("split", "filename", "file_name") if title in titles]
        columns = [*captions, *own, *([f"{IMAGE}.path"] if has_path else [])]
        match = SPLIT_OF_FILE.match(file.name)
        of_file = split_name(match[1]) if match else ""
        for group in range(content.num_row_groups):
            row = 0
            for batch in content.iter_batches(
                ROWS_AT_ONCE, row_groups=[group], columns=columns, use_threads=False
            ):
                for values in batch.to_pylist():
                    place = f"{file} row group {group} row {row}"
                    path = (values.get(IMAGE) or {}).get("path")
                    name = next(
                        (values[title] for title in own[::-1] if title != "split" and values[title]), path
                    )
                    split = split_name(values["split"]) if values.get("split") else of_file
                    texts = [
                        text for title in captions for text in captions_in(values[title], f"{place}, {title}")
                    ]
                    for text in [text for text in texts if text.strip()] or [""]:
                        yield Record(
                            str(name or f"{file.stem}-{group}-{row}"),
                            text,
                            place,
                            split,
                            (number, group, row),
                        )
                    row += 1


PARQUET = (Layout("parquet", "*.parquet with a column image of struct{bytes, path}", _recognise, _read),)
