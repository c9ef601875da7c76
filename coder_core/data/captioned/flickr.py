"""Flickr8k and Flickr30K: token files with lists of images, Kaggle's captions.txt, results.csv, the annotations CSV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.records import (
    Contents,
    Layout,
    Record,
    Tally,
    captions_in,
    column,
    csv_rows,
    first_line,
    folder_of,
    json_value,
    matching,
    split_name,
)
from coder_core.data.lines import read_lines, shown
from coder_core.data.pictures import ENDINGS

TOKENS = ("*.token.txt", "*.token")
TEXT_FOLDERS = ("Flickr8k_text", "text", "annotations")
PICTURE_FOLDERS = (
    "Flicker8k_Dataset",
    "Flickr8k_Dataset",
    "Images",
    "images",
    "flickr30k-images",
    "flickr30k_images",
    "flickr30k_images/flickr30k_images",
)
LIST = re.compile(r"(?:.*[._])?(train|dev|val|test)Images\.txt")
NUMBERED = re.compile(r"(.+)#(\d+)")
WITHOUT_BAR = re.compile(r"\s*\d+\s+(\S.*)")


def _folders(path: Path) -> list[Path]:
    root = folder_of(path)
    parents = [root, root.parent] if root.name in TEXT_FOLDERS else [root]
    return [*(parent / name for parent in parents for name in PICTURE_FOLDERS), *parents]


def _is_picture(name: str) -> bool:
    return PurePosixPath(name.strip().lower()).suffix in ENDINGS


def _recognise_tokens(path: Path) -> str:
    files = matching(path, *TOKENS, inside=TEXT_FOLDERS)
    return (
        f"{files[0].name} holds image#number, a tab and a caption"
        if files and "\t" in first_line(files[0])
        else ""
    )


def _read_tokens(path: Path, faults: list[Fault]) -> Contents:
    file = matching(path, *TOKENS, inside=TEXT_FOLDERS)[0]
    lists = {
        found[1]: entry
        for entry in sorted(file.parent.glob("*Images.txt"))
        if (found := LIST.fullmatch(entry.name))
    }
    splits: dict[str, list[str]] = {}
    for name, entry in lists.items():
        for image in read_lines(entry, "picture name", faults):
            splits.setdefault(image, []).append(split_name(name))
    source = {"captions": str(file)} | {
        f"{split_name(name)} images": str(entry) for name, entry in lists.items()
    }
    return Contents(_tokens(file, splits, faults), _folders(path), source=source, listed=bool(lists))


def _tokens(file: Path, splits: dict[str, list[str]], faults: list[Fault]) -> Iterator[Record]:
    without = Tally(str(file), "images of the lists have no caption and are left out")
    seen: dict[str, int] = {}
    for number, line in enumerate(read_lines(file, "caption", faults), 1):
        place = f"{file} line {number}"
        name, tab, caption = line.partition("\t")
        match = NUMBERED.fullmatch(name)
        if not line:
            continue
        if not tab or not match:
            faults.append(Fault(place, f"is {shown(line)}", "image.jpg#0, a tab, a caption", "mend the line"))
            continue
        if (first := seen.setdefault(name, number)) != number:
            faults.append(
                Fault(place, f"{shown(name)} again, of line {first}", "its own number", "mend the number")
            )
            continue
        for split in splits.get(match[1], [""]):
            yield Record(match[1], caption, place, split)
    captioned = {name.rpartition("#")[0] for name in seen}
    for name in splits:
        if name not in captioned:
            without.add(shown(name))
    faults.extend(without.faults())


def _recognise_kaggle(path: Path) -> str:
    files = matching(path, "captions.txt")
    line = first_line(files[0]) if files else ""
    name, comma, _ = line.partition(",")
    if not comma or not (
        name.strip().lower() in ("image", "image_name", "file_name", "filename") or _is_picture(name)
    ):
        return ""
    return f"{files[0].name} begins with {shown(line, 40)}: a picture name, a comma, a caption"


def _read_kaggle(path: Path, faults: list[Fault]) -> Contents:
    file = matching(path, "captions.txt")[0]
    return Contents(_kaggle(file, faults), _folders(path), source={"captions": str(file)})


def _kaggle(file: Path, faults: list[Fault]) -> Iterator[Record]:
    for number, line in enumerate(read_lines(file, "caption", faults), 1):
        place = f"{file} line {number}"
        name, comma, caption = line.partition(",")
        if number == 1:
            if not _is_picture(name):
                continue
            faults.append(Fault(place, "is no header but a caption, and is read as one", severity="note"))
        if line and not (comma and _is_picture(name)):
            faults.append(Fault(place, f"is {shown(line)}", "image.jpg, a comma, a caption", "mend the line"))
        elif line:
            yield Record(name.strip(), caption, place)


def _recognise_results(path: Path) -> str:
    files = matching(path, "results*.csv", "*.csv")
    file = next((entry for entry in files if first_line(entry).count("|") == 2), None)
    return f"{file.name} has three columns between bars (|)" if file else ""


def _read_results(path: Path, faults: list[Fault]) -> Contents:
    file = next(
        entry for entry in matching(path, "results*.csv", "*.csv") if first_line(entry).count("|") == 2
    )
    return Contents(_results(file, faults), _folders(path), source={"captions": str(file)})


def _results(file: Path, faults: list[Fault]) -> Iterator[Record]:
    mended = Tally(str(file), "lines lack the bar before the comment; what follows the number is read as it")
    seen: dict[tuple[str, str], int] = {}
    for number, line in enumerate(read_lines(file, "caption", faults), 1):
        place = f"{file} line {number}"
        fields = [field.strip() for field in line.split("|", 2)]
        if number == 1:
            if not _is_picture(fields[0]):
                continue
            faults.append(Fault(place, "is no header but a caption, and is read as one", severity="note"))
        if len(fields) == 2 and (found := WITHOUT_BAR.fullmatch(fields[1])):
            mended.add(f"line {number}")
            fields = [fields[0], fields[1].split()[0], found[1]]
        if line and not (len(fields) >= 2 and _is_picture(fields[0])):
            faults.append(Fault(place, f"is {shown(line)}", "image.jpg| number| caption", "mend the line"))
        elif line and (first := seen.setdefault((fields[0], fields[1]), number)) != number:
            problem = f"comment {fields[1]} of {shown(fields[0])} again, as in line {first}"
            faults.append(Fault(place, problem, "its own number", "mend the number"))
        elif line:
            yield Record(fields[0], fields[2] if len(fields) == 3 else "", place)
    faults.extend(mended.faults())


def _recognise_annotations(path: Path) -> str:
    for file in matching(path, "flickr_annotations*.csv", "*.csv"):
        titles = {title.strip().strip('"') for title in first_line(file).split(",")}
        if {"raw", "filename"} <= titles:
            return f"{file.name} has the columns raw and filename"
    return ""


def _read_annotations(path: Path, faults: list[Fault]) -> Contents:
    files = matching(path, "flickr_annotations*.csv", "*.csv")
    file = next(entry for entry in files if "filename" in first_line(entry))
    return Contents(_annotations(file, faults), _folders(path), source={"captions": str(file)})


def _annotations(file: Path, faults: list[Fault]) -> Iterator[Record]:
    rows = csv_rows(file, faults)
    _, header = next(rows)
    raw, name = column(header, ["raw"], file), column(header, ["filename"], file)
    split = header.index("split") if "split" in header else None
    sentids = header.index("sentids") if "sentids" in header else None
    seen: dict[int, str] = {}
    for place, row in rows:
        if len(row) != len(header):
            problem = f"has {len(row)} fields, the header {len(header)}"
            faults.append(Fault(place, problem, "the same number", "mend the quotes"))
            continue
        try:
            captions = captions_in(json_value(row[raw], f"{place}, column raw"), f"{place}, column raw")
            ids = json_value(row[sentids], f"{place}, column sentids") if sentids is not None else []
        except InputError as error:
            faults.extend(error.faults)
            continue
        for number in ids if isinstance(ids, list) else []:
            if isinstance(number, int) and (first := seen.setdefault(number, place)) != place:
                problem = f"the sentid {number} is also one of {first}"
                faults.append(Fault(place, problem, "its own number", "mend the ids"))
        for caption in captions or [""]:
            yield Record(row[name], caption, place, split_name(row[split]) if split is not None else "")


FLICKR = (
    Layout("flickr8k", "*.token.txt and Flickr_8k.trainImages.txt", _recognise_tokens, _read_tokens),
    Layout("flickr30k-annotations", "flickr_annotations_30k.csv", _recognise_annotations, _read_annotations),
    Layout("flickr30k-results", "results.csv with | between its columns", _recognise_results, _read_results),
    Layout("kaggle", "captions.txt: image,caption", _recognise_kaggle, _read_kaggle),
)
