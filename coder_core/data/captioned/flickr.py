"""Flickr8k and Flickr30K: token files with lists of images, Kaggle's captions.txt, results.csv, the annotations CSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.records import (
    Contents,
    Layout,
    Once,
    Record,
    Tally,
    captions_in,
    csv_rows,
    first_line,
    json_value,
    matching,
    split_name,
)
from coder_core.data.lines import read_lines, shown
from coder_core.data.pictures import ENDINGS

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
HEADS = ("image", "image_name", "file_name", "filename")  # of Kaggle's first column
LIST = re.compile(r"(?:.*[._])?(train|dev|val|test)Images\.txt")
NUMBERED = re.compile(r"(.+)#(\d+)")
WITHOUT_BAR = re.compile(r"\s*\d+\s+(\S.*)")


def _folders(root: Path) -> list[Path]:
    parents = [root, root.parent] if root.name in TEXT_FOLDERS else [root]
    return [*(parent / name for parent in parents for name in PICTURE_FOLDERS), *parents]


def _is_picture(name: str) -> bool:
    return PurePosixPath(name.strip().lower()).suffix in ENDINGS


def _contents(
    records: Callable[[Path, list[Fault]], Iterator[Record]],
) -> Callable[[list[Path], Path, list[Fault]], Contents]:
    """A layout's `parse` that reads its first file."""

    def parse(files: list[Path], root: Path, faults: list[Fault]) -> Contents:
        return Contents(records(files[0], faults), _folders(root), source={"captions": str(files[0])})

    return parse


def _find_tokens(path: Path) -> list[Path]:
    files = matching(path, "*.token.txt", "*.token", inside=TEXT_FOLDERS)
    return files if files and "\t" in first_line(files[0]) else []


def _parse_tokens(files: list[Path], root: Path, faults: list[Fault]) -> Contents:
    file = files[0]
    entries = sorted(file.parent.glob("*Images.txt"))
    lists = {found[1]: entry for entry in entries if (found := LIST.fullmatch(entry.name))}
    splits: dict[str, list[str]] = {}
    for name, entry in lists.items():
        for image in read_lines(entry, "picture name", faults):
            splits.setdefault(image, []).append(split_name(name))
    source = {f"{split_name(name)} images": str(entry) for name, entry in lists.items()}
    records = _tokens(file, splits, faults)
    return Contents(records, _folders(root), source={"captions": str(file)} | source, listed=bool(lists))


def _tokens(file: Path, splits: dict[str, list[str]], faults: list[Fault]) -> Iterator[Record]:
    without = Tally(str(file), "images of the lists have no caption and are left out")
    once = Once("number", faults)
    for number, line in enumerate(read_lines(file, "caption", faults), 1):
        place = f"{file} line {number}"
        name, tab, caption = line.partition("\t")
        match = NUMBERED.fullmatch(name)
        if line and not (tab and match):
            faults.append(Fault(place, f"is {shown(line)}", "image.jpg#0, a tab, a caption", "mend the line"))
        elif match and once.add(name, place):
            for split in splits.get(match[1], [""]):
                yield Record(match[1], caption, place, split)
    captioned = {name.rpartition("#")[0] for name in once.places}
    for name in splits:
        if name not in captioned:
            without.add(shown(name))
    faults.extend(without.faults())


def _find_kaggle(path: Path) -> list[Path]:
    files = matching(path, "captions.txt")
    name, comma, _ = (first_line(files[0]) if files else "").partition(",")
    return files if comma and (name.strip().lower() in HEADS or _is_picture(name)) else []


def _captions_with_header(file: Path, mark: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    """Place and text of the lines behind the header, or of all where the first one begins with a picture's name."""
    for number, line in enumerate(read_lines(file, "caption", faults), 1):
        place = f"{file} line {number}"
        if number == 1:
            if not _is_picture(line.partition(mark)[0]):
                continue
            faults.append(Fault(place, "is no header but a caption, and is read as one", severity="note"))
        if line:
            yield place, line


def _kaggle(file: Path, faults: list[Fault]) -> Iterator[Record]:
    for place, line in _captions_with_header(file, ",", faults):
        name, comma, caption = line.partition(",")
        if comma and _is_picture(name):
            yield Record(name.strip(), caption, place)
        else:
            faults.append(Fault(place, f"is {shown(line)}", "image.jpg, a comma, a caption", "mend the line"))


def _find_results(path: Path) -> list[Path]:
    return [file for file in matching(path, "results*.csv", "*.csv") if first_line(file).count("|") == 2]


def _results(file: Path, faults: list[Fault]) -> Iterator[Record]:
    mended = Tally(str(file), "lines lack the bar before the comment; what follows the number is read as it")
    once = Once("number", faults)
    for place, line in _captions_with_header(file, "|", faults):
        fields = [field.strip() for field in line.split("|", 2)]
        if len(fields) == 2 and (found := WITHOUT_BAR.fullmatch(fields[1])):
            mended.add(place.rpartition(" ")[2])
            fields = [fields[0], fields[1].split()[0], found[1]]
        if len(fields) < 2 or not _is_picture(fields[0]):
            faults.append(Fault(place, f"is {shown(line)}", "image.jpg| number| caption", "mend the line"))
        elif once.add(f"{fields[0]}| {fields[1]}", place):
            yield Record(fields[0], fields[2] if len(fields) == 3 else "", place)
    faults.extend(mended.faults())


def _find_annotations(path: Path) -> list[Path]:
    def titles(file: Path) -> set[str]:
        return {title.strip().strip('"') for title in first_line(file).split(",")}

    files = matching(path, "flickr_annotations*.csv", "*.csv")
    return [file for file in files if {"raw", "filename"} <= titles(file)]


def _annotations(file: Path, faults: list[Fault]) -> Iterator[Record]:
    once = Once("sentid", faults)
    for place, row in csv_rows(file, ("raw", "filename"), faults):
        try:
            captions = captions_in(json_value(row["raw"], f"{place}, column raw"), f"{place}, column raw")
            ids = json_value(row.get("sentids", "[]"), f"{place}, column sentids")
        except InputError as error:
            faults.extend(error.faults)
            continue
        for number in ids if isinstance(ids, list) else []:
            if isinstance(number, int):
                once.add(number, place)
        for caption in captions or [""]:
            yield Record(row["filename"], caption, place, split_name(row.get("split", "")))


FLICKR = (
    Layout(
        "flickr8k",
        "*.token.txt and Flickr_8k.trainImages.txt",
        "holds image#number, a tab and a caption",
        _find_tokens,
        _parse_tokens,
    ),
    Layout(
        "flickr30k-annotations",
        "flickr_annotations_30k.csv",
        "has the columns raw and filename",
        _find_annotations,
        _contents(_annotations),
    ),
    Layout(
        "flickr30k-results",
        "results.csv with | between its columns",
        "has three columns between bars (|)",
        _find_results,
        _contents(_results),
    ),
    Layout(
        "kaggle",
        "captions.txt: image,caption",
        "holds a picture name, a comma and a caption",
        _find_kaggle,
        _contents(_kaggle),
    ),
)
