"""Karpathy's JSON with features beside it: {split}_ims.npy in imgid order, or one ims.npy for all images."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.data.annotations import Annotations, read_annotations
from coder_core.data.features import FeatureFile, open_features
from coder_core.data.gather import gather_rows
from coder_core.data.lines import shorten
from coder_core.data.reading import Reading

ONE_FILE = ("ims.npy", "features.npy")
FILE_NAMES = {"train": ("train",), "dev": ("dev", "val"), "test": ("test", "testall")}
COCO_TEST_IMAGES = 1_000  # the field's "test" for COCO; all 5,000 are "testall"


def find_annotations(folder: Path, layouts: str) -> Path:
    """The one dataset*.json in a folder.

    Raises:
        InputError: there is none, or more than one.
    """
    found = sorted(folder.glob("dataset*.json"))
    if len(found) == 1:
        return found[0]
    names = f"several: {', '.join(path.name for path in found)}" if found else "no data set"
    raise InputError(Fault(str(folder), names, layouts, "name one JSON file" if found else "check the path"))


def karpathy_splits(root: Path, path: Path) -> list[str]:
    """ "train", "dev" and "test", as far as the JSON has images for them."""
    return sorted({image.split for image in read_annotations(root, path).images})


def read_karpathy(root: Path, path: Path, split: str) -> Reading:
    """Read one split of a Karpathy JSON file and its features.

    Args:
        root: the folder no file may leave; features are looked for in it, in precomp/ and in *_precomp/.
        path: the JSON file.
        split: "train" (with restval), "dev" or "val", "test" (COCO: its first 1,000 images), "testall".

    Raises:
        InputError: the JSON is faulty, the split or its features are missing, or the counts differ.
    """
    annotations = read_annotations(root, path)
    name = {"val": "dev", "testall": "test"}.get(split, split)
    chosen = [(row, image) for row, image in enumerate(annotations.images) if image.split == name]
    if not chosen:
        there = ", ".join(sorted({image.split for image in annotations.images}))
        raise InputError(Fault(str(path), f'there is no split "{split}"', f"one of {there}", "name one that is there"))
    faults: list[Fault] = []
    rows, images = [row for row, _ in chosen], [image for _, image in chosen]
    file, features, span = _features(root, path, annotations, name, rows, faults)
    source = {"layout": "Karpathy JSON", "features": str(file.path), "captions": str(path)}
    source["captions belong to images"] = "sentences of images[i], images in imgid order"
    reading = Reading(
        features=features,
        file=file,
        rows=span,
        captions=shorten([caption for image in images for caption in image.captions], str(path), faults),
        image_of_text=np.repeat(np.arange(len(images)), [len(image.captions) for image in images]),
        image_names=[image.name for image in images],
        source=source,
        faults=faults,
    )
    return _coco_test(reading, annotations, split)


def _coco_test(reading: Reading, annotations: Annotations, split: str) -> Reading:
    if split != "test" or annotations.dataset != "coco" or len(reading.features) <= COCO_TEST_IMAGES:
        return reading
    text = (
        f'"test" is the first {COCO_TEST_IMAGES:,} of COCO\'s {len(reading.features):,} test images; all are "testall"'
    )
    reading.faults.append(Fault(reading.source["captions"], text, severity="note"))
    return reading.first_images(COCO_TEST_IMAGES)


def _features(
    root: Path, path: Path, annotations: Annotations, split: str, rows: list[int], faults: list[Fault]
) -> tuple[FeatureFile, np.ndarray, tuple[int, int]]:
    """The features file, the split's features, and the rows of the file they are."""
    folders = [folder for folder in (root, root / "precomp", *sorted(root.glob("*_precomp"))) if folder.is_dir()]
    for folder in folders:
        for name in FILE_NAMES[split]:
            if (folder / f"{name}_ims.npy").exists():
                file = open_features(root, folder / f"{name}_ims.npy", faults)
                _check_count(file, len(rows), f'images of split "{split}" in {path.name}')
                return file, file.map(), (0, len(rows))
    for folder in folders:
        for name in ONE_FILE:
            if (folder / name).exists():
                file = open_features(root, folder / name, faults)
                _check_count(file, len(annotations.images), f"images in {path.name}")
                return _rows_of(file, rows, faults)
    wanted = f"{FILE_NAMES[split][0]}_ims.npy (this split's images in imgid order) or {ONE_FILE[0]} (all images)"
    raise InputError(Fault(str(root), f'no features for split "{split}" of {path.name}', wanted, "put them there"))


def _rows_of(
    file: FeatureFile, rows: list[int], faults: list[Fault]
) -> tuple[FeatureFile, np.ndarray, tuple[int, int]]:
    """A split's rows of the file of all images: a view where they stand together, else a copy made once on disk."""
    first, last = rows[0], rows[-1] + 1
    if last - first == len(rows):
        return file, file.map()[first:last], (first, last)
    copy = gather_rows(file, np.array(rows), faults)
    return copy, copy.map(), (0, len(rows))


def _check_count(file: FeatureFile, images: int, what: str) -> None:
    if file.shape[0] != images:
        found = f"{file.shape[0]:,} rows of features for {images:,} {what}"
        fix = "extract the features of exactly these images, in imgid order"
        raise InputError(Fault(str(file.path), found, "one row an image", fix))
