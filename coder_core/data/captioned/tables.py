"""Tables of pictures and captions: one reader for CSV, TSV, JSON, JSON lines and Parquet, and the layouts made of them.

The columns are named (--image-column, --caption-column), or guessed from their titles and first rows; a note names
them. A table without titles has the columns 1, 2, … A JSON file is a list of objects, as those of ALBEF and BLIP, an
object with such a list, or an object of picture names and their captions.
"""

import codecs
import csv
import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned import records
from coder_core.data.captioned.names import inner_prefix
from coder_core.data.captioned.positions import open_parquet, parquet_rows, plain_columns
from coder_core.data.captioned.records import Layout, Record
from coder_core.data.captioned.splits import SPLIT_NAMES, split_of_path, split_value
from coder_core.data.lines import OTHER_MARKS, count_cases, parse_json_text, read_json, shown, text_rows
from coder_core.data.pictures import ENDINGS, find_file, unsafe_reason

Row = dict[str, Any]  # column → value

FILE_NAME = "file_name"
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")  # of an image folder
SHEETS = (".xlsx", ".xls", ".ods", ".numbers")  # not read: they store ids such as 007 and dates as numbers
SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet")
TEXT = ".txt"  # a table if it is not the text beside a picture
PICTURE_COLUMNS = (
    *(FILE_NAME, "filename", "image", "image_name", "image_path", "image_file", "filepath", "file"),
    *("path", "img", "picture", "photo"),
)
HEAD_BYTES = 1 << 16
SAMPLE_ROWS = 200  # from which columns are guessed
NAMES_TRIED = 20
MOST_TEXTS = 20  # .txt files in a folder of tables; more are texts beside pictures
LONGEST_FIELD = 1 << 24  # characters of a CSV field
DELIMITERS = ",;|"


def sheet_to_csv(file: str) -> str:
    """Return how to turn a spreadsheet into a table that is read."""
    utf8 = "csv:'Text - txt - csv (StarCalc)':44,34,76"
    return f"save {file} as CSV (UTF-8), or: soffice --headless --convert-to {utf8} {shlex.quote(file)}"


@dataclass(frozen=True)
class TableColumns:
    """Columns of a table to read."""

    image: str
    captions: list[str]
    split: str = ""  # "" for none


@dataclass(frozen=True)
class Table:
    """A file of rows, of which only the first were read."""

    file: Path
    titles: list[str]
    sample: list[Row]  # its first rows
    delimiter: str = ","
    headless: bool = False  # the file has no titles
    unread: Mapping[str, str] = field(default_factory=dict)  # title → why its column cannot be kept

    def rows(self, faults: list[Fault], columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
        """Yield (location, column → value) for every row, with at least these columns. A row that is not like the others
        adds a fault. InputError: damage, a missing column, a repeated title or key."""
        if self.file.suffix == ".parquet":
            content = open_parquet(self.file, faults)
            wanted = dict.fromkeys([*columns, *self.titles])
            present = [name for name in wanted if name in content.schema_arrow.names]
            for number, (_, _, row) in enumerate(parquet_rows(content, self.file, present)):
                yield f"{self.file} row {number}", row
        elif self.file.suffix == ".jsonl":
            for number, line in enumerate(text_rows(self.file, faults), 1):
                where = f"{self.file} line {number}"
                if line.strip():
                    yield where, _checked(parse_json_text(line.strip(), where), where)
        elif self.file.suffix == ".json":
            yield from _json_rows(self.file, faults)
        else:
            yield from self._csv_rows(faults, columns)

    def _csv_rows(self, faults: list[Fault], columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
        csv.field_size_limit(LONGEST_FIELD)
        reader = csv.reader(text_rows(self.file, faults, quoted=True), strict=True, delimiter=self.delimiter)
        try:
            titles = self.titles if self.headless else [title.strip() for title in next(reader, [])]
            _check_titles(titles, columns, f"{self.file} line 1")
            for row in reader:
                where = f"{self.file} line {reader.line_num}"
                if len(row) == len(titles):
                    yield where, dict(zip(titles, row, strict=True))
                elif row:
                    problem = f"has {len(row)} fields, but the header has {len(titles)}"
                    fix = "put captions that contain commas in quotes"
                    faults.append(Fault(where, problem, "the same number", fix))
        except csv.Error as error:
            where = f"{self.file} line {reader.line_num}"
            raise InputError.at(where, f"is not CSV: {error}", "fields in quotes", "save it again") from None

    def addresses(self) -> dict[str, str]:
        """Return the first value of every column with web addresses instead of files, by title."""
        first_row = self.sample[0] if self.sample else {}
        texts = {title: str(value) for title, value in first_row.items()}
        return {title: text for title, text in texts.items() if "://" in text.split(" ", 1)[0]}

    def columns(
        self, image: str = "", caption: str = "", folders: Sequence[Path] = ()
    ) -> TableColumns | None:
        """Return the named columns, or guess them; None if there is no column of pictures or of captions. `folders` may
        contain pictures that a column names without their endings."""
        candidates = [title for title in self.titles if title not in self.addresses()]
        usual = [title for name in PICTURE_COLUMNS for title in candidates if title.lower() == name]
        named = [title for title in [*usual, *candidates] if self._share(title, is_picture) >= 0.5]
        pictures = [image] if image else [*named, *usual][:1]
        if not pictures:
            pictures = [title for title in candidates if self._names_files(title, folders)][:1]
        others = [title for title in self.titles if title not in pictures]
        captions = [caption] if caption else records.titled_captions(others) or self._wordiest(others)
        if not pictures or not captions:
            return None
        if not {*pictures, *captions} <= {*self.titles}:
            return None
        return TableColumns(pictures[0], captions, self._split_column())

    def _values(self, title: str) -> list[Any]:
        values = [row.get(title) for row in self.sample]
        return [value for value in values if value not in (None, "")]

    def _share(self, title: str, holds: Any) -> float:
        """Return the share of a column's values for which `holds` is true."""
        values = self._values(title)
        return sum(map(holds, values)) / len(values) if values else 0.0

    def _names_files(self, title: str, folders: Sequence[Path]) -> bool:
        """True if the column's first values are names of picture files, without their endings."""
        names = [str(value).strip() for value in self._values(title)[:NAMES_TRIED]]
        if not names or any(unsafe_reason(name) or " " in name for name in names):
            return False
        return any(all(find_file(folder, name) for name in names) for folder in folders)

    def _wordiest(self, titles: Sequence[str]) -> list[str]:
        """Guess the caption column: among columns of several words, the one with the most different, longest texts."""
        weights = {}
        for title in titles:
            texts = []
            for value in self._values(title):
                captions = collect(partial(records.captions_of_row, {title: value}, [title], ""), [])
                texts += [text.strip() for text, _ in captions or () if text]
            worded = sum(" " in text or not text.isascii() for text in texts)
            if 2 * worded >= max(1, len(texts)) and title not in self.addresses():
                different = set(texts)
                weights[title] = sum(map(len, different))
        return [max(weights, key=lambda title: weights[title])] if weights else []

    def _split_column(self) -> str:
        """Return the column "split", or else one whose values are all names of splits."""
        if "split" in self.titles:
            return "split"
        return next((title for title in self.titles if self._share(title, is_split) == 1), "")


def is_picture(value: object) -> bool:
    """True for the name of a picture file."""
    return isinstance(value, str) and "://" not in value and value.strip().lower().endswith(ENDINGS)


def is_split(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() in SPLIT_NAMES


def _checked(value: Any, where: str) -> Row:
    if isinstance(value, dict):
        return value
    raise InputError.at(where, f"is {shown(str(value))}", "an object of columns and values")


def _check_titles(titles: Sequence[str], columns: Sequence[str], where: str) -> None:
    """Raise InputError if a title repeats, or if a column to read is missing."""
    repeated = [title for title, count in Counter(titles).items() if title and count > 1]
    if repeated:
        problem = f"the title {shown(repeated[0])} occurs twice"
        raise InputError.at(where, problem, "every title once", "rename or remove one of the columns")
    if missing := [name for name in columns if name not in titles]:
        problem = f"the header is {', '.join(map(shown, titles[:12]))}"
        fix = "name the columns in the first line"
        raise InputError.at(where, problem, f"a column {' and '.join(missing)}", fix)


def _json_rows(file: Path, faults: list[Fault]) -> Iterator[tuple[str, Row]]:
    value = read_json(file, faults)
    if isinstance(value, dict):
        mapping = [{FILE_NAME: key, "caption": text} for key, text in value.items()]
        lists = _lists_in(value) or {"": mapping}
    elif isinstance(value, list):
        lists = {"": value}
    else:
        raise InputError.at(file, f"is {shown(str(value))}", "a list of objects")
    for name, items in lists.items():
        for number, item in enumerate(items):
            where = f"{file} {name}[{number}]"
            yield where, _checked(item, where)
    unread = [shown(key) for key, items in _lists_of_objects(value).items() if key not in lists]
    fix = "write one list, or lists named train, val and test"
    faults += count_cases(file, "lists of objects are not read", unread, "one list of objects", fix)


def _lists_of_objects(value: Any) -> dict[str, list[Any]]:
    """Return the lists of an object that begin with an object, by key."""
    if not isinstance(value, dict):
        return {}
    lists = {key: items for key, items in value.items() if isinstance(items, list) and items}
    return {key: items for key, items in lists.items() if isinstance(items[0], dict)}


def _lists_in(value: Row) -> dict[str, list[Any]]:
    """Return the lists of rows in an object: those named after splits, whose rows get this split, or else the first."""
    lists = _lists_of_objects(value)
    if lists and all(is_split(key) for key in lists):
        return {key: [_in_split(item, key) for item in items] for key, items in lists.items()}
    return dict(islice(lists.items(), 1))


def _in_split(item: Any, split: str) -> Any:
    return {"split": split} | item if isinstance(item, dict) else item


def open_table(file: Path, folders: Sequence[Path] = (), *, titled: bool = False) -> Table:
    """Read the titles and the first rows of a table; both are empty if the file is not one. `titled`: its first line has
    the titles. Otherwise it has none if it names a picture, also one in `folders` without its ending."""
    if file.suffix == ".parquet":
        return collect(partial(_parquet_head, file), []) or Table(file, [], [])

    text = head_text(file)
    if file.suffix in (".json", ".jsonl"):
        sample = _json_head(text, folders, lines=file.suffix == ".jsonl")
        titles = [title for row in sample for title in row]
        return Table(file, list(dict.fromkeys(titles)), sample)

    line = text.split("\n", 1)[0]
    delimiter = "\t" if "\t" in line else max(DELIMITERS, key=partial(_cuts, line))
    whole = text if len(text) < HEAD_BYTES else text[: text.rfind("\n") + 1]
    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in islice(csv.reader(whole.splitlines(keepends=True), delimiter=delimiter), SAMPLE_ROWS + 1):
            rows.append(row)

    titles = [title.strip() for title in rows[0]] if rows and delimiter in line else []
    headless = not titled and any(_begins_rows(title, folders) for title in titles)
    rows = rows if headless else rows[1:]
    titles = [str(number) for number in range(1, len(titles) + 1)] if headless else titles
    sample = [dict(zip(titles, row, strict=False)) for row in rows] if titles else []
    return Table(file, titles, sample, delimiter, headless)


def _cuts(line: str, delimiter: str) -> tuple[bool, int]:
    """Return whether a delimiter cuts the name of a picture out of a line, and how often it occurs there."""
    return any(map(is_picture, line.split(delimiter))), line.count(delimiter)


def _begins_rows(title: str, folders: Sequence[Path]) -> bool:
    """True if a field of the first line is the name of a picture or an address, so that the line is not a header."""
    if is_picture(title) or "://" in title:
        return True
    is_name = " " not in title and not unsafe_reason(title)
    return is_name and any(find_file(folder, title) for folder in folders)


def head_text(file: Path) -> str:
    """Return the first 64 KiB of a file as text, to recognise its layout; "" if it cannot be read."""
    if not file.is_file():  # a pipe
        return ""
    try:
        with file.open("rb") as content:
            head = content.read(HEAD_BYTES)
    except OSError:
        return ""
    mark = next((mark for mark in OTHER_MARKS if head.startswith(mark)), b"")
    encoding = OTHER_MARKS[mark] if mark else "utf-8-sig"
    return codecs.decode(head, encoding, "replace")


def _parquet_head(file: Path) -> Table:
    """Read the head of a Parquet file's columns of texts, numbers and lists of texts."""
    content = open_parquet(file, [])
    titles, unread = plain_columns(content)
    rows = islice(parquet_rows(content, file, titles), SAMPLE_ROWS)
    return Table(file, titles, [row for _, _, row in rows], unread=unread)


def _json_head(text: str, folders: Sequence[Path], *, lines: bool) -> list[Row]:
    """Return the first objects of JSON lines or of the start of a JSON file."""
    text = text.lstrip()
    if lines or text.startswith("["):
        return [item for item in _values_in(text.lstrip("[")) if isinstance(item, dict)]

    pairs = _values_in(text.removeprefix("{"))
    keys = pairs[::2]
    values = pairs[1::2]
    if len(keys) > len(values):  # the last value is longer than the text: a list of objects?
        _, _, rest = text.partition(json.dumps(keys[-1], ensure_ascii=False))
        rest = rest.lstrip(" \t\r\n:")
        values.append(_values_in(rest.removeprefix("[")) if rest.startswith("[") else None)

    content = {key: value for key, value in zip(keys, values, strict=False) if isinstance(key, str)}
    if lists := _lists_in(content):
        return [item for items in lists.values() for item in items if isinstance(item, dict)][:SAMPLE_ROWS]

    named = [key for key in content if _begins_rows(key, folders)]
    is_mapping = named and all(isinstance(value, str | list) for value in content.values())
    return [{FILE_NAME: key, "caption": text} for key, text in content.items()] if is_mapping else []


def _values_in(text: str) -> list[Any]:
    """Return the whole JSON values at the start of a text, separated by spaces, commas or colons."""
    decoder = json.JSONDecoder()
    values: list[Any] = []
    position = 0
    with suppress(ValueError, RecursionError):
        while len(values) < 2 * SAMPLE_ROWS:
            while position < len(text) and text[position] in " \t\r\n,:":
                position += 1
            value, position = decoder.raw_decode(text, position)
            values.append(value)
    return values


def table_records(
    table: Table, columns: TableColumns, faults: list[Fault], *, prefix: str = "", split: str = ""
) -> Iterator[Record]:
    """Yield the records of a table. `prefix`: added to the names. `split`: of rows that name none."""
    wanted = [columns.image, *columns.captions, *([columns.split] if columns.split else [])]
    faults += records.unread_columns(table.unread, table.file)
    for where, row in table.rows(faults, wanted):
        name = row.get(columns.image)
        name = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
        if not isinstance(name, str) or not name.strip():
            problem = f"has {columns.image} {shown(str(name))}"
            faults.append(Fault(where, problem, "the name of a picture file", "name the picture"))
            continue
        name = name.removeprefix("./")
        name = name if name.startswith("/") else prefix + name
        # a column without a title is not one of splits
        named = row.get(columns.split) if columns.split else None
        of_row = collect(partial(split_value, named, f"{where}, column split"), faults)
        captions = collect(partial(records.captions_of_row, row, columns.captions, where), faults)
        if of_row is not None:
            others = records.other_columns(row, wanted)
            for caption, language in captions or ():
                yield Record(name, caption, where, of_row or split, language=language, columns=others)


def _find_metadata(path: Path) -> list[Path]:
    """Find the metadata files of the folder and of folders in it."""
    inner = [file for folder in records.folders_in(path) for file in records.matching(folder, METADATA)]
    return [*records.matching(path, METADATA), *inner]


def _imagefolder(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        table = open_table(file, titled=True)
        inner = file.parent.relative_to(root)
        prefix = "" if file.parent == root else f"{inner.as_posix()}/"
        others = [title for title in table.titles if title != FILE_NAME]
        captions = records.titled_captions(others)
        if not captions and FILE_NAME in table.titles:
            raise records.no_captions(others, file)
        columns = TableColumns(FILE_NAME, captions, "split" if "split" in table.titles else "")
        yield from table_records(table, columns, faults, prefix=prefix, split=split_of_path(inner))


def _candidates(folder: Path) -> list[Path]:
    """List the files of a folder that may be tables: not those beside a picture of the same name."""
    patterns = [f"*{suffix}" for suffix in (*SUFFIXES, TEXT)]
    files = records.matching(folder, patterns)
    texts = [file for file in files if file.suffix == TEXT]
    return files if len(texts) <= MOST_TEXTS else [file for file in files if file.suffix != TEXT]


def _find_tables(path: Path, *, image: str, caption: str) -> list[Path]:
    root = records.folder_of(path)
    folders = records.picture_folders(root)

    def is_table(file: Path) -> bool:
        near = [*folders, *records.picture_folders(file.parent)] if file.parent != root else folders
        return open_table(file, near).columns(image, caption, near) is not None

    if path.is_file():
        return [path] if path.suffix in (*SUFFIXES, TEXT) and is_table(path) else []
    for place in ([path], *([path / name] for name in records.DATA_FOLDERS), records.folders_in(path)):
        found = [file for folder in place for file in _candidates(folder)]
        if tables := [file for file in found if is_table(file)]:
            return tables
    return []


def _table_records(
    files: list[Path], root: Path, faults: list[Fault], *, image: str, caption: str
) -> Iterator[Record]:
    of_root = records.picture_folders(root)
    for file in files:
        folders = [*of_root, *records.picture_folders(file.parent)] if file.parent != root else of_root
        table = open_table(file, folders)
        columns = table.columns(image, caption, folders)
        if columns is None:  # changed since it was found
            raise InputError.at(
                file, "has no columns of pictures and captions", "a table", "repeat the command"
            )
        captions = ", ".join(map(shown, columns.captions))
        fact = f"pictures are in the column {shown(columns.image)}, captions in {captions}"
        fix = "name others with --image-column and --caption-column"
        faults.append(Fault(str(file), fact, fix=fix, severity="note"))
        split = split_of_path(file.relative_to(root).with_suffix(""))
        prefix = _prefix(table, columns.image, root, of_root, split)
        yield from table_records(table, columns, faults, prefix=prefix, split=split)


def _prefix(table: Table, image: str, root: Path, of_root: Sequence[Path], split: str) -> str:
    """Return what leads from `root` to the pictures of a table, see `inner_prefix`."""
    values = [row.get(image) for row in table.sample[:NAMES_TRIED]]
    names = [str(value).removeprefix("./") for value in values if value]
    return inner_prefix(names, table.file.parent, root, of_root, split)


def table_layout(image: str = "", caption: str = "") -> Layout:
    """Return the layout of tables with these picture and caption columns; "" guesses a column."""
    find = partial(_find_tables, image=image, caption=caption)
    read = partial(_table_records, image=image, caption=caption)
    return Layout("table", find, read, records.picture_folders)


IMAGEFOLDER = Layout("imagefolder", _find_metadata, _imagefolder)
