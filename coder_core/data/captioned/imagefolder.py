"""An image folder as Hugging Face reads it: metadata.csv, .jsonl or .parquet with file_name and captions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.parquet import open_parquet
from coder_core.data.captioned.records import (
    SPLIT_NAMES,
    Contents,
    Layout,
    Record,
    caption_columns,
    captions_in,
    csv_rows,
    folder_of,
    json_value,
    matching,
    split_name,
)
from coder_core.data.lines import read_lines, shown

PATTERNS = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
NAME = "file_name"
ROWS_AT_ONCE = 1024


def _files(path: Path) -> list[Path]:
    """The metadata files of the folder and of the split folders in it."""
    files = matching(path, *PATTERNS)
    if path.is_dir():
        files += [
            file for pattern in PATTERNS for file in sorted(path.glob(f"*/{pattern}")) if file.is_file()
        ]
    return files


def _recognise(path: Path) -> str:
    files = _files(path)
    return f"{files[0].relative_to(folder_of(path))} names picture files" if files else ""


def _read(path: Path, faults: list[Fault]) -> Contents:
    files, root = _files(path), folder_of(path)
    return Contents(_records(files, root, faults), [root], source={"captions": ", ".join(map(str, files))})


def _records(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        inner = file.parent.relative_to(root).as_posix()
        prefix = "" if inner == "." else f"{inner}/"
        for place, row in _rows(file, faults):
            name = row.get(NAME)
            if not isinstance(name, str) or not name.strip():
                expected = "the name of a picture file"
                faults.append(Fault(place, f"{NAME} is {shown(str(name))}", expected, "name the picture"))
                continue
            first = (prefix + name).split("/", 1)[0].lower()
            split = SPLIT_NAMES.get(first, "")
            if not split and isinstance(row.get("split"), str):
                split = split_name(row["split"])
            try:
                columns = caption_columns([title for title in row if title != NAME], file)
                captions = [
                    text for title in columns for text in captions_in(row[title], f"{place}, column {title}")
                ]
            except InputError as error:
                faults.extend(error.faults)
                if "holds no captions" in str(error):
                    return
                continue
            captions = [text for text in captions if text.strip()] or [""]
            for caption in captions:
                yield Record(prefix + name, caption, place, split)


def _rows(file: Path, faults: list[Fault]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(place, column → value) of every row."""
    if file.suffix == ".csv":
        rows = csv_rows(file, faults)
        place, header = next(rows, (f"{file} line 1", []))
        titles = [title.strip() for title in header]
        if NAME not in titles:
            problem = f"the header is {', '.join(map(shown, header[:12]))}"
            raise InputError.at(
                place, problem, f"columns {NAME} and caption", "name the columns in the first line"
            )
        for place, row in rows:
            if len(row) != len(titles):
                problem = f"has {len(row)} fields, the header {len(titles)}"
                faults.append(
                    Fault(place, problem, "the same number", "put captions that hold commas in quotes")
                )
            else:
                yield place, dict(zip(titles, row, strict=True))
    elif file.suffix == ".jsonl":
        for number, line in enumerate(read_lines(file, "JSON object", faults), 1):
            if line:
                value = json_value(line, f"{file} line {number}")
                yield f"{file} line {number}", value if isinstance(value, dict) else {}
    else:
        yield from _parquet_rows(open_parquet(file, faults), file)


def _parquet_rows(content: pq.ParquetFile, file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    row = 0
    for batch in content.iter_batches(ROWS_AT_ONCE, use_threads=False):
        for values in batch.to_pylist():
            yield f"{file} row {row}", values
            row += 1


IMAGEFOLDER = (Layout("imagefolder", "metadata.csv, .jsonl or .parquet with file_name", _recognise, _read),)
