"""Read a data set on disk: `read_split` finds the layout, reads and checks it, or raises with the reasons."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.features import scan_values
from coder_core.data.karpathy import find_annotations, inner_folders, karpathy_splits, read_karpathy
from coder_core.data.lines import check_name, follow_link
from coder_core.data.pictures import check_pictures, find_pictures
from coder_core.data.precomp import read_precomp, splits_in
from coder_core.data.split import Split

READ_SUFFIXES = (
    ".npy",
    ".txt",
    ".json",
    ".csv",
    ".tsv",
    ".jsonl",
    ".parquet",
    ".tar",
)  # of features and captions
SMALL_TEST_IMAGES = 1_000  # COCO: "test" is the first 1,000 images of "testall"
OTHER_NAME = {"dev": "val", "val": "dev"}
LAYOUTS = (
    "a folder with {split}_ims.npy and {split}_caps.txt (or precomp/ in it), or dataset*.json with ims.npy"
)


def read_split(
    path: str | Path, split: str, *, pictures: str | Path | None = None, check_values: bool = True
) -> Split:
    """Read one split of the data set at `path`, whatever its layout.

    Args:
        path: a folder of precomp files, its parent, or a folder (or file) with Karpathy's JSON.
        split: "train", "dev" (or "val"), "test", "testall", or any name the files have.
        pictures: folder of the picture files; found by itself when it is images/ beside the data.
        check_values: also read every feature once, for NaN, Inf and zero rows.

    Raises:
        InputError: the data cannot be trained on; carries up to 20 faults, each with place and fix.
    """
    stop_on_errors([*check_name(Path(path).absolute()), *check_name(Path(pictures) if pictures else None)])
    root, layout = find_layout(path)
    data = _read(root, layout, split)
    faults = list(data.faults)
    if layout.is_dir() and layout != root:
        follow_link(layout, faults)
    zero = np.empty((0, 2), dtype=np.int64)
    assert data.file is not None
    assert data.rows is not None
    start, stop, stride = data.rows
    if check_values:
        zero, value_faults = scan_values(data.file, (start, stop))
        faults += value_faults
    folder = find_pictures(root, layout, pictures, data.image_names)
    faults += check_pictures(folder, data.image_names, asked=pictures is not None)
    stop_on_errors(faults)
    image, between = np.divmod(zero[:, 0] - start, stride)
    return replace(
        data,
        name=split,
        picture_folder=folder,
        source=data.source | ({"pictures": str(folder)} if folder else {}),
        faults=faults,
        zero_regions=(image * data.regions + zero[:, 1])[between == 0],
    )


def available_splits(path: str | Path) -> list[str]:
    """Names of the splits at `path`: train first, then dev, then the others in alphabetical order."""
    _, layout = find_layout(path)
    names = splits_in(layout) if layout.is_dir() else karpathy_splits(layout)
    first = {"train": 0, "dev": 1, "val": 1}
    return sorted(names, key=lambda name: (first.get(name, 2), name))


def find_layout(path: str | Path) -> tuple[Path, Path]:
    """The folder itself, and the folder of precomp files or the JSON file to read.

    Raises:
        InputError: there is neither, or a link where they should be leads to nothing.
    """
    path = Path(path)
    if path.is_file() and path.suffix == ".json":
        return path.parent, path
    if not path.is_dir():
        problem = "not a folder" if path.exists() else "there is no such folder"
        raise InputError.at(path, problem, LAYOUTS, "check the path")
    annotated = any(path.glob("dataset*.json"))
    inner = inner_folders(path, [])
    folders = [folder for folder in inner if _is_precomp(folder, annotated)]
    if _is_precomp(path, annotated):
        return path, path
    if len(folders) > 1 and folders[0].name != "precomp":
        names = ", ".join(folder.name for folder in folders)
        raise InputError.at(path, f"holds several data sets: {names}", "one data set", "name one of them")
    if folders:
        return path, folders[0]
    _refuse_pictures(path)
    return path, find_annotations(path, LAYOUTS)


def _refuse_pictures(path: Path) -> None:
    """Say of pictures with captions what can be done with them."""
    from coder_core.data.captioned.layouts import recognise  # pyarrow is loaded for those who have such data

    recognised = recognise(path) if not any(path.glob("dataset*.json")) else None
    if recognised is not None:
        layout, why = recognised
        problem = f"holds pictures with captions ({layout.name}: {why}) and no region features"
        fix = f"python -m coder_core.features {path} --model … --out … makes features with a pretrained model"
        raise InputError.at(path, problem, LAYOUTS, fix)


def leaves(path: Path, root: Path) -> bool:
    """True if a link leads a data set, its folder of precomp files, or a file of them out of `root`.

    A command follows such links for whoever types it; the app offers no data set that has one.
    """
    entries = [path, *path.glob("*"), *path.glob("*precomp/*")]
    read = [entry for entry in entries if entry.suffix in READ_SUFFIXES or entry.name.endswith("precomp")]
    return not all(
        Path(os.path.realpath(entry)).is_relative_to(os.path.realpath(root)) for entry in [path, *read]
    )


def _is_precomp(folder: Path, annotated: bool) -> bool:
    """True for a folder with caption files; beside a JSON, features alone belong to the JSON."""
    return any(folder.glob("*_caps.txt")) if annotated else bool(splits_in(folder))


def _read(root: Path, layout: Path, split: str) -> Split:
    """Read `split` under its own name, under its other name (dev, val), or as the first images of testall."""
    if not layout.is_dir():
        return read_karpathy(root, layout, split)
    present = splits_in(layout)
    for name in (split, OTHER_NAME.get(split)):
        if name in present:
            return read_precomp(root, layout, name)
    if split == "test" and "testall" in present:
        text = f'there is no "test"; it is the first {SMALL_TEST_IMAGES:,} images of "testall"'
        why = Fault(str(layout), text, severity="note")
        return read_precomp(root, layout, "testall").first_images(SMALL_TEST_IMAGES, why)
    listed = ", ".join(present)
    raise InputError.at(layout, f'there is no split "{split}"', f"one of {listed}", "name one that is there")
