"""Karpathy's dataset_*.json, checked key by key: images[i].split, images[i].sentences[j].raw, …"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.lines import regular_file, shown

SPLIT_NAMES = {"train": "train", "restval": "train", "val": "dev", "dev": "dev", "test": "test"}
EXAMPLE = '{"images": [{"imgid": 0, "filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog ."}]}]}'


@dataclass(frozen=True)
class Annotated:
    """One image of the JSON: its number, picture name, split ("train", "dev" or "test") and captions."""

    imgid: int
    name: str
    split: str
    captions: list[str]


@dataclass(frozen=True)
class Annotations:
    """All images of a JSON file, in imgid order, and the data set's own name ("coco", "flickr30k", …)."""

    dataset: str
    images: list[Annotated]


class _BadJsonError(Exception):
    """A JSON value that Python's parser would let pass."""


def read_annotations(root: Path, path: Path) -> Annotations:
    """Read and check a Karpathy JSON file.

    Raises:
        InputError: not JSON, a key twice, NaN, nested too deeply, or up to 20 faults named images[i].key.
    """
    state = regular_file(root, path).stat()
    return _read(root, path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1)  # COCO's JSON takes seconds, and is read once a split
def _read(root: Path, path: Path, changed: int, size: int) -> Annotations:
    try:
        text = regular_file(root, path).read_text("utf-8-sig")
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise InputError(Fault(f"{path} byte {error.start + 1}", "not UTF-8", "a UTF-8 JSON file")) from None
    except json.JSONDecodeError as error:
        place = f"{path} line {error.lineno}, column {error.colno}"
        raise InputError(Fault(place, f"not JSON: {error.msg}", EXAMPLE, "download it again")) from None
    except RecursionError:
        raise InputError(Fault(str(path), "nested too deeply", EXAMPLE, "use the original file")) from None
    except (_BadJsonError, ValueError) as error:
        raise InputError(Fault(str(path), str(error), EXAMPLE, "repair the JSON")) from None
    return _check(path, content)


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


class _Checker:
    """Walks the parsed JSON and collects faults; `get` returns a value of the wanted type or None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.imgids: dict[int, int] = {}
        self.sentids: dict[int, str] = {}

    def fault(self, place: str, found: str, expected: str = "") -> None:
        self.faults.append(Fault(f"{self.path}: {place}", found, expected, "repair the JSON, or use the original"))

    def get(self, item: Any, place: str, key: str, kind: type, *, required: bool = True) -> Any:
        if not isinstance(item, dict):
            self.fault(place, f"is {_kind(item)}", "an object")
            return None
        if key not in item:
            if required:
                self.fault(f"{place}.{key}", "the key is missing", _NAMES[kind])
            return None
        value = item[key]
        if type(value) is not kind:
            self.fault(f"{place}.{key}", f"is {_kind(value)}", _NAMES[kind])
            return None
        return value

    def image(self, item: Any, index: int) -> Annotated | None:
        place = f"images[{index}]"
        if not isinstance(item, dict):
            self.fault(place, f"is {_kind(item)}", "an object")
            return None
        imgid = self.get(item, place, "imgid", int)
        name = self.get(item, place, "filename", str)
        split = self.get(item, place, "split", str)
        sentences = self.get(item, place, "sentences", list)
        folder = self.get(item, place, "filepath", str, required=False)
        if imgid is not None and self.imgids.setdefault(imgid, index) != index:
            self.fault(f"{place}.imgid", f"{imgid} is also the imgid of images[{self.imgids[imgid]}]", "its own number")
        if split is not None and split not in SPLIT_NAMES:
            self.fault(f"{place}.split", shown(split), f"one of {', '.join(SPLIT_NAMES)}")
        if sentences is not None and not sentences:
            self.fault(f"{place}.sentences", "holds no caption", "at least one")
        captions = [self.caption(s, f"{place}.sentences[{j}]", imgid) for j, s in enumerate(sentences or [])]
        if imgid is None or name is None or split not in SPLIT_NAMES:
            return None
        return Annotated(imgid, f"{folder}/{name}" if folder else name, SPLIT_NAMES[split], captions)

    def caption(self, item: Any, place: str, imgid: int | None) -> str:
        raw = self.get(item, place, "raw", str)
        if raw is None:
            return ""
        if not raw.strip():
            self.fault(f"{place}.raw", "the caption is empty", "a caption")
        sentid, owner = item.get("sentid"), item.get("imgid", imgid)
        if sentid is not None and type(sentid) is not int:
            self.fault(f"{place}.sentid", f"is {_kind(sentid)}", "a whole number")
        elif sentid is not None and self.sentids.setdefault(sentid, place) != place:
            self.fault(f"{place}.sentid", f"{sentid} is also the sentid of {self.sentids[sentid]}", "its own number")
        if imgid is not None and owner != imgid:
            self.fault(f"{place}.imgid", f"{shown(str(owner))} differs from its image's imgid {imgid}", str(imgid))
        return " ".join(raw.split("\n")).strip()


_NAMES: dict[type, str] = {int: "a whole number", str: "a string", list: "a list"}


def _kind(value: Any) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


def _check(path: Path, content: Any) -> Annotations:
    checker = _Checker(path)
    images = checker.get(content, "the file", "images", list)
    dataset = content.get("dataset", "") if isinstance(content, dict) else ""
    if images == []:
        checker.fault("images", "is empty", "one object an image")
    found = []
    for index, item in enumerate(images or []):
        found.append(checker.image(item, index))
        if len(checker.faults) > MOST_FAULTS_SHOWN:
            break
    if checker.faults:
        raise InputError(checker.faults)
    whole = sorted((image for image in found if image is not None), key=lambda image: image.imgid)
    return Annotations(dataset if isinstance(dataset, str) else "", whole)
