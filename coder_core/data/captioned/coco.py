"""COCO: captions_train2017.json with "images" and "annotations"; the file's name says the split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError
from coder_core.data.captioned.records import (
    Contents,
    Layout,
    Record,
    Tally,
    folder_of,
    json_value,
    matching,
    split_name,
)
from coder_core.data.lines import plain_file, shown

NAME = re.compile(r"captions_(train|val|test|dev)(\d*).*\.json")


def _files(path: Path) -> list[Path]:
    return [
        file
        for file in matching(path, "captions_*.json", inside=["annotations"])
        if NAME.fullmatch(file.name)
    ]


def _recognise(path: Path) -> str:
    files = _files(path)
    return f"{', '.join(file.name for file in files[:3])} in COCO's form" if files else ""


def _read(path: Path, faults: list[Fault]) -> Contents:
    files = _files(path)
    root = folder_of(path)
    roots = [root.parent, root] if root.name == "annotations" else [root]
    folders = [folder / name for folder in roots for name in ("", "images")]
    return Contents(
        _records(files, folders, faults), folders, source={"captions": ", ".join(map(str, files))}
    )


def _records(files: list[Path], folders: list[Path], faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        match = NAME.fullmatch(file.name)
        assert match is not None
        split, inner = match[1], f"{match[1]}{match[2]}"
        prefix = f"{inner}/" if any((folder / inner).is_dir() for folder in folders) else ""
        content = json_value(plain_file(file, faults).read_text("utf-8-sig"), str(file))
        names: dict[int, str] = {}
        for place, item in _items(content, "images", {"id": int, "file_name": str}, file, faults):
            if names.setdefault(item["id"], item["file_name"]) != item["file_name"]:
                problem = f"the id {item['id']} is also that of {shown(names[item['id']])}"
                faults.append(Fault(place, problem, "its own id", "mend the ids"))
        seen: dict[int, str] = {}
        strays = Tally(str(file), "captions belong to no image of the file and are left out")
        without = set(names)
        wanted = {"image_id": int, "id": int, "caption": str}
        for place, item in _items(content, "annotations", wanted, file, faults):
            if seen.setdefault(item["id"], place) != place:
                problem = f"the id {item['id']} is also that of {seen[item['id']]}"
                faults.append(Fault(place, problem, "its own id", "mend the ids"))
            elif item["image_id"] not in names:
                strays.add(f"annotations with image_id {item['image_id']}")
            else:
                without.discard(item["image_id"])
                name = prefix + names[item["image_id"]]
                yield Record(name, item["caption"], place, split_name(split), caption_id=item["id"])
        faults.extend(strays.faults())
        for number in sorted(without):
            yield Record(prefix + names[number], "", f"{file}, image {number}", split_name(split))


def _items(
    content: Any, key: str, wanted: dict[str, type], file: Path, faults: list[Fault]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a list in the JSON that have the wanted keys; the others are faults."""
    items = content.get(key) if isinstance(content, dict) else None
    if not isinstance(items, list):
        expected = "COCO's images and annotations"
        raise InputError.at(f"{file}: {key}", "is no list", expected, "use the file captions_*.json of COCO")
    bad = 0
    for index, item in enumerate(items):
        place = f"{file}: {key}[{index}]"
        wrong = [
            name
            for name, kind in wanted.items()
            if not isinstance(item, dict) or type(item.get(name)) is not kind
        ]
        if not wrong:
            yield place, item
            continue
        bad += 1
        if bad <= MOST_FAULTS_SHOWN:
            kinds = ", ".join(
                f"{name} ({'a number' if wanted[name] is int else 'a string'})" for name in wrong
            )
            faults.append(Fault(place, "lacks a key, or it has another type", kinds, "repair the JSON"))


COCO = (Layout("coco", "captions_train2017.json, captions_val2017.json", _recognise, _read),)
