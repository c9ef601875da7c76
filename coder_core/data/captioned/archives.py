"""Pictures stored together with their captions: Parquet files, tar files, and folders with a text beside each picture.

Parquet files have a picture column such as image, of bytes or struct{bytes, path}, and captions as string or list.
img2dataset writes numbered folders of .jpg, .txt and .json, or tar files of the same, which webdataset reads.
"""

import hashlib
import os
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned import records
from coder_core.data.captioned.positions import (
    ParquetRows,
    open_parquet,
    parquet_rows,
    picture_column,
    plain_columns,
)
from coder_core.data.captioned.records import Layout, Record
from coder_core.data.captioned.splits import split_in, split_of_path, split_value
from coder_core.data.captioned.tables import open_table
from coder_core.data.lines import Once, composed, count_cases, decode_text, parse_json_text, plain_file, shown
from coder_core.data.pictures import ENDINGS, INSIDE, unsafe_reason

LARGEST_TEXT = 1 << 20  # bytes read of a .txt or .json file
TEXTS = (".txt", ".json")
SHARD = "-of-"  # in train-00000-of-00002.parquet
BASE64 = "_imgs.tsv"  # of Chinese-CLIP: id, tab, the picture's file in base64
PICTURES_TRIED = 20  # pictures of a folder checked for a text beside them


def _find_parquet(path: Path) -> list[Path]:
    def holds_pictures(file: Path) -> bool:
        return bool(collect(lambda: picture_column(open_parquet(file, [])), []))

    return list(filter(holds_pictures, records.matching_below(path, "*.parquet")))


def _parquet(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    def rows(notes: list[Fault]) -> Iterator[_PictureRow]:
        for number, file in enumerate(files):
            yield from _parquet_file(number, file, root, notes)

    seen: set[int] = set()
    repeated: set[int] = set()
    for row in rows([]):
        key = hash((row.split, row.name))
        if key in seen:
            repeated.add(key)
        seen.add(key)
    same = [row for row in rows([]) if hash((row.split, row.name)) in repeated] if repeated else []
    names = _tell_apart(files, same, faults)
    for row in rows(faults):
        name = names.get(row.position, row.name)
        for text, language in row.captions:
            yield Record(
                name, text, row.where, row.split, row.position, language=language, columns=row.columns
            )


class _PictureRow(NamedTuple):
    """One row of a Parquet file of pictures."""

    name: str
    captions: list[tuple[str, str]]  # text and language
    where: str
    split: str
    position: tuple[int, int, int]  # file, row group, row in it
    columns: Mapping[str, Any]  # title → value of the other columns


def _parquet_file(number: int, file: Path, root: Path, faults: list[Fault]) -> Iterator[_PictureRow]:
    content = open_parquet(file, faults)
    titles = content.schema_arrow.names
    image, is_struct, _ = picture_column(content).partition(".")

    captions = records.caption_columns([title for title in titles if title != image], file)
    names = [title for title in ("file_name", "filename") if title in titles]
    columns = [*captions, *names, *(["split"] if "split" in titles else [])]
    used = {image, *columns}

    plain, unread = plain_columns(content)
    others = [title for title in plain if title not in used]
    faults += records.unread_columns({title: why for title, why in unread.items() if title not in used}, file)
    columns += others
    if is_struct and "path" in content.schema_arrow.field(image).type.names:
        columns.append(f"{image}.path")

    inner = file.parent.relative_to(root)
    prefix = _prefix(inner)
    split_of_file = split_of_path(inner / file.stem) or _split_of_shard(file.name)
    for group, row, values in parquet_rows(content, file, columns):
        where = f"{file} row group {group} row {row}"
        path = (values.get(image) or {}).get("path") or f"{prefix}{file.stem}-{group}-{row}"
        name = str(next((values[title] for title in names if values[title]), path))
        split = split_value(values.get("split"), f"{where}, column split") or split_of_file
        texts = records.captions_of_row(values, captions, where)
        values_of_others = {title: values[title] for title in others}
        yield _PictureRow(name, texts, where, split, (number, group, row), values_of_others)


def _prefix(inner: Path) -> str:
    """Return what the names of pictures begin with in files of the folder `inner` of a data set."""
    if inner.as_posix() in (".", *records.DATA_FOLDERS):
        return ""
    return f"{inner.name}/" if split_in(inner.name) else f"{inner.as_posix()}/"


def _split_of_shard(name: str) -> str:
    """Return the first word of a name such as validation-00000-of-00002.parquet; "" for other names."""
    word = re.match("[A-Za-z]+", name) if SHARD in name else None
    return word[0].lower() if word else ""


def _tell_apart(
    files: Sequence[Path], rows: Sequence[_PictureRow], faults: list[Fault]
) -> dict[tuple[int, int, int], str]:
    """Compare rows whose names repeat: those of one name and split are one picture if their bytes are equal. Return new
    names of the others, position → name with file, row group and row; a warning counts them."""
    positions = np.array([row.position for row in rows], np.int64).reshape(-1, 3)
    pictures = ParquetRows(files, [row.name for row in rows], positions)
    first: dict[tuple[str, str], bytes] = {}
    known: dict[tuple[str, str, bytes], str] = {}
    names = {}
    cases = []
    for number, row in enumerate(rows):
        content = collect(partial(pictures.read, number), []) or b""
        digest = hashlib.sha256(content).digest()
        if first.setdefault((row.split, row.name), digest) == digest:
            continue
        file, group, position = row.position
        own = f"{row.name} ({files[file].stem}-{group}-{position})"
        names[row.position] = known.setdefault((row.split, row.name, digest), own)
        if names[row.position] == own:
            cases.append(f"{row.where}, {shown(row.name)}")

    fact = "pictures share the name of another one and are told apart by file, row group and row"
    faults += count_cases(files[0].parent, fact, cases, "a name for every picture")
    return names


class _Beside(NamedTuple):
    """What the texts beside a picture contain."""

    captions: list[tuple[str, str]]  # text and language
    columns: Mapping[str, Any] = records.NOTHING_ELSE  # title → value, of its .json


def _read_beside(texts: Mapping[str, bytes], where: str, *, per_line: bool) -> _Beside:
    """Read a picture's captions and their languages from its .txt (one per line with `per_line`, else all lines as one)
    or else its .json; [("", "")] if there are none. The other keys of the .json are columns. InputError: the text
    cannot be decoded."""
    if ".txt" in texts:
        content = decode_text(texts[".txt"], f"{where}.txt", []).strip()
        lines = [line.strip() for line in content.split("\n")]
        captions = [" ".join(lines)]
        if per_line:
            captions = [line for line in lines if line] or [""]
        values = collect(partial(_json_object, texts, where), []) or {}
        columns = records.other_columns(values, records.titled_captions(list(values)))
        return _Beside([(caption, "") for caption in captions], columns)

    if ".json" in texts:
        file = f"{where}.json"
        values = _json_object(texts, where)
        titles = records.caption_columns(list(values), file)
        captions_of_json = records.captions_of_row(values, titles, file)
        return _Beside(captions_of_json, records.other_columns(values, titles))

    return _Beside([("", "")])


def _json_object(texts: Mapping[str, bytes], where: str) -> dict[str, Any]:
    """Return the object in a picture's .json; {} without one. InputError: it is something else, or is damaged."""
    if ".json" not in texts:
        return {}
    file = f"{where}.json"
    value = parse_json_text(texts[".json"], file)
    if isinstance(value, dict):
        return value
    raise InputError.at(file, f"is {shown(repr(value))}", '{"caption": "a dog runs"}')


def _holds_pair(folder: Path) -> bool:
    """True if one of a folder's first pictures has its .txt or .json beside it."""
    files = (file for file in folder.iterdir() if not file.name.startswith("."))
    pictures = (file for file in files if file.suffix.lower() in ENDINGS)
    return any(file.with_suffix(end).is_file() for file in islice(pictures, PICTURES_TRIED) for end in TEXTS)


def _find_beside(path: Path) -> list[Path]:
    """Find the folders, `path` and those in it, that have pictures with their .txt or .json."""
    folders = [folder for folder in (path, *records.folders_in(path)) if folder.is_dir()]
    return [folder for folder in folders if os.access(folder, os.R_OK) and _holds_pair(folder)]


def _find_folders(path: Path) -> list[Path]:
    """Find the folders named by numbers only, if one of the first three has a picture with its .txt or .json."""
    folders = [folder for folder in records.folders_in(path) if folder.name.isdigit()]
    return folders if any(_holds_pair(folder) for folder in folders[:3]) else []


def _folders(folders: list[Path], root: Path, faults: list[Fault], *, per_line: bool) -> Iterator[Record]:
    strays: list[str] = []
    for folder in folders:
        files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
        inner = folder.relative_to(root)
        prefix = "" if folder == root else f"{inner.as_posix()}/"
        texts = {composed(file.name): file for file in files if file.suffix in TEXTS}
        pictures: dict[str, Path] = {}
        once = Once("name", faults)  # of a picture with a text beside it, without its ending
        for file in (file for file in files if file.suffix.lower() in ENDINGS):
            key = composed(file.stem)
            if not any(key + end in texts for end in TEXTS) or once.add(key, str(file)):
                pictures[key] = file
        alone = (name for name in texts if name.endswith(".txt") and name[:-4] not in pictures)
        strays += [shown(prefix + name) for name in alone]
        for key, picture in pictures.items():
            beside = {end: texts[key + end] for end in TEXTS if key + end in texts}
            read = partial(_read_files, beside, str(folder / key), faults, per_line=per_line)
            split = split_of_path(inner)
            found = collect(read, faults) or _Beside([])
            for caption, language in found.captions:
                name = prefix + picture.name
                yield Record(name, caption, str(picture), split, language=language, columns=found.columns)

    faults += count_cases(root, "captions have no picture beside them and are left out", strays)


def _read_files(beside: dict[str, Path], where: str, faults: list[Fault], *, per_line: bool) -> _Beside:
    """Read a picture's text files."""
    read = {end: plain_file(file, faults).read_bytes()[:LARGEST_TEXT] for end, file in beside.items()}
    return _read_beside(read, where, per_line=per_line)


def _find_tars(path: Path) -> list[Path]:
    folders = (path, *records.folders_in(path))
    return [file for folder in folders for file in records.matching(folder, ["*.tar"])]


@dataclass
class _Sample:
    """Members of a tar file with the same key."""

    key: str = ""
    picture: tuple[str, int, int] | None = None  # ending, offset, bytes
    texts: dict[str, bytes] = field(default_factory=dict)


def _tars(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    strays: list[str] = []
    once = Once("key", faults)
    for number, file in enumerate(files):
        split = split_of_path(file.relative_to(root).with_suffix(""))
        folder = "" if len(files) == 1 else f"{file.relative_to(root).with_suffix('').as_posix()}/"
        for sample in _samples(file, faults):
            where = f"{file}, {shown(sample.key)}"
            if sample.picture is None:
                strays.append(f"{file.name}, {shown(sample.key)}")
                continue
            if not once.add(folder + sample.key, str(file), where):
                continue
            read = partial(_read_beside, sample.texts, where, per_line=True)
            ending, offset, size = sample.picture
            name = folder + sample.key + ending
            position = (number, offset, size)
            found = collect(read, faults) or _Beside([])
            for caption, language in found.captions:
                columns = found.columns
                yield Record(name, caption, where, split, position, language=language, columns=columns)

    faults += count_cases(root, "captions have no picture of the same name and are left out", strays)


def _samples(file: Path, faults: list[Fault]) -> Iterator[_Sample]:
    """Yield the samples of a tar file: adjacent members whose names are equal up to the first dot."""
    plain_file(file, faults)
    once = Once("key", faults)
    try:
        with tarfile.open(file, "r:", errorlevel=1) as content:
            sample = _Sample()
            parts: dict[str, Once] = {}
            for number, member in enumerate(content):
                content.members = []  # type: ignore[attr-defined]  # otherwise it keeps all members in memory
                path = PurePosixPath(member.name.removeprefix("./"))
                is_hidden = path.name.startswith(".")
                if member.isdir() or is_hidden or not _is_sound(member, file, faults):
                    continue
                stem, dot, ending = path.name.partition(".")
                key = (path.parent / stem).as_posix()
                ending = f"{dot}{ending}".lower()
                if key != sample.key:
                    if sample.key:
                        yield sample
                    once.add(key, f"{file}, member {number}")
                    parts = {part: Once(part, faults) for part in ("picture", "text")}
                    sample = _Sample(key)
                place = f"{file}, member {number}"
                named = f"{file}, {shown(member.name)}"
                if ending in ENDINGS:
                    parts["picture"].add(key, place, named)
                    sample.picture = (ending, member.offset_data, member.size)
                elif ending in TEXTS:
                    parts["text"].add(key + ending, place, named)
                    if member.size <= LARGEST_TEXT:
                        reader = content.extractfile(member)
                        sample.texts[ending] = reader.read() if reader else b""
            if sample.key:
                yield sample
            _check_end(file, content.offset, faults)
    except InputError:
        raise
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        fix = "copy it again; a compressed one has to be unpacked first (gunzip)"
        raise InputError.at(file, f"cannot be read as a tar file: {error}", "a whole tar file", fix) from None


def _check_end(file: Path, offset: int, faults: list[Fault]) -> None:
    """Add a fault if two blocks of zeros do not follow the last member: `tarfile` stops there without an error."""
    with file.open("rb") as content:
        content.seek(offset)
        end = content.read(2 * tarfile.BLOCKSIZE)
    if any(end[: tarfile.BLOCKSIZE]):
        problem = f"has neither a file nor an end at byte {offset + 1:,}; what follows cannot be read"
    elif len(end) < 2 * tarfile.BLOCKSIZE or any(end):
        problem = f"was cut short: at byte {offset + 1:,} it lacks two blocks of zeros that end a tar file"
    else:
        return
    faults.append(Fault(str(file), problem, "a whole tar file", "copy it again, or write it again"))


def _is_sound(member: tarfile.TarInfo, file: Path, faults: list[Fault]) -> bool:
    """True for a plain file with a safe name; any other member adds a fault."""
    reason = unsafe_reason(member.name.removeprefix("./"))
    if not reason and member.isreg() and member.sparse is None:
        return True
    problem = f"the name {reason}" if reason else "is not a plain file"
    faults.append(Fault(f"{file}, {shown(member.name)}", problem, INSIDE, "write the tar file again"))
    return False


def _find_base64(path: Path) -> list[Path]:
    """Find Chinese-CLIP's files {split}_imgs.tsv that have {split}_texts.jsonl beside them."""
    files = records.matching_below(path, f"*{BASE64}")
    return [file for file in files if _texts_of(file).is_file()]


def _texts_of(file: Path) -> Path:
    return file.with_name(f"{file.name.removesuffix(BASE64)}_texts.jsonl")


def _base64(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    strays: list[str] = []
    for number, file in enumerate(files):
        split = split_of_path(file.relative_to(root).with_suffix(""))
        positions: dict[str, tuple[int, int, int]] = {}
        once = Once("id", faults)
        offset = 0
        with plain_file(file, faults).open("rb") as rows:
            for line, row in enumerate(rows, 1):
                name, _, content = row.rstrip(b"\r\n").partition(b"\t")
                key = decode_text(name, f"{file} line {line}", [])
                if once.add(key, f"{file} line {line}"):
                    positions[key] = (number, offset + len(name) + 1, len(content))
                offset += len(row)
        used = ("text_id", "text", "image_ids")
        for where, text in open_table(_texts_of(file)).rows(faults, used):
            columns = records.other_columns(text, used)
            ids = text.get("image_ids")
            images = [str(number) for number in ids] if isinstance(ids, list) else []
            for image in images:
                if image not in positions:
                    strays.append(f"{where}: image {shown(image)}")
                    continue
                caption_id = text.get("text_id") if len(images) == 1 else None
                is_number = isinstance(caption_id, int) and not isinstance(caption_id, bool)
                caption = str(text.get("text") or "")
                position = positions[image]
                number_of_text = caption_id if is_number else None
                yield Record(image, caption, where, split, position, number_of_text, columns=columns)

    faults += count_cases(root, "captions have no picture of their id and are left out", strays)


ARCHIVES = (
    Layout("chinese-clip", _find_base64, _base64, packed="tsv"),
    Layout("parquet", _find_parquet, _parquet, packed="parquet"),
    Layout("webdataset", _find_tars, _tars, packed="tar"),
    Layout("img2dataset", _find_folders, partial(_folders, per_line=False)),
)
TEXT_FILES = Layout("text-files", _find_beside, partial(_folders, per_line=True))
