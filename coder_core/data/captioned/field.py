"""The layouts that features have too, read for their pictures: precomp captions with ids, Karpathy's JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.records import Contents, Layout, Record, folder_of, matching, split_name
from coder_core.data.karpathy import read_annotations
from coder_core.data.lines import read_lines
from coder_core.data.precomp import SPLIT_NAME, name_pictures

PICTURE_FOLDERS = ("images", "flickr30k-images", "Images", "")


def _precomp(path: Path) -> Path | None:
    """The folder with caption files and ids: `path`, or the precomp folder in it."""
    if not path.is_dir():
        return None
    folders = [path, path / "precomp", *sorted(path.glob("*_precomp"))]
    return next((folder for folder in folders if _splits(folder)), None)


def _splits(folder: Path) -> list[str]:
    names = [file.name.removesuffix("_caps.txt") for file in sorted(folder.glob("*_caps.txt"))]
    return [name for name in names if SPLIT_NAME.fullmatch(name) and (folder / f"{name}_ids.txt").exists()]


def _folders(root: Path) -> list[Path]:
    parents = [root]
    if root.resolve().name.endswith("precomp"):
        parents.append(root.resolve().parent)
    return [parent / name for parent in parents for name in PICTURE_FOLDERS]


def _recognise_precomp(path: Path) -> str:
    folder = _precomp(path)
    return (
        f"{folder.name}/{_splits(folder)[0]}_caps.txt with _ids.txt that name the pictures" if folder else ""
    )


def _read_precomp(path: Path, faults: list[Fault]) -> Contents:
    folder = _precomp(path)
    assert folder is not None
    source = {"captions": str(folder / "{split}_caps.txt"), "ids": str(folder / "{split}_ids.txt")}
    return Contents(_precomp_records(path, folder, faults), _folders(path), source=source)


def _precomp_records(root: Path, folder: Path, faults: list[Fault]) -> Iterator[Record]:
    names = _splits(folder)
    for split in names:
        if split == "test" and "testall" in names:
            continue  # its first images
        captions_file, ids_file = folder / f"{split}_caps.txt", folder / f"{split}_ids.txt"
        captions = read_lines(captions_file, "caption", faults)
        ids = name_pictures(root, folder, read_lines(ids_file, "id", faults), faults)
        if not ids or not captions or len(captions) % len(ids):
            problem = f"{len(ids):,} ids for the {len(captions):,} captions of {captions_file.name}"
            fix = "look for a missing or doubled line"
            raise InputError.at(ids_file, problem, "one id an image or one a caption", fix)
        each = len(captions) // len(ids)
        for line, caption in enumerate(captions):
            yield Record(ids[line // each], caption, f"{captions_file} line {line + 1}", split_name(split))


def _recognise_karpathy(path: Path) -> str:
    files = matching(path, "dataset*.json")
    return f"{files[0].name}, Karpathy's JSON" if len(files) == 1 else ""


def _read_karpathy(path: Path, faults: list[Fault]) -> Contents:
    file = matching(path, "dataset*.json")[0]
    images = read_annotations(file, faults).images
    records = (
        Record(image.name, caption, f"{file}, imgid {image.imgid}", image.split, caption_id=number)
        for image in images
        for caption, number in zip(image.captions, image.caption_ids, strict=True)
    )
    return Contents(records, _folders(folder_of(path)), source={"captions": str(file)})


FIELD = (
    Layout("precomp", "{split}_caps.txt and {split}_ids.txt", _recognise_precomp, _read_precomp),
    Layout("karpathy", "dataset_*.json", _recognise_karpathy, _read_karpathy),
)
