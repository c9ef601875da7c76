"""Layout of img2dataset: numbered folders of .jpg, .txt and .json, or tar files of the same (webdataset)."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.records import (
    SPLIT_NAMES,
    Contents,
    Layout,
    Record,
    Tally,
    folder_of,
    json_value,
    matching,
)
from coder_core.data.lines import plain_file, shown
from coder_core.data.pictures import ENDINGS, INSIDE, unsafe_reason

LARGEST_TEXT = 1 << 20  # bytes of a .txt or .json
UTF8 = "UTF-8 text"


def captions_of(text: bytes, place: str, *, joined: bool) -> list[str]:
    """The captions of a .txt: one, or with `joined` one a line.

    Raises:
        InputError: not UTF-8.
    """
    try:
        content = text.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        problem = f"the byte 0x{text[error.start]:02x} is not UTF-8"
        raise InputError.at(f"{place}, byte {error.start + 1}", problem, UTF8, "save it as UTF-8") from None
    return [line.strip() for line in content.split("\n")] if joined else [" ".join(content.split("\n"))]


def caption_in_json(text: bytes, place: str) -> list[str]:
    """The caption of a .json that img2dataset wrote; [] where it has none."""
    value = json_value(text.decode("utf-8", "replace"), place)
    caption = value.get("caption") if isinstance(value, dict) else None
    return [caption] if isinstance(caption, str) and caption.strip() else []


def _numbered(path: Path) -> list[Path]:
    """Folders named by numbers only, which hold a picture with its .txt or .json."""
    if not path.is_dir():
        return []
    folders = [folder for folder in sorted(path.glob("[0-9]*")) if folder.is_dir() and folder.name.isdigit()]
    return folders if any(_first_pair(folder) for folder in folders[:3]) else []


def _first_pair(folder: Path) -> Path | None:
    pictures = (file for file in sorted(folder.iterdir()) if file.suffix.lower() in ENDINGS)
    first = next(pictures, None)
    return first if first and any(first.with_suffix(end).is_file() for end in (".txt", ".json")) else None


def _recognise_folders(path: Path) -> str:
    folders = _numbered(path)
    return f"{folders[0].name}/ holds pictures with .txt or .json beside them" if folders else ""


def _read_folders(path: Path, faults: list[Fault]) -> Contents:
    return Contents(_folder_records(path, faults), [path], source={"captions": str(path / "*/*.txt")})


def _folder_records(root: Path, faults: list[Fault]) -> Iterator[Record]:
    strays = Tally(str(root), "captions have no picture beside them and are left out")
    for folder in _numbered(root):
        pictures: dict[str, str] = {}
        texts: set[str] = set()
        for file in sorted(folder.iterdir()):
            if file.suffix.lower() in ENDINGS:
                pictures[file.stem] = file.name
            elif file.suffix in (".txt", ".json"):
                texts.add(file.name)
        for name in sorted(text for text in texts if text.endswith(".txt") and text[:-4] not in pictures):
            strays.add(shown(f"{folder.name}/{name}"))
        for key, name in pictures.items():
            try:
                captions = _beside(folder, key, texts, faults)
            except InputError as error:
                faults.extend(error.faults)
                continue
            for caption in captions or [""]:
                yield Record(f"{folder.name}/{name}", caption, str(folder / name))
    faults.extend(strays.faults())


def _beside(folder: Path, key: str, texts: set[str], faults: list[Fault]) -> list[str]:
    if f"{key}.txt" in texts:
        file = folder / f"{key}.txt"
        return captions_of(plain_file(file, faults).read_bytes()[:LARGEST_TEXT], str(file), joined=False)
    if f"{key}.json" in texts:
        file = folder / f"{key}.json"
        return caption_in_json(plain_file(file, faults).read_bytes()[:LARGEST_TEXT], str(file))
    return []


def _tars(path: Path) -> list[Path]:
    files = matching(path, "*.tar")
    return files + (sorted(file for file in path.glob("*/*.tar") if file.is_file()) if path.is_dir() else [])


def _recognise_tars(path: Path) -> str:
    files = _tars(path)
    return f"{files[0].relative_to(folder_of(path))} holds pictures and their captions" if files else ""


def _read_tars(path: Path, faults: list[Fault]) -> Contents:
    files = _tars(path)
    source = {
        "captions": f"{files[0]} and {len(files) - 1} more tar files" if len(files) > 1 else str(files[0])
    }
    return Contents(_tar_records(files, folder_of(path), faults), packed="tar", files=files, source=source)


@dataclass
class _Sample:
    """The members of one key."""

    picture: tuple[str, int, int] | None = None  # ending, offset, bytes
    texts: dict[str, bytes] = field(default_factory=dict)


def _tar_records(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    strays = Tally(str(root), "captions have no picture of the same name and are left out")
    keys: dict[str, Path] = {}
    for number, file in enumerate(files):
        inner = file.parent.relative_to(root).as_posix()
        split = SPLIT_NAMES.get(inner.split("/", 1)[0].lower(), "")
        for key, sample in _samples(file, faults):
            place = f"{file}, {shown(key)}"
            if sample.picture is None:
                strays.add(f"{file.name}, {shown(key)}")
                continue
            name = key if len(files) == 1 else f"{file.relative_to(root).with_suffix('').as_posix()}/{key}"
            if keys.setdefault(name, file) != file:
                faults.append(Fault(place, f"the key is also in {keys[name]}", "its own key", "rename one"))
                continue
            try:
                captions = (
                    captions_of(sample.texts[".txt"], f"{place}.txt", joined=True)
                    if ".txt" in sample.texts
                    else caption_in_json(sample.texts[".json"], f"{place}.json")
                    if ".json" in sample.texts
                    else []
                )
            except InputError as error:
                faults.extend(error.faults)
                continue
            ending, offset, size = sample.picture
            for caption in [text for text in captions if text] or [""]:
                yield Record(name + ending, caption, place, split, (number, offset, size))
    faults.extend(strays.faults())


def _samples(file: Path, faults: list[Fault]) -> Iterator[tuple[str, _Sample]]:
    """The samples of a tar file: members of one name up to the first dot, which stand together."""
    plain_file(file, faults)
    try:
        with tarfile.open(file, "r:", errorlevel=1) as content:
            key, sample = "", _Sample()
            seen: set[str] = set()
            for member in content:
                content.members = []  # type: ignore[attr-defined]  # or the list of all members stays in memory
                if member.isdir():
                    continue
                problem = unsafe_reason(member.name.removeprefix("./"))
                if problem or not member.isreg() or member.sparse is not None:
                    problem = f"the name {problem}" if problem else "is no plain file"
                    faults.append(
                        Fault(f"{file}, {shown(member.name)}", problem, INSIDE, "write the tar file again")
                    )
                    continue
                path = PurePosixPath(member.name.removeprefix("./"))
                stem, dot, ending = path.name.partition(".")
                own, ending = (path.parent / stem).as_posix(), f"{dot}{ending}".lower()
                if own != key:
                    if key:
                        yield key, sample
                    if own in seen:
                        faults.append(
                            Fault(f"{file}, {shown(own)}", "the key stands twice", "its own key", "rename it")
                        )
                    seen.add(own)
                    key, sample = own, _Sample()
                if ending in ENDINGS:
                    sample.picture = (ending, member.offset_data, member.size)
                elif ending in (".txt", ".json") and member.size <= LARGEST_TEXT:
                    reader = content.extractfile(member)
                    sample.texts[ending] = reader.read() if reader else b""
            if key:
                yield key, sample
    except (tarfile.TarError, OSError, EOFError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        fix = "copy it again; a compressed one has to be unpacked first (gunzip)"
        raise InputError.at(file, f"cannot be read as a tar file: {error}", "a whole tar file", fix) from None


DOWNLOADED = (
    Layout("webdataset", "*.tar of pictures with .txt or .json", _recognise_tars, _read_tars),
    Layout("img2dataset", "00000/000000000.jpg with .txt or .json", _recognise_folders, _read_folders),
)
