"""Pictures stored together with their captions: image folders, parquet files, tar files, img2dataset's folders.

An image folder has metadata.csv, .jsonl or .parquet with file_name and captions, as in Hugging Face's imagefolder.
Parquet files have a picture column such as image, of bytes or struct{bytes, path}, and captions as string or list.
img2dataset writes numbered folders of .jpg, .txt and .json, or tar files of the same, which webdataset reads.
"""

import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned import records
from coder_core.data.captioned.positions import open_parquet, parquet_rows, picture_column
from coder_core.data.captioned.records import Layout, Once, Record
from coder_core.data.lines import composed, count_cases, numbered_lines, parse_json, plain_file, shown
from coder_core.data.pictures import ENDINGS, INSIDE, unsafe_reason

METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FILE_NAME = "file_name"
LARGEST_TEXT = 1 << 20  # bytes read of a .txt or .json file
TEXTS = (".txt", ".json")
SHARD = "-of-"  # in train-00000-of-00002.parquet
PICTURES_TRIED = 20  # pictures of a folder checked for a text beside them


def _find_imagefolder(path: Path) -> list[Path]:
    """Find the metadata files of the folder and of the split folders in it."""
    inner = (file for name in METADATA for file in sorted(path.glob(f"*/{name}")) if file.is_file())
    return [*records.matching(path, *METADATA), *inner]


def _imagefolder(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        inner = file.parent.relative_to(root).as_posix()
        prefix = "" if inner == "." else f"{inner}/"
        yield from row_records(metadata_rows(file, faults), file, faults, prefix=prefix)


def row_records(
    rows: Iterable[tuple[str, dict[str, Any]]],
    file: Path,
    faults: list[Fault],
    *,
    image: str = FILE_NAME,
    captions: Sequence[str] = (),
    prefix: str = "",
    split: str = "",
    start: str = "",
) -> Iterator[Record]:
    """Yield the records of table rows (location, column → value). Without `captions`, their columns are found by title.
    `split`: of pictures whose column "split" and folder name none. Names lose a leading `start` or ./ and gain `prefix`."""
    for where, row in rows:
        name = row.pop(image, None)
        if not isinstance(name, str) or not name.strip():
            problem = f"has {image} {shown(str(name))}"
            faults.append(Fault(where, problem, "the name of a picture file", "name the picture"))
            continue
        name = prefix + name.removeprefix(start).removeprefix("./")
        of_row = records.split_name(row["split"]) if isinstance(row.get("split"), str) else ""
        of_row = of_row or records.SPLIT_NAMES.get(name.split("/", 1)[0].lower(), "")
        columns = captions or records.caption_columns(list(row), file)
        for caption in collect(partial(records.captions_of_row, row, columns, where), faults) or ():
            yield Record(name, caption, where, of_row or split)


def metadata_rows(
    file: Path, faults: list[Fault], image: str = FILE_NAME, delimiter: str = ",", titles: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (location, column → value) for every row; `titles` are the columns of a CSV file without a header."""
    if file.suffix in (".csv", ".tsv"):
        yield from records.csv_rows(file, (image,), faults, delimiter, titles)
    elif file.suffix == ".jsonl":
        for where, line in numbered_lines(file, "JSON object", faults):
            value = parse_json(line, where)
            yield where, value if isinstance(value, dict) else {}
    elif file.suffix == ".json":
        for number, value in enumerate(parse_json(plain_file(file, faults).read_bytes(), file)):
            yield f"{file} [{number}]", value if isinstance(value, dict) else {}
    else:
        for number, (_, _, row) in enumerate(parquet_rows(open_parquet(file, faults), file)):
            yield f"{file} row {number}", row


def _find_parquet(path: Path) -> list[Path]:
    def holds_pictures(file: Path) -> bool:
        return bool(collect(lambda: picture_column(open_parquet(file, [])), []))

    return list(filter(holds_pictures, records.matching_or_split(path, "*.parquet")))


def _parquet(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for number, file in enumerate(files):
        content = open_parquet(file, faults)
        titles = content.schema_arrow.names
        image, is_struct, _ = picture_column(content).partition(".")
        captions = records.caption_columns([title for title in titles if title != image], file)
        names = [title for title in ("file_name", "filename") if title in titles]
        columns = [*captions, *names, *(["split"] if "split" in titles else [])]
        if is_struct and "path" in content.schema_arrow.field(image).type.names:
            columns.append(f"{image}.path")
        inner = file.parent.relative_to(root).name
        prefix = f"{inner}/" if inner.lower() in records.SPLIT_NAMES else ""
        own = re.match("[A-Za-z]+", file.name) if SHARD in file.name else None
        split_of_file = records.split_in(f"{inner}-{file.stem}") or (own[0].lower() if own else "")
        for group, row, values in parquet_rows(content, file, columns):
            where = f"{file} row group {group} row {row}"
            path = (values.get(image) or {}).get("path") or f"{prefix}{file.stem}-{group}-{row}"
            name = str(next((values[title] for title in names if values[title]), path))
            split = records.split_name(values["split"]) if values.get("split") else split_of_file
            for text in records.captions_of_row(values, captions, where):
                yield Record(name, text, where, split, (number, group, row))


def _captions_beside(texts: Mapping[str, bytes], where: str, *, per_line: bool) -> list[str]:
    """Read a picture's captions from its .txt (one per line with `per_line`, else all lines as one) or else its .json;
    [""] if there are none."""
    if ".txt" in texts:
        text = texts[".txt"]
        try:
            content = text.decode("utf-8-sig").strip()
        except UnicodeDecodeError as error:
            problem = f"the byte 0x{text[error.start]:02x} is not UTF-8"
            at = f"{where}.txt, byte {error.start + 1}"
            raise InputError.at(at, problem, "UTF-8 text", "save it as UTF-8") from None
        lines = [line.strip() for line in content.split("\n")]
        return [line for line in lines if line] or [""] if per_line else [" ".join(content.split("\n"))]
    if ".json" in texts:
        file = f"{where}.json"
        value = parse_json(texts[".json"].decode("utf-8", "replace"), file)
        if not isinstance(value, dict):
            raise InputError.at(file, f"is {shown(repr(value))}", '{"caption": "a dog runs"}')
        return records.captions_of_row(value, records.caption_columns(list(value), file), file)
    return [""]


def _holds_pair(folder: Path) -> bool:
    """True if one of a folder's first pictures has its .txt or .json beside it."""
    files = (file for file in folder.iterdir() if not file.name.startswith("."))
    pictures = (file for file in files if file.suffix.lower() in ENDINGS)
    return any(file.with_suffix(end).is_file() for file in islice(pictures, PICTURES_TRIED) for end in TEXTS)


def _find_beside(path: Path) -> list[Path]:
    """Find the folders, `path` and those in it, that have pictures with their .txt or .json."""
    folders = [folder for folder in (path, *sorted(path.glob("*"))) if folder.is_dir()]
    return [folder for folder in folders if os.access(folder, os.R_OK) and _holds_pair(folder)]


def _find_folders(path: Path) -> list[Path]:
    """Find the folders named by numbers only, if one of the first three has a picture with its .txt or .json."""
    folders = [folder for folder in sorted(path.glob("[0-9]*")) if folder.is_dir() and folder.name.isdigit()]
    return folders if any(_holds_pair(folder) for folder in folders[:3]) else []


def _folders(folders: list[Path], root: Path, faults: list[Fault], *, per_line: bool) -> Iterator[Record]:
    strays: list[str] = []
    for folder in folders:
        files = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
        prefix = "" if folder == root else f"{folder.name}/"
        split = records.SPLIT_NAMES.get(folder.name.lower(), "") if prefix else ""
        pictures = {composed(file.stem): file for file in files if file.suffix.lower() in ENDINGS}
        texts = {composed(file.name): file for file in files if file.suffix in TEXTS}
        alone = (name for name in texts if name.endswith(".txt") and name[:-4] not in pictures)
        strays += [shown(prefix + name) for name in alone]
        for key, picture in pictures.items():
            beside = {end: texts[key + end] for end in TEXTS if key + end in texts}
            read = partial(_captions_of_files, beside, str(folder / key), faults, per_line=per_line)
            for caption in collect(read, faults) or ():
                yield Record(prefix + picture.name, caption, str(picture), split)
    faults += count_cases(root, "captions have no picture beside them and are left out", strays)


def _captions_of_files(
    beside: dict[str, Path], where: str, faults: list[Fault], *, per_line: bool
) -> list[str]:
    """Read the captions in the first of a picture's text files."""
    read = {end: plain_file(file, faults).read_bytes()[:LARGEST_TEXT] for end, file in [*beside.items()][:1]}
    return _captions_beside(read, where, per_line=per_line)


def _find_tars(path: Path) -> list[Path]:
    return [file for folder in (path, *sorted(path.glob("*/"))) for file in records.matching(folder, "*.tar")]


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
        inner = file.parent.relative_to(root).as_posix()
        split = records.SPLIT_NAMES.get(inner.split("/", 1)[0].lower(), "")
        folder = "" if len(files) == 1 else f"{file.relative_to(root).with_suffix('').as_posix()}/"
        for sample in _samples(file, faults):
            where = f"{file}, {shown(sample.key)}"
            if sample.picture is None:
                strays.append(f"{file.name}, {shown(sample.key)}")
                continue
            if not once.add(folder + sample.key, str(file), where):
                continue
            read = partial(_captions_beside, sample.texts, where, per_line=True)
            ending, offset, size = sample.picture
            for caption in collect(read, faults) or ():
                yield Record(folder + sample.key + ending, caption, where, split, (number, offset, size))
    faults += count_cases(root, "captions have no picture of the same name and are left out", strays)


def _samples(file: Path, faults: list[Fault]) -> Iterator[_Sample]:
    """Yield the samples of a tar file: adjacent members whose names are equal up to the first dot."""
    plain_file(file, faults)
    once = Once("key", faults)
    try:
        with tarfile.open(file, "r:", errorlevel=1) as content:
            sample = _Sample()
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
                    sample = _Sample(key)
                if ending in ENDINGS:
                    sample.picture = (ending, member.offset_data, member.size)
                elif ending in TEXTS and member.size <= LARGEST_TEXT:
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


ARCHIVES = (
    Layout("imagefolder", _find_imagefolder, _imagefolder),
    Layout("parquet", _find_parquet, _parquet, packed="parquet"),
    Layout("webdataset", _find_tars, _tars, packed="tar"),
    Layout("img2dataset", _find_folders, partial(_folders, per_line=False)),
)
TEXT_FILES = Layout("text-files", _find_beside, partial(_folders, per_line=True))
