"""Records (one image with one caption), which every layout yields, and the reading functions that layouts share."""

import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.data.lines import BYTE_ORDER_MARK, count_cases, shown

LOOKS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text("utf-8"))
DATA_FOLDERS = ("data", "default")  # of Parquet files from Hugging Face
DEEPEST = 6  # levels of folders searched for captions
MOST_FOLDERS = 20_000
PICTURE_FOLDERS_TRIED = 50  # folders searched for the pictures of a data set
ENTRIES_TRIED = 2_000  # of a folder, before it counts as one of pictures
NUMBERED = re.compile(r"caption[ _-]?(\d*)", re.IGNORECASE)
LANGUAGE = re.compile("[a-z]{2,3}(?:[-_][A-Za-z]{2,4})?")
OF_LANGUAGE = re.compile("(?:caption|text|title|description)s?[ _-]([a-z]{2})", re.IGNORECASE)
CAPTION_COLUMNS = ("caption", "captions", "text", "raw", "sentences", "sentence", "description", "title")


NOTHING_ELSE: Mapping[str, Any] = MappingProxyType({})


class Record(NamedTuple):
    """One image with one caption."""

    image: str  # its name: a path relative to the picture folder, or a name inside a packed file
    caption: str  # as written; "" if the image has none
    place: str  # file and row, for faults
    split: str = ""  # "" if the data names none
    position: tuple[int, int, int] | None = None  # of a packed picture: three whole numbers (see `positions`)
    caption_id: int | None = None  # the caption's number in its data set, if it has one
    language: str = ""  # of the caption, if the data names it
    columns: Mapping[str, Any] = NOTHING_ELSE  # title → value, of what the data says besides
    # of images that show the same thing, such as the frames of a video; "" if the data names none
    group: str = ""


def name_files(files: Sequence[Path]) -> dict[str, str]:
    """Describe these files or folders as the source of captions, naming the first three."""
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return {"captions": ", ".join(map(str, files[:3])) + more}


@dataclass(frozen=True)
class Layout:
    """A layout on disk."""

    name: str  # for --format
    find: Callable[[Path], list[Path]]  # finds its files in a path; none if the path has another layout
    # reads these files, given the data folder; adds faults to the list
    records: Callable[[list[Path], Path, list[Fault]], Iterator[Record]]
    # possible picture folders of a data folder, the likeliest first
    folders: Callable[[Path], list[Path]] = lambda root: [root]
    source: Callable[[list[Path]], dict[str, str]] = name_files  # content, such as "captions" → its files
    packed: Literal["tar", "parquet", "tsv"] | None = (
        None  # container of the pictures; None for picture files
    )

    def recognise(self, path: Path) -> str:
        """Return why a path has this layout; "" if it does not."""
        files = self.find(path)
        named = [file.relative_to(folder_of(path)) if file != path else file.name for file in files[:1]]
        return f"{named[0]} {LOOKS[self.name][1]}" if named else ""


def matching(path: Path, patterns: Sequence[str], *, inside: Sequence[str] = ()) -> list[Path]:
    """Find the files of these patterns: `path` itself, or else those in it or in the first of `inside` with some."""
    if path.is_file():
        return [path] if any(path.match(pattern) for pattern in patterns) else []
    for folder in (path, *(path / name for name in inside)):
        found = {file for pattern in patterns for file in folder.glob(pattern)}
        if files := sorted(file for file in found if file.is_file() and not file.name.startswith(".")):
            return files
    return []


def folders_in(path: Path) -> list[Path]:
    """List the folders in a folder, up to `DEEPEST` levels below it, except hidden ones."""
    found: list[Path] = []
    level = [path] if path.is_dir() else []
    for _ in range(DEEPEST):
        level = [inner for folder in level for inner in _inner_folders(folder)]
        found += level
        if not level or len(found) >= MOST_FOLDERS:
            break
    return found[:MOST_FOLDERS]


def _inner_folders(folder: Path) -> list[Path]:
    """List the folders directly in a folder; none in a folder whose first entries are all files, such as pictures."""
    inner: list[Path] = []
    with suppress(PermissionError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number >= ENTRIES_TRIED and not inner:
                break
            if not entry.name.startswith(".") and entry.is_dir():
                inner.append(folder / entry.name)
    return sorted(inner)


def picture_folders(root: Path) -> list[Path]:
    """List folders that may contain the pictures of a data set: `root` and those in it."""
    inner = sorted(folder for folder in root.glob("*") if folder.is_dir()) if root.is_dir() else []
    return [root, *inner[:PICTURE_FOLDERS_TRIED]]


def matching_below(path: Path, pattern: str) -> list[Path]:
    """Find the files of this pattern in `path`, data/ or default/, or else in the folders in it, at any depth."""
    files = matching(path, [pattern], inside=DATA_FOLDERS)
    return files or [file for folder in folders_in(path) for file in matching(folder, [pattern])]


def folder_of(path: Path) -> Path:
    """Return the data folder: `path`, or the folder that contains the file `path`."""
    return path.parent if path.is_file() else path


def first_line(path: Path) -> str:
    """Return the first line of a file (at most 64 KiB), to recognise its layout; "" if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.readline(1 << 16).decode("utf-8", "replace").lstrip(BYTE_ORDER_MARK).rstrip("\r\n")
    except OSError:
        return ""


def titled_captions(titles: Sequence[str]) -> list[str]:
    """Return the caption columns by their titles: caption, text, …, or caption_0, caption1, …; none without such one."""
    if numbered := [(int(m[1] or 0), title) for title in titles if (m := NUMBERED.fullmatch(title))]:
        return [title for _, title in sorted(numbered)]
    by_name = {title.lower(): title for title in reversed(titles)}
    named = [by_name[name] for name in CAPTION_COLUMNS if name in by_name][:1]
    return named or [title for title in titles if OF_LANGUAGE.fullmatch(title)]


def other_columns(row: Mapping[str, Any], used: Collection[str]) -> dict[str, Any]:
    """Return the values of a row besides those of the columns that are `used`."""
    return {title: value for title, value in row.items() if title not in used}


def unread_columns(unread: Mapping[str, str], file: object) -> list[Fault]:
    """Return a note about columns that are not kept, title → reason."""
    cases = [f"{shown(title)} ({reason})" for title, reason in unread.items()]
    return count_cases(file, "columns are not kept", cases, severity="note")


def no_captions(titles: Sequence[str], path: object) -> InputError:
    """Build the error for a table whose titles name no captions."""
    problem = f"has no captions: its columns are {', '.join(map(shown, list(titles)[:12]))}"
    expected = f"a column {', '.join(CAPTION_COLUMNS)}, or caption_0, caption_1, …"
    return InputError.at(path, problem, expected, "rename the column of the captions")


def caption_columns(titles: Sequence[str], path: object) -> list[str]:
    """Return the caption columns by their titles. InputError if there are none."""
    columns = titled_captions(titles)
    if not columns:
        raise no_captions(titles, path)
    return columns


def captions_of_row(row: Mapping[str, Any], columns: Sequence[str], where: str) -> list[tuple[str, str]]:
    """Return the captions in these columns of a row and their languages ("" if not named); [("", "")] if there are none.
    A column is of one language (caption_en), or its values are {"en": …, "zh": …}. Errors: as for `captions_in`."""
    captions = []
    for title in columns:
        value = row.get(title)
        match = OF_LANGUAGE.fullmatch(title)
        language_of_title = match[1].lower() if match else ""
        by_language = {language_of_title: value}
        if isinstance(value, dict) and value and all(map(LANGUAGE.fullmatch, map(str, value))):
            by_language = value
        for language, texts in by_language.items():
            found = captions_in(texts, f"{where}, column {title}")
            captions += [(text, language) for text in found if text.strip()]
    return captions or [("", "")]


def captions_in(value: Any, where: str) -> list[str]:
    """Return the captions of a field: a string, or a list of strings or {"raw": …}. InputError: other values, lists as text."""
    if value is None:
        return []
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    texts = [item.get("raw") if isinstance(item, dict) else item for item in items]
    if not all(isinstance(text, str) and not text.lstrip().startswith(("['", '["')) for text in texts):
        expected = "a string, or a list of strings (in CSV: one row or one column per caption)"
        raise InputError.at(where, f"the captions are {shown(repr(value))}", expected)
    return [str(text) for text in texts]


def id_array(ids: Sequence[int | None]) -> np.ndarray | None:
    """Return the (m,) int64 numbers of captions; None if one is missing or does not fit int64."""
    fits = all(number is not None and -(1 << 63) <= number < 1 << 63 for number in ids)
    return np.array(ids, np.int64) if fits else None
