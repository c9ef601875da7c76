"""The rows that a layout gives, one image with one caption each, and what the layouts share in reading them."""

import csv
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from coder_core.config.data import OTHER_DEV_NAMES
from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.lines import BYTE_ORDER_MARK, count_cases, not_utf8, plain_file, shown

LONGEST_FIELD = 1 << 24  # characters of a CSV field
SPLIT_NAMES = {name: name for name in ("train", "dev", "test")}
SPLIT_NAMES |= {"training": "train", "restval": "train", "testing": "test"}
SPLIT_NAMES |= dict.fromkeys(OTHER_DEV_NAMES, "dev")
CAPTION_COLUMNS = ("caption", "captions", "text", "raw", "sentences", "sentence", "description", "title")


class Record(NamedTuple):
    """One image with one caption."""

    image: str  # its name: a path relative to the picture folder, or a name inside a packed file
    caption: str  # as written; "" where the image has none
    place: str  # file and row, for faults
    split: str = ""  # "" where the data does not say
    position: tuple[int, int, int] | None = None  # of a packed picture: three whole numbers (see `positions`)
    caption_id: int | None = None  # the caption's number in its data set, where it has one


def name_files(files: Sequence[Path]) -> dict[str, str]:
    """Source of captions that all come from these files or folders, of which the first three are named."""
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return {"captions": ", ".join(map(str, files[:3])) + more}


LOOKS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("layouts.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Layout:
    """A layout on disk."""

    name: str  # for --format
    find: Callable[[Path], list[Path]]  # its files in a path; none where the path is not of this layout
    # reads those files, given the data folder; faults go to the list
    records: Callable[[list[Path], Path, list[Fault]], Iterator[Record]]
    # where picture files may lie in a data folder, the likeliest first
    folders: Callable[[Path], list[Path]] = lambda root: [root]
    source: Callable[[list[Path]], dict[str, str]] = name_files  # its files, by their content
    packed: Literal["tar", "parquet"] | None = None  # "tar" or "parquet" where pictures lie inside its files

    def recognise(self, path: Path) -> str:
        """Why a path is of this layout, or ""."""
        files = self.find(path)
        named = [file.relative_to(folder_of(path)) if file != path else file.name for file in files[:1]]
        return f"{named[0]} {LOOKS[self.name][1]}" if named else ""


@dataclass
class Once:
    """Names or numbers that a file may give once; a repetition is a fault that names both places."""

    what: str
    faults: list[Fault]
    fix: str = "rename or remove one"
    places: dict[Any, str] = field(default_factory=dict)
    repeated: int = 0

    def add(self, key: Any, where: str, at: str = "") -> bool:
        """True if no other where has this key; `at` is a more precise where for the message."""
        before = self.places.setdefault(key, where)
        if before == where:
            return True
        self.repeated += 1
        if self.repeated <= MOST_FAULTS_SHOWN:
            name = shown(key) if isinstance(key, str) else str(key)
            problem = f"{name} is also the {self.what} of {before}"
            self.faults.append(Fault(at or where, problem, f"its own {self.what}", self.fix))
        return False


def split_name(word: str) -> str:
    """Normalise a split's name: "val" and "validation" are "dev", "restval" is "train"."""
    word = word.strip().lower()
    return SPLIT_NAMES.get(word, word)


def matching(path: Path, *patterns: str, inside: Sequence[str] = ()) -> list[Path]:
    """Find the files of these patterns: `path` itself, else those in the folder, or in one of its folders."""
    if path.is_file():
        return [path] if any(path.match(pattern) for pattern in patterns) else []
    for folder in (path, *(path / name for name in inside)):
        files = sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})
        if files:
            return files
    return []


def folder_of(path: Path) -> Path:
    """The data folder: `path`, or the folder of the file that was named."""
    return path.parent if path.is_file() else path


def first_line(path: Path) -> str:
    """The first line of a text file, for recognising it; "" when it is missing or not text."""
    try:
        with path.open("rb") as file:
            return file.readline(1 << 16).decode("utf-8", "replace").lstrip(BYTE_ORDER_MARK).rstrip("\r\n")
    except OSError:
        return ""


def csv_rows(
    path: Path, needed: Sequence[str], faults: list[Fault], delimiter: str = ",", titles: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield place, and column → value, of every row of a CSV file; a row of another length is a fault. `titles` are for a
    file without its own."""
    plain_file(path, faults)
    csv.field_size_limit(LONGEST_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True, delimiter=delimiter)
        try:
            titles = titles or [title.strip() for title in next(reader, [])]
            if missing := [name for name in needed if name not in titles]:
                problem = f"the header is {', '.join(map(shown, titles[:12]))}"
                fix = "name the columns in the first line"
                raise InputError.at(f"{path} line 1", problem, f"a column {' and '.join(missing)}", fix)
            for row in reader:
                where = f"{path} line {reader.line_num}"
                if len(row) == len(titles):
                    yield where, dict(zip(titles, row, strict=True))
                elif row:
                    problem = f"has {len(row)} fields, the header {len(titles)}"
                    fix = "put captions that hold commas in quotes"
                    faults.append(Fault(where, problem, "the same number", fix))
        except UnicodeDecodeError:
            raise InputError(_first_not_utf8(path)) from None
        except csv.Error as error:
            where = f"{path} line {reader.line_num}"
            raise InputError.at(where, f"is not CSV: {error}", "fields in quotes", "save it again") from None


def _first_not_utf8(path: Path) -> list[Fault]:
    """The first byte of a file that is not UTF-8; the decoder of a stream does not say where it is."""
    with path.open("rb") as file:
        for number, row in enumerate(file, 1):
            try:
                row.decode("utf-8")
            except UnicodeDecodeError as error:
                return [not_utf8(path, number, row, error.start)]
    return []


def caption_columns(titles: Sequence[str], path: object) -> list[str]:
    """The columns that hold captions: caption, text, …, or caption_0, …. InputError if there is none."""
    numbered = [title for title in titles if title.startswith("caption_") and title[8:].isdigit()]
    if numbered:
        return sorted(numbered, key=lambda title: int(title[8:]))
    by_name = {title.lower(): title for title in titles}
    named = [by_name[name] for name in CAPTION_COLUMNS if name in by_name]
    if not named:
        problem = f"holds no captions: its columns are {', '.join(map(shown, list(titles)[:12]))}"
        expected = f"a column {', '.join(CAPTION_COLUMNS)}, or caption_0, caption_1, …"
        raise InputError.at(path, problem, expected, "rename the column of the captions")
    return named[:1]


def captions_of_row(row: Mapping[str, Any], columns: Sequence[str], where: str) -> list[str]:
    """The captions in these columns of a row; one that is empty where there are none. Errors as for `captions_in`."""
    texts = [text for title in columns for text in captions_in(row.get(title), f"{where}, column {title}")]
    return [text for text in texts if text.strip()] or [""]


def captions_in(value: Any, where: str) -> list[str]:
    """The captions of a field: a string, or a list of strings or of {"raw": …}; InputError for something else."""
    if value is None:
        return []
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    texts = [item.get("raw") if isinstance(item, dict) else item for item in items]
    if not all(isinstance(text, str) for text in texts):
        raise InputError.at(where, f"the captions are {shown(repr(value))}", "a string, or a list of strings")
    return [str(text) for text in texts]


def id_array(ids: Sequence[int | None]) -> np.ndarray | None:
    """(m,) int64 numbers of captions; None where one has none, or one that needs more than 63 bits."""
    fits = all(number is not None and -(1 << 63) <= number < 1 << 63 for number in ids)
    return np.array(ids, np.int64) if fits else None


def shared_names(where: str, names: set[str], what: str) -> list[Fault]:
    """A warning about images or pictures of two splits: one measures samples that the other trains on."""
    cases = [shown(name) for name in sorted(names)]
    fix = "remove them from one of the two"
    return count_cases(where, f"{what} are in both", cases, f"different {what}", fix)
