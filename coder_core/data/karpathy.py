"""Karpathy's dataset_*.json, checked key by key, with features beside it: one file a split, or one for all images."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.captioned.records import Once, id_array
from coder_core.data.features import FeatureFile, FeatureRows, open_features
from coder_core.data.lines import follow_link, holds_half_character, plain_file, shorten, shown
from coder_core.data.split import Split
from coder_core.files.atomic import replacing
from coder_core.files.cache import cache_folder

SPLIT_NAMES = {"train": "train", "restval": "train", "val": "dev", "dev": "dev", "test": "test"}
EXAMPLE = (
    '{"images": [{"imgid": 0, "filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog ."}]}]}'
)
REPAIR = "repair the JSON, or use the original"
ONE_FILE = ("ims.npy", "features.npy")
FILE_NAMES = {"train": ("train",), "dev": ("dev", "val"), "test": ("test", "testall")}
PIECE_IMAGES = 256  # copied at once
COCO_TEST_IMAGES = 1_000  # the field's "test" for COCO; all 5,000 are "testall"


@dataclass(frozen=True)
class AnnotatedImage:
    """One image of the JSON: its number, picture name, split ("train", "dev" or "test"), captions, and their sentids."""

    imgid: int
    name: str
    split: str
    captions: list[str]
    caption_ids: list[int | None]


@dataclass(frozen=True)
class Annotations:
    """All images of a JSON file, in imgid order, and the data set's own name ("coco", "flickr30k", …)."""

    dataset: str
    images: list[AnnotatedImage]


def find_annotations(folder: Path, layouts: str) -> Path:
    """The one dataset*.json in a folder.

    Raises:
        InputError: there is none, or more than one.
    """
    files = sorted(folder.glob("dataset*.json"))
    if len(files) == 1:
        return files[0]
    names = f"several: {', '.join(path.name for path in files)}" if files else "no data set"
    raise InputError.at(folder, names, layouts, "name one JSON file" if files else "check the path")


def karpathy_splits(path: Path) -> list[str]:
    """ "train", "dev" and "test", as far as the JSON has images for them."""
    return sorted({image.split for image in read_annotations(path, []).images})


def read_karpathy(root: Path, path: Path, split: str) -> Split:
    """Read one split of a Karpathy JSON file and its features.

    Args:
        root: where features are looked for, in precomp/ and in *_precomp/ as well.
        path: the JSON file.
        split: "train" (with restval), "dev" or "val", "test" (COCO: its first 1,000 images), "testall".

    Raises:
        InputError: the JSON is faulty, the split or its features are missing, or the counts differ.
    """
    faults: list[Fault] = []
    annotations = read_annotations(path, faults)
    name = {"val": "dev", "testall": "test"}.get(split, split)
    rows = [row for row, image in enumerate(annotations.images) if image.split == name]
    images = [annotations.images[row] for row in rows]
    if not images:
        present = ", ".join(sorted({image.split for image in annotations.images}))
        expected = f"one of {present}"
        raise InputError.at(path, f'there is no split "{split}"', expected, "name one that is there")
    file, features, span = _features(root, path, annotations, name, rows, faults)
    raw = Split(
        name=split,
        features=features,
        file=file,
        rows=span,
        captions=shorten([caption for image in images for caption in image.captions], str(path), faults),
        image_of_text=np.repeat(np.arange(len(images)), [len(image.captions) for image in images]),
        image_names=[image.name for image in images],
        caption_ids=id_array([number for image in images for number in image.caption_ids]),
        source={
            "layout": "Karpathy JSON",
            "features": str(file.path),
            "captions": str(path),
            "captions belong to images": "sentences of images[i], images in imgid order",
        },
        faults=faults,
    )
    if split != "test" or annotations.dataset != "coco":
        return raw
    text = (
        f'"test" is the first {COCO_TEST_IMAGES:,} of COCO\'s {len(images):,} test images; all are "testall"'
    )
    return raw.first_images(COCO_TEST_IMAGES, Fault(str(path), text, severity="note"))


def inner_folders(root: Path, faults: list[Fault]) -> list[Path]:
    """precomp/ and *_precomp/ in a data folder, as far as they are there.

    Raises:
        InputError: one is a link that leads to nothing, or back to itself.
    """
    folders = [root / "precomp", *sorted(root.glob("*_precomp"))]
    for folder in folders:
        follow_link(folder, faults)
    return [folder for folder in folders if folder.is_dir()]


def _features(
    root: Path, path: Path, annotations: Annotations, split: str, rows: list[int], faults: list[Fault]
) -> tuple[FeatureFile, np.ndarray, tuple[int, int, int]]:
    """The features file, the split's features, and the rows of the file they are."""
    folders = [root, *inner_folders(root, faults)]
    of_split = [folder / f"{name}_ims.npy" for folder in folders for name in FILE_NAMES[split]]
    of_all = [folder / name for folder in folders for name in ONE_FILE]
    features = next((file for file in (*of_split, *of_all) if os.path.lexists(file)), None)
    if features is None:
        wanted = f"{FILE_NAMES[split][0]}_ims.npy (this split's images in imgid order) or {ONE_FILE[0]} (all images)"
        raise InputError.at(root, f'no features for split "{split}" of {path.name}', wanted, "put them there")
    file = open_features(features, faults)
    if features in of_split:
        _check_count(file, len(rows), f'images of split "{split}" in {path.name}')
        return file, file.map(), (0, len(rows), 1)
    _check_count(file, len(annotations.images), f"images in {path.name}")
    first, last = rows[0], rows[-1] + 1
    if last - first == len(rows):  # they stand together: a view
        return file, file.map()[first:last], (first, last, 1)
    copy = _gather_rows(file, np.array(rows), faults)
    return copy, copy.map(), (0, len(rows), 1)


def _check_count(file: FeatureFile, images: int, what: str) -> None:
    if file.shape[0] != images:
        problem = f"{file.shape[0]:,} rows of features for {images:,} {what}"
        fix = "extract the features of exactly these images, in imgid order"
        raise InputError.at(file.path, problem, "one row an image", fix)


def _gather_rows(file: FeatureFile, rows: np.ndarray, faults: list[Fault]) -> FeatureFile:
    """Copy scattered rows of a features file into the cache, so that they can be memory-mapped.

    An earlier copy is used again; it is written beside its place and renamed, so one that exists is complete.

    Raises:
        InputError: the cache's disk is too small, or cannot be written.
    """
    state, shape = file.path.stat(), (len(rows), *file.shape[1:])
    identity = (str(file.path.resolve()), state.st_size, state.st_mtime_ns, file.shape, file.dtype.str)
    key = hashlib.sha256(repr(identity).encode() + rows.astype("<i8").tobytes()).hexdigest()[:32]
    target = cache_folder() / "splits" / f"{key}.npy"
    needed = len(rows) * file.row_bytes
    try:
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(target.parent).free
            if free < needed:
                raise OSError(f"{needed:,} bytes needed, {free:,} free")
            with replacing(target) as temporary, temporary.open("wb") as copy:
                header = {"shape": shape, "fortran_order": False, "descr": file.dtype.str}
                npy.write_array_header_1_0(copy, header)
                source = FeatureRows(file.map())
                for start in range(0, len(rows), PIECE_IMAGES):
                    images = rows[start : start + PIECE_IMAGES]
                    every = np.tile(np.arange(source.regions), len(images))
                    copy.write(source.gather(np.repeat(images, source.regions), every).data)
    except OSError as error:
        fix = "set CODER_CACHE to a folder with room, or save one {split}_ims.npy a split"
        problem = f"the split's rows are scattered and cannot be copied to {target.parent}: {error}"
        raise InputError.at(file.path, problem, "room for the copy", fix) from None
    text = f"the split's rows are scattered; they are read from a copy of {needed:,} bytes, {target}"
    faults.append(Fault(str(file.path), text, fix="remove it when it is no longer needed", severity="note"))
    return FeatureFile(target, shape, file.dtype, fortran=False, offset=target.stat().st_size - needed)


def read_annotations(path: Path, faults: list[Fault]) -> Annotations:
    """Read and check a Karpathy JSON file.

    Raises:
        InputError: not JSON, a key twice, NaN, nested too deeply, or up to 20 faults named images[i].key.
    """
    state = plain_file(path, faults).stat()
    return _read(path, state.st_mtime_ns, state.st_size)


class _BadJsonError(Exception):
    """A JSON value that Python's parser would let pass."""


@lru_cache(maxsize=1)  # COCO's JSON takes seconds, and is read once a split
def _read(path: Path, changed: int, size: int) -> Annotations:
    try:
        text = path.read_text("utf-8-sig")
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise InputError.at(f"{path} byte {error.start + 1}", "not UTF-8", "a UTF-8 JSON file") from None
    except json.JSONDecodeError as error:
        place = f"{path} line {error.lineno}, column {error.colno}"
        raise InputError.at(place, f"not JSON: {error.msg}", EXAMPLE, "download it again") from None
    except RecursionError:
        raise InputError.at(path, "nested too deeply", EXAMPLE, "use the original file") from None
    except (_BadJsonError, ValueError) as error:
        raise InputError.at(path, str(error), EXAMPLE, "repair the JSON") from None
    return _Checker(path).annotations(content)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        first = ", ".join(f"{shown(key)}: {shown(str(value))}" for key, value in pairs[:3])
        raise _BadJsonError(f"the key {shown(twice)} stands twice in one object, the one with {first}")
    return result


def _no_constant(name: str) -> None:
    raise _BadJsonError(f"holds {name}, which is not JSON")


_TYPES: dict[type, str] = {int: "a whole number", str: "a string", list: "a list"}


class _Checker:
    """Walks the parsed JSON and collects faults; `get` returns a value of the wanted type or None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.imgids, self.sentids = Once("imgid", self.faults), Once("sentid", self.faults)

    def annotations(self, content: Any) -> Annotations:
        items = self.get(content, "the file", "images", list)
        dataset = content.get("dataset", "") if isinstance(content, dict) else ""
        if items == []:
            self.fault("images", "is empty", "one object an image")
        images = []
        for index, item in enumerate(items or []):
            images.append(self.image(item, f"images[{index}]"))
            if len(self.faults) > MOST_FAULTS_SHOWN:
                break
        if self.faults:
            raise InputError(self.faults)
        in_order = sorted((image for image in images if image is not None), key=lambda image: image.imgid)
        return Annotations(dataset if isinstance(dataset, str) else "", in_order)

    def fault(self, place: str, problem: str, expected: str = "") -> None:
        self.faults.append(Fault(f"{self.path}: {place}", problem, expected, REPAIR))

    def get(self, item: Any, place: str, key: str, kind: type) -> Any:
        value = item.get(key) if isinstance(item, dict) else None
        if not isinstance(item, dict):
            self.fault(place, f"is {_kind(item)}", "an object")
        elif key not in item:
            self.fault(f"{place}.{key}", "the key is missing", _TYPES[kind])
        elif type(value) is not kind:
            self.fault(f"{place}.{key}", f"is {_kind(value)}", _TYPES[kind])
        elif isinstance(value, str) and holds_half_character(value):
            problem = f"{shown(value)} holds half a character (a lone surrogate)"
            self.fault(f"{place}.{key}", problem, "UTF-8 text")
        else:
            return value
        return None

    def image(self, item: Any, place: str) -> AnnotatedImage | None:
        if not isinstance(item, dict):
            self.fault(place, f"is {_kind(item)}", "an object")
            return None
        imgid = self.get(item, place, "imgid", int)
        name = self.get(item, place, "filename", str)
        split = self.get(item, place, "split", str)
        sentences = self.get(item, place, "sentences", list)
        folder = self.get({"filepath": ""} | item, place, "filepath", str)
        if imgid is not None:
            self.imgids.add(imgid, place, f"{self.path}: {place}.imgid")
        if split is not None and split not in SPLIT_NAMES:
            self.fault(f"{place}.split", shown(split), f"one of {', '.join(SPLIT_NAMES)}")
        if sentences is not None and not sentences:
            self.fault(f"{place}.sentences", "holds no caption", "at least one")
        captions = [self.caption(s, f"{place}.sentences[{j}]", imgid) for j, s in enumerate(sentences or [])]
        if imgid is None or name is None or split not in SPLIT_NAMES:
            return None
        ids = [s.get("sentid") if isinstance(s, dict) else None for s in sentences or []]
        name = f"{folder}/{name}" if folder else name
        return AnnotatedImage(imgid, name, SPLIT_NAMES[split], captions, ids)

    def caption(self, item: Any, place: str, imgid: int | None) -> str:
        raw = self.get(item, place, "raw", str)
        if raw is None:
            return ""
        if not raw.strip():
            self.fault(f"{place}.raw", "the caption is empty", "a caption")
        sentid, owner = item.get("sentid"), item.get("imgid", imgid)
        if type(sentid) is int:
            self.sentids.add(sentid, place, f"{self.path}: {place}.sentid")
        elif sentid is not None:
            self.fault(f"{place}.sentid", f"is {_kind(sentid)}", "a whole number")
        if imgid is not None and owner != imgid:
            problem = f"{shown(str(owner))} differs from its image's imgid {imgid}"
            self.fault(f"{place}.imgid", problem, str(imgid))
        return " ".join(raw.split("\n")).strip()


def _kind(value: Any) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"
