"""Any CSV, TSV, JSON, JSON-lines or Parquet table with a column of picture names and one of captions, as open_clip's.

The columns are named (--image-column, --caption-column), or guessed from their titles and the first row; a note names
them. A table without titles has the columns 1, 2, …; a JSON file is a list of objects, as those of ALBEF and BLIP.
"""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from coder_core.console.faults import Fault, collect
from coder_core.data.captioned import records
from coder_core.data.captioned.archives import FILE_NAME, metadata_rows, row_records
from coder_core.data.captioned.positions import open_parquet, parquet_rows
from coder_core.data.captioned.records import Layout, Record
from coder_core.data.lines import BYTE_ORDER_MARK, shown
from coder_core.data.pictures import ENDINGS

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
PICTURE_COLUMNS = (
    *(FILE_NAME, "filename", "image", "image_name", "image_path", "image_file", "filepath", "file"),
    *("path", "img", "picture", "photo"),
)
HEAD_BYTES = 1 << 16
MOST_FOLDERS = 50  # searched for pictures


class Table(NamedTuple):
    """Titles and first row of a table."""

    titles: list[str]
    first: dict[str, Any]  # title → value in the first row
    delimiter: str = ","
    headless: bool = False  # the file has no titles

    def addresses(self) -> dict[str, str]:
        """Return the first value of every column with web addresses instead of files, by title."""
        values = {title: str(value) for title, value in self.first.items()}
        return {title: value for title, value in values.items() if "://" in value.split(" ", 1)[0]}

    def columns(self, image: str, caption: str) -> tuple[str, list[str]] | None:
        """Return the picture column and the caption columns, named or else guessed; None if either is missing."""
        candidates = [title for title in self.titles if title not in self.addresses()]
        usual = [title for name in PICTURE_COLUMNS for title in candidates if title.lower() == name]
        named = [title for title in [*usual, *candidates] if is_picture(self.first.get(title))]
        pictures = [image] if image else [*named, *usual][:1]
        others = [title for title in self.titles if title not in pictures]
        captions = [caption] if caption else collect(partial(records.caption_columns, others, Path()), [])
        if not captions:
            texts = {t: collect(partial(records.captions_in, self.first.get(t), ""), []) for t in others}
            captions = [title for title in others if " " in (texts[title] or [""])[0].strip()][:1]
        is_there = pictures and captions and {*pictures, *captions} <= {*self.titles}
        return (pictures[0], captions) if is_there else None


def is_picture(value: object) -> bool:
    """True for the name of a picture file."""
    return isinstance(value, str) and "://" not in value and value.strip().lower().endswith(ENDINGS)


def read_head(file: Path) -> Table:
    """Read the titles and the first row of a table; both are empty if the file is not one."""
    text = ""
    if file.suffix == ".parquet":
        return collect(partial(_parquet_head, file), []) or Table([], {})
    if file.is_file():  # not a pipe
        with suppress(OSError), file.open("rb") as content:
            text = content.read(HEAD_BYTES).decode("utf-8", "replace").lstrip(BYTE_ORDER_MARK)
    line = text.split("\n", 1)[0]
    if file.suffix in (".json", ".jsonl"):
        value: Any = None
        with suppress(ValueError, RecursionError):
            if file.suffix == ".jsonl" or text.lstrip().startswith("["):
                value = json.JSONDecoder().raw_decode(text.lstrip("[ \t\r\n"))[0]
        return Table(list(value), value) if isinstance(value, dict) else Table([], {})
    delimiter = "\t" if "\t" in line else max(",;|", key=line.count)
    rows: list[list[str]] = []
    with suppress(csv.Error):
        rows += islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 2)
    titles = [title.strip() for title in rows[0]] if rows and delimiter in line else []
    headless = any(is_picture(title) or "://" in title for title in titles)
    first = titles if headless else rows[1] if len(rows) > 1 else []
    titles = [str(number) for number in range(1, len(titles) + 1)] if headless else titles
    return Table(titles, dict(zip(titles, first, strict=False)), delimiter, headless)


def _parquet_head(file: Path) -> Table:
    """Read the head of a Parquet file's columns of texts and of lists of texts."""
    content = open_parquet(file, [])
    kinds = {field.name: str(field.type) for field in content.schema_arrow}
    texts = [title for title, kind in kinds.items() if "string" in kind and "struct" not in kind]
    return Table(texts, next(parquet_rows(content, file, texts), (0, 0, {}))[2])


def _find(path: Path, *, image: str, caption: str) -> list[Path]:
    files = records.matching_or_split(path, *(f"*{suffix}" for suffix in SUFFIXES))
    return [file for file in files if read_head(file).columns(image, caption)]


def _records(
    files: list[Path], root: Path, faults: list[Fault], *, image: str, caption: str
) -> Iterator[Record]:
    for file in files:
        table = read_head(file)
        column, captions = table.columns(image, caption) or ("", [])  # `_find` needs both
        text = f"pictures are in the column {shown(column)}, captions in {', '.join(map(shown, captions))}"
        fix = "name others with --image-column and --caption-column"
        faults.append(Fault(str(file), text, fix=fix, severity="note"))
        rows = metadata_rows(file, faults, column, table.delimiter, table.titles if table.headless else ())
        split = records.split_in(f"{file.parent.relative_to(root).name}-{file.stem}")
        start = f"{root.absolute()}/"  # cut from absolute names in the data folder
        yield from row_records(rows, file, faults, image=column, captions=captions, split=split, start=start)


def _folders(root: Path) -> list[Path]:
    inner = sorted(folder for folder in root.glob("*") if folder.is_dir()) if root.is_dir() else []
    return [root, *inner[:MOST_FOLDERS]]


def table_layout(image: str = "", caption: str = "") -> Layout:
    """Return the layout of tables with these picture and caption columns; "" guesses a column."""
    find = partial(_find, image=image, caption=caption)
    return Layout("table", find, partial(_records, image=image, caption=caption), _folders)
