"""Captions in files of their own: precomp captions with ids, Karpathy's dataset_*.json, COCO's captions_*.json.

COCO's captions_train2017.json has "images" and "annotations"; the split is in its name.
"""

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.captioned.names import inner_prefix
from coder_core.data.captioned.records import (
    NOTHING_ELSE,
    Layout,
    Record,
    folders_in,
    matching,
    other_columns,
    picture_folders,
)
from coder_core.data.captioned.splits import SPLIT_NAME, split_in, split_name, split_of_path
from coder_core.data.lines import (
    Once,
    count_cases,
    holds_half_character,
    karpathy_files,
    name_pictures,
    plain_file,
    read_json,
    read_lines,
    shown,
)
from coder_core.data.pictures import ENDINGS

PICTURE_FOLDERS = ("images", "flickr30k-images", "Images", "")  # beside precomp and Karpathy's files
CAPTIONS = "_caps.txt"
IDS = "_ids.txt"
ENTRIES_TRIED = 100  # of a folder, to find pictures
COCO_FILE = re.compile(r"captions_(train|val|test|dev)(\d*).*\.json")
COCO_PLAIN = ("annotations.json", "*captions*.json", "*coco*.json")  # of other data in the same form
COCO_INSIDE = "annotations"  # folder of these files
COCO_LISTS = (b'"images"', b'"annotations"')
COCO_KEYS = (b'"image_id"', b'"file_name"')
HEAD_BYTES = 1 << 16
SPLIT_LISTS = re.compile(rb'\{\s*"(train|val|valid|validation|dev|test)"\s*:\s*\[')
KARPATHY_KEYS = ("imgid", "filename", "filepath", "split", "sentences", "sentids")  # the others are columns
COCO_IMAGE_KEYS = ("id", "file_name")
COCO_CAPTION_KEYS = ("id", "image_id", "caption")
KARPATHY_SPLITS = ("train", "restval", "val", "dev", "test")
EXAMPLE = (
    '{"images": [{"imgid": 0, "filename": "a.jpg", "split": "train", "sentences": [{"raw": "A dog ."}]}]}'
)
TYPE_NAMES: dict[type, str] = {int: "a whole number", str: "a string", list: "a list"}


def _folders(root: Path) -> list[Path]:
    parents = [root, root.resolve().parent] if root.resolve().name.endswith("precomp") else [root]
    usual = [parent / name for parent in parents for name in PICTURE_FOLDERS]
    return [*usual, *picture_folders(root)]


def holds_pictures(root: Path) -> bool:
    """True if the folder of captions, or one beside them, contains pictures."""
    return any(folder.is_dir() and _begins_with_pictures(folder) for folder in _folders(root))


def _begins_with_pictures(folder: Path) -> bool:
    names = (name.lower() for name in islice(os.listdir(folder), ENTRIES_TRIED))
    return any(name.endswith(ENDINGS) for name in names)


def _find_precomp(path: Path) -> list[Path]:
    """Find the caption files that have ids, in `path` or in a precomp folder in it."""
    for folder in (path, path / "precomp", *sorted(path.glob("*_precomp"))):
        files = [file for file in sorted(folder.glob(f"*{CAPTIONS}")) if _ids_of(file).exists()]
        if files := [file for file in files if SPLIT_NAME.fullmatch(_split_of(file))]:
            return files
    return []


def _split_of(captions: Path) -> str:
    return captions.name.removesuffix(CAPTIONS)


def _ids_of(captions: Path) -> Path:
    return captions.with_name(f"{_split_of(captions)}{IDS}")


def _precomp_source(files: list[Path]) -> dict[str, str]:
    folder = files[0].parent
    return {"captions": str(folder / f"{{split}}{CAPTIONS}"), "ids": str(folder / f"{{split}}{IDS}")}


def _precomp(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    names = [_split_of(file) for file in files]
    for file, split in zip(files, names, strict=True):
        if split == "test" and "testall" in names:
            continue  # test is the first images of testall
        captions = read_lines(file, "caption", faults)
        ids = name_pictures(root, file.parent, read_lines(_ids_of(file), "id", faults), faults)
        if not ids or not captions or len(captions) % len(ids):
            problem = f"{len(ids):,} ids for the {len(captions):,} captions of {file.name}"
            fix = "look for a missing or duplicated line"
            raise InputError.at(_ids_of(file), problem, "one id per image or one per caption", fix)
        each = len(captions) // len(ids)
        for line, caption in enumerate(captions):
            yield Record(ids[line // each], caption, f"{file} line {line + 1}", split_name(split))


class JsonValues:
    """Values of a parsed JSON file. A value that is missing or of another type adds a fault that names its key."""

    def __init__(self, path: Path, faults: list[Fault]) -> None:
        self.path = path
        self.faults = faults
        self.count = 0

    def fault(self, where: str, problem: str, expected: str = "") -> None:
        """Add a fault, unless there are many already."""
        self.count += 1
        if self.count <= MOST_FAULTS_SHOWN + 1:
            fix = "repair the JSON, or use the original"
            self.faults.append(Fault(f"{self.path}: {where}", problem, expected, fix))

    def get(self, item: Any, where: str, key: str, kind: type) -> Any:
        """Return the value of a key in an object; a fault and None if it is missing or not of this type."""
        value = item.get(key) if isinstance(item, dict) else None
        if not isinstance(item, dict):
            self.fault(where, f"is {_kind(item)}", "an object")
        elif key not in item:
            self.fault(f"{where}.{key}", "the key is missing", TYPE_NAMES[kind])
        elif type(value) is not kind:
            self.fault(f"{where}.{key}", f"is {_kind(value)}", TYPE_NAMES[kind])
        elif isinstance(value, str) and holds_half_character(value):
            problem = f"{shown(value)} contains half a character (a lone surrogate)"
            self.fault(f"{where}.{key}", problem, "UTF-8 text")
        else:
            return value
        return None


def _kind(value: Any) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


class AnnotatedImage(NamedTuple):
    """One image of Karpathy's JSON: number, picture name, split ("train", "dev" or "test"), captions, their sentids."""

    imgid: int
    name: str
    split: str
    captions: list[str]
    caption_ids: list[int | None]
    columns: Mapping[str, Any] = NOTHING_ELSE  # its other keys


def read_annotations(path: Path, faults: list[Fault]) -> tuple[str, list[AnnotatedImage]]:
    """Read and check a Karpathy JSON file: the data set's own name ("coco", …) and all images, in imgid order.
    InputError: not JSON, a repeated key, NaN, nested too deeply, or up to 20 faults, each located as images[i].key."""
    state = plain_file(path, faults).stat()
    return _read_karpathy(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=1)  # COCO's JSON takes seconds to parse and is read for every split
def _read_karpathy(path: Path, changed: int, size: int) -> tuple[str, list[AnnotatedImage]]:
    content = read_json(path, [], EXAMPLE, "download it again", finite=True)
    checker = _KarpathyImages(path, [])
    items = checker.get(content, "the file", "images", list)
    if items == []:
        checker.fault("images", "is empty", "one object per image")
    images = []
    for index, item in enumerate(items or []):
        images.append(checker.image(item, f"images[{index}]"))
        if len(checker.faults) > MOST_FAULTS_SHOWN:
            break
    if checker.faults:
        raise InputError(checker.faults)
    dataset = content.get("dataset", "")
    in_order = sorted((image for image in images if image is not None), key=lambda image: image.imgid)
    return dataset if isinstance(dataset, str) else "", in_order


class _KarpathyImages(JsonValues):
    def __init__(self, path: Path, faults: list[Fault]) -> None:
        super().__init__(path, faults)
        self.imgids = Once("imgid", faults)
        self.sentids = Once("sentid", faults)

    def image(self, item: Any, where: str) -> AnnotatedImage | None:
        """Check an image of the list; None without a valid number, name and split."""
        if not isinstance(item, dict):
            self.fault(where, f"is {_kind(item)}", "an object")
            return None

        imgid = self.get(item, where, "imgid", int)
        name = self.get(item, where, "filename", str)
        split = self.get(item, where, "split", str)
        sentences = self.get(item, where, "sentences", list)
        folder = self.get({"filepath": ""} | item, where, "filepath", str)
        if imgid is not None:
            self.imgids.add(imgid, where, f"{self.path}: {where}.imgid")
        if split is not None and split not in KARPATHY_SPLITS:
            self.fault(f"{where}.split", shown(split), f"one of {', '.join(KARPATHY_SPLITS)}")
        if sentences == []:
            self.fault(f"{where}.sentences", "is empty", "at least one caption")

        sentences = sentences or []
        captions = [self.caption(s, f"{where}.sentences[{j}]", imgid) for j, s in enumerate(sentences)]
        if imgid is None or name is None or split not in KARPATHY_SPLITS:
            return None

        ids = [s.get("sentid") if isinstance(s, dict) else None for s in sentences]
        path = f"{folder}/{name}" if folder else name
        columns = other_columns(item, KARPATHY_KEYS)
        return AnnotatedImage(imgid, path, split_name(split), captions, ids, columns)

    def caption(self, item: Any, where: str, imgid: int | None) -> str:
        """Check a sentence and return its caption, on one line; "" if it has none."""
        raw = self.get(item, where, "raw", str)
        if raw is None:
            return ""
        if not raw.strip():
            self.fault(f"{where}.raw", "the caption is empty", "a caption")
        sentid = item.get("sentid")
        owner = item.get("imgid", imgid)
        if type(sentid) is int:
            self.sentids.add(sentid, where, f"{self.path}: {where}.sentid")
        elif sentid is not None:
            self.fault(f"{where}.sentid", f"is {_kind(sentid)}", "a whole number")
        if imgid is not None and owner != imgid:
            problem = f"{shown(str(owner))} differs from its image's imgid {imgid}"
            self.fault(f"{where}.imgid", problem, str(imgid))
        return " ".join(raw.split("\n")).strip()


def _find_karpathy(path: Path) -> list[Path]:
    files = karpathy_files(path) if path.is_dir() else matching(path, ["dataset*.json"])
    return files if len(files) == 1 and not _names_other_lists(files[0]) else []


def _names_other_lists(file: Path) -> bool:
    """True if a JSON file begins as an object of splits' lists or as a list: another form than Karpathy's."""
    if not file.is_file():
        return False
    with file.open("rb") as content:
        head = content.read(HEAD_BYTES).lstrip()
    return head.startswith(b"[") or bool(SPLIT_LISTS.match(head) and b'"images"' not in head)


def _karpathy(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for image in read_annotations(files[0], faults)[1]:
        for caption, number in zip(image.captions, image.caption_ids, strict=True):
            where = f"{files[0]}, imgid {image.imgid}"
            yield Record(image.name, caption, where, image.split, caption_id=number, columns=image.columns)


def _find_coco(path: Path) -> list[Path]:
    if files := _coco_in(path):
        return files
    below = [file for folder in folders_in(path) for file in _coco_in(folder)]
    return list(dict.fromkeys(below))  # those in annotations/ are found from two folders


def _coco_in(path: Path) -> list[Path]:
    files = matching(path, COCO_PLAIN, inside=[COCO_INSIDE])
    return [file for file in files if COCO_FILE.fullmatch(file.name)] or list(filter(_is_plain_coco, files))


def _is_plain_coco(file: Path) -> bool:
    with file.open("rb") as content:
        head = content.read(HEAD_BYTES).lstrip()
    has_lists = any(key in head for key in COCO_LISTS)
    has_keys = any(key in head for key in COCO_KEYS)
    return head.startswith(b"{") and has_lists and has_keys


def _coco_folders(root: Path) -> list[Path]:
    roots = [root.parent, root] if root.name == COCO_INSIDE else [root]
    return [folder / name for folder in roots for name in ("", "images")]


def _coco(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        match = COCO_FILE.fullmatch(file.name)
        split = split_of_path(file.relative_to(root).with_suffix("")) or split_in(file.parent.name)
        inner = f"{match[1]}{match[2]}" if match else ""
        folders = _coco_folders(root) if inner else []
        prefix = f"{inner}/" if any((folder / inner).is_dir() for folder in folders) else ""
        content = read_json(file, faults)
        values = JsonValues(file, faults)
        names: dict[int, str] = {}
        columns_of_image: dict[int, dict[str, Any]] = {}
        image_kinds = {"id": int, "file_name": str}
        for where, item, (number, name) in _coco_items(values, content, "images", image_kinds):
            if names.setdefault(number, name) != name:
                values.fault(where, f"{number} is also the id of {shown(names[number])}", "its own id")
            columns_of_image[number] = other_columns(item, COCO_IMAGE_KEYS)
        place = file.parent.parent if file.parent.name == COCO_INSIDE else file.parent
        prefix = prefix or inner_prefix([*names.values()], place, root, _coco_folders(root), split)
        strays: list[str] = []
        once = Once("id", faults)
        without = set(names)
        kinds = {"id": int, "image_id": int, "caption": str}
        for where, item, (number, image, caption) in _coco_items(values, content, "annotations", kinds):
            if not once.add(number, f"{file}: {where}"):
                continue
            if image not in names:
                strays.append(f"annotations with image_id {image}")
                continue
            without.discard(image)
            columns = columns_of_image[image] | other_columns(item, COCO_CAPTION_KEYS)
            name = prefix + names[image]
            yield Record(name, caption, f"{file}: {where}", split, caption_id=number, columns=columns)
        faults += count_cases(file, "captions belong to no image of the file and are left out", strays)
        for number in sorted(without):
            yield Record(prefix + names[number], "", f"{file}, image {number}", split)


def _coco_items(values: JsonValues, content: Any, key: str, kinds: dict[str, type]) -> Iterator[Any]:
    """Yield (location, object, values of the keys in `kinds`) for every object without faults in the JSON's list
    `key`."""
    for index, item in enumerate(values.get(content, "the file", key, list) or []):
        where = f"{key}[{index}]"
        row = [values.get(item, where, name, kind) for name, kind in kinds.items()]
        if None not in row:
            yield where, item, row


PRECOMP = Layout("precomp", _find_precomp, _precomp, _folders, _precomp_source)
# layouts of region features, read here for their pictures
FIELD = (PRECOMP, Layout("karpathy", _find_karpathy, _karpathy, _folders))
COCO = Layout("coco", _find_coco, _coco, _coco_folders)
