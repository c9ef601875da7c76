"""Captions in files beside the pictures: precomp captions with ids, Karpathy's JSON, COCO's JSON, image folders.

COCO's captions_train2017.json holds "images" and "annotations", and its name says the split. An image folder has
metadata.csv, .jsonl or .parquet with file_name and captions, as Hugging Face reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.captioned.positions import open_parquet, parquet_rows
from coder_core.data.captioned.records import (
    SPLIT_NAMES,
    Contents,
    Layout,
    Once,
    Record,
    Tally,
    caption_columns,
    captions_of_row,
    csv_rows,
    json_value,
    matching,
    split_name,
)
from coder_core.data.karpathy import read_annotations
from coder_core.data.lines import plain_file, read_lines, shown
from coder_core.data.precomp import SPLIT_NAME, name_pictures

PICTURE_FOLDERS = ("images", "flickr30k-images", "Images", "")  # beside precomp and Karpathy's files
COCO_FILE = re.compile(r"captions_(train|val|test|dev)(\d*).*\.json")
COCO_IMAGE = {"id": int, "file_name": str}
COCO_CAPTION = {"image_id": int, "id": int, "caption": str}
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
FILE_NAME = "file_name"


def _names(files: Sequence[Path]) -> dict[str, str]:
    return {"captions": ", ".join(map(str, files))}


def _folders(root: Path) -> list[Path]:
    parents = [root, root.resolve().parent] if root.resolve().name.endswith("precomp") else [root]
    return [parent / name for parent in parents for name in PICTURE_FOLDERS]


def _find_precomp(path: Path) -> list[Path]:
    """The caption files that have ids, in `path` or in the precomp folder in it."""
    if not path.is_dir():
        return []
    for folder in (path, path / "precomp", *sorted(path.glob("*_precomp"))):
        files = [file for file in sorted(folder.glob("*_caps.txt")) if SPLIT_NAME.fullmatch(_split_of(file))]
        if files := [file for file in files if file.with_name(f"{_split_of(file)}_ids.txt").exists()]:
            return files
    return []


def _split_of(file: Path) -> str:
    return file.name.removesuffix("_caps.txt")


def _parse_precomp(files: list[Path], root: Path, faults: list[Fault]) -> Contents:
    folder = files[0].parent
    source = {"captions": str(folder / "{split}_caps.txt"), "ids": str(folder / "{split}_ids.txt")}
    return Contents(_precomp(files, root, faults), _folders(root), source=source)


def _precomp(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    names = [_split_of(file) for file in files]
    for file, split in zip(files, names, strict=True):
        if split == "test" and "testall" in names:
            continue  # its first images
        ids_file = file.with_name(f"{split}_ids.txt")
        captions = read_lines(file, "caption", faults)
        ids = name_pictures(root, file.parent, read_lines(ids_file, "id", faults), faults)
        if not ids or not captions or len(captions) % len(ids):
            problem = f"{len(ids):,} ids for the {len(captions):,} captions of {file.name}"
            fix = "look for a missing or doubled line"
            raise InputError.at(ids_file, problem, "one id an image or one a caption", fix)
        each = len(captions) // len(ids)
        for line, caption in enumerate(captions):
            yield Record(ids[line // each], caption, f"{file} line {line + 1}", split_name(split))


def _find_karpathy(path: Path) -> list[Path]:
    files = matching(path, "dataset*.json")
    return files if len(files) == 1 else []


def _parse_karpathy(files: list[Path], root: Path, faults: list[Fault]) -> Contents:
    records = (
        Record(image.name, caption, f"{files[0]}, imgid {image.imgid}", image.split, caption_id=number)
        for image in read_annotations(files[0], faults).images
        for caption, number in zip(image.captions, image.caption_ids, strict=True)
    )
    return Contents(records, _folders(root), source=_names(files))


def _find_coco(path: Path) -> list[Path]:
    files = matching(path, "captions_*.json", inside=["annotations"])
    return [file for file in files if COCO_FILE.fullmatch(file.name)]


def _parse_coco(files: list[Path], root: Path, faults: list[Fault]) -> Contents:
    roots = [root.parent, root] if root.name == "annotations" else [root]
    folders = [folder / name for folder in roots for name in ("", "images")]
    return Contents(_coco(files, folders, faults), folders, source=_names(files))


def _coco(files: list[Path], folders: list[Path], faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        match = COCO_FILE.fullmatch(file.name)
        assert match is not None
        split, inner = split_name(match[1]), f"{match[1]}{match[2]}"
        prefix = f"{inner}/" if any((folder / inner).is_dir() for folder in folders) else ""
        content = json_value(plain_file(file, faults).read_bytes(), file)
        names: dict[int, str] = {}
        for place, item in _coco_items(content, "images", COCO_IMAGE, file, faults):
            if names.setdefault(item["id"], item["file_name"]) != item["file_name"]:
                problem = f"{item['id']} is also the id of {shown(names[item['id']])}"
                faults.append(Fault(place, problem, "its own id", "repair the ids"))
        strays = Tally(str(file), "captions belong to no image of the file and are left out")
        once = Once("id", faults)
        without = set(names)
        for place, item in _coco_items(content, "annotations", COCO_CAPTION, file, faults):
            if not once.add(item["id"], place):
                continue
            if item["image_id"] not in names:
                strays.add(f"annotations with image_id {item['image_id']}")
                continue
            without.discard(item["image_id"])
            name = prefix + names[item["image_id"]]
            yield Record(name, item["caption"], place, split, caption_id=item["id"])
        faults.extend(strays.faults())
        for number in sorted(without):
            yield Record(prefix + names[number], "", f"{file}, image {number}", split)


def _coco_items(
    content: Any, key: str, types: dict[str, type], file: Path, faults: list[Fault]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of a list in the JSON; objects without the keys of these types are faults."""
    items = content.get(key) if isinstance(content, dict) else None
    if not isinstance(items, list):
        fix = "use the file captions_*.json of COCO"
        raise InputError.at(f"{file}: {key}", "is no list", "COCO's images and annotations", fix)
    bad = 0
    for index, item in enumerate(items):
        place, values = f"{file}: {key}[{index}]", item if isinstance(item, dict) else {}
        wrong = [name for name, kind in types.items() if type(values.get(name)) is not kind]
        bad += bool(wrong)
        if not wrong:
            yield place, item
        elif bad <= MOST_FAULTS_SHOWN:
            kinds = (f"{name} ({'a number' if types[name] is int else 'a string'})" for name in wrong)
            problem = "lacks a key, or it has another type"
            faults.append(Fault(place, problem, ", ".join(kinds), "repair the JSON"))


def _find_imagefolder(path: Path) -> list[Path]:
    """The metadata files of the folder and of the split folders in it."""
    inner = (file for name in METADATA for file in sorted(path.glob(f"*/{name}")) if file.is_file())
    return [*matching(path, *METADATA), *(inner if path.is_dir() else [])]


def _parse_imagefolder(files: list[Path], root: Path, faults: list[Fault]) -> Contents:
    return Contents(_imagefolder(files, root, faults), [root], source=_names(files))


def _imagefolder(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        inner = file.parent.relative_to(root).as_posix()
        prefix = "" if inner == "." else f"{inner}/"
        for place, row in _metadata(file, faults):
            name = row.pop(FILE_NAME, None)
            if not isinstance(name, str) or not name.strip():
                expected = "the name of a picture file"
                faults.append(
                    Fault(place, f"{FILE_NAME} is {shown(str(name))}", expected, "name the picture")
                )
                continue
            split = SPLIT_NAMES.get((prefix + name).split("/", 1)[0].lower(), "")
            if not split and isinstance(row.get("split"), str):
                split = split_name(row["split"])
            columns = caption_columns(list(row), file)
            try:
                captions = captions_of_row(row, columns, place)
            except InputError as error:
                faults.extend(error.faults)
                continue
            for caption in captions:
                yield Record(prefix + name, caption, place, split)


def _metadata(file: Path, faults: list[Fault]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place, and column → value, of every row."""
    if file.suffix == ".csv":
        yield from csv_rows(file, (FILE_NAME,), faults)
    elif file.suffix == ".jsonl":
        for number, line in enumerate(read_lines(file, "JSON object", faults), 1):
            if line:
                value = json_value(line, f"{file} line {number}")
                yield f"{file} line {number}", value if isinstance(value, dict) else {}
    else:
        for number, (_, _, row) in enumerate(parquet_rows(open_parquet(file, faults), file)):
            yield f"{file} row {number}", row


FIELD = (  # layouts that features have too, read for their pictures
    Layout(
        "precomp",
        "{split}_caps.txt and {split}_ids.txt",
        "has _ids.txt that name the pictures beside it",
        _find_precomp,
        _parse_precomp,
    ),
    Layout("karpathy", "dataset_*.json", "is Karpathy's JSON", _find_karpathy, _parse_karpathy),
)
ANNOTATED = (
    Layout(
        "coco", "captions_train2017.json, captions_val2017.json", "is in COCO's form", _find_coco, _parse_coco
    ),
    Layout(
        "imagefolder",
        "metadata.csv, .jsonl or .parquet with file_name",
        "names picture files",
        _find_imagefolder,
        _parse_imagefolder,
    ),
)
