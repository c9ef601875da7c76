"""Flickr8k and Flickr30K: token files with lists of images, Kaggle's captions.txt, results.csv, the annotations CSV."""

import csv
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned import records
from coder_core.data.captioned.records import Layout, Record
from coder_core.data.captioned.splits import split_in, split_value
from coder_core.data.captioned.tables import open_table
from coder_core.data.lines import (
    Once,
    composed,
    count_cases,
    numbered_lines,
    parse_json_text,
    read_lines,
    shown,
)
from coder_core.data.pictures import ENDINGS

TEXT_FOLDERS = ("Flickr8k_text", "text", "annotations")
PICTURE_FOLDERS = (
    *("Flicker8k_Dataset", "Flickr8k_Dataset", "Images", "images"),
    *("flickr30k-images", "flickr30k_images", "flickr30k_images/flickr30k_images"),
)
HEADS = ("image", "image_name", "file_name", "filename")  # titles of Kaggle's first column
NUMBERED = re.compile(r"(.+)#(\d+)")
OPEN_QUOTE = re.compile(r'\s*"(?:[^"]|"")*')  # a quote that is never closed
WITHOUT_BAR = re.compile(r"\s*\d+\s+(\S.*)")
WITH_NUMBER = re.compile(r"\w+,\s*\w*number,\s*\w+")  # a header of three columns
FIX_LINE = "fix the line"


def _folders(root: Path) -> list[Path]:
    parents = [root, root.parent] if root.name in TEXT_FOLDERS else [root]
    return [*(parent / name for parent in parents for name in PICTURE_FOLDERS), *parents]


def _is_picture(name: str) -> bool:
    return PurePosixPath(name.strip().lower()).suffix in ENDINGS


def _find_tokens(path: Path) -> list[Path]:
    files = records.matching(path, ["*.token.txt", "*.token"], inside=TEXT_FOLDERS)
    files = sorted(files, key=lambda file: ".lemma." in file.name)[:1]  # Flickr8k has lemmatised captions too
    return files if files and "\t" in records.first_line(files[0]) else []


def _lists(tokens: Path) -> list[tuple[str, Path]]:
    """Find the lists of images beside a token file: (split, file)."""
    files = records.matching(tokens.parent, ["*Images.txt"])
    return [(split, file) for file in files if (split := split_in(file.stem))]


def _tokens_source(files: list[Path]) -> dict[str, str]:
    return {"captions": str(files[0])} | {f"{split} images": str(file) for split, file in _lists(files[0])}


def _tokens(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    file = files[0]
    lists = _lists(files[0])
    splits: dict[str, list[str]] = {}
    for split, names in lists:
        listed = Once("name", faults, "remove one")
        for where, image in numbered_lines(names, "picture name", faults):
            in_splits = splits.setdefault(composed(image), [])
            if listed.add(composed(image), where) and split not in in_splits:
                in_splits.append(split)

    once = Once("number", faults)
    unlisted: dict[str, None] = {}
    for where, line in numbered_lines(file, "caption", faults):
        name, tab, caption = line.partition("\t")
        match = NUMBERED.fullmatch(name)
        if not (tab and match):
            faults.append(Fault(where, f"is {shown(line)}", "image.jpg#0, a tab, a caption", FIX_LINE))
        elif once.add(name, where):
            image = composed(match[1])
            if lists and image not in splits:
                unlisted[match[1]] = None
            for split in splits.get(image, [] if lists else [""]):
                yield Record(match[1], caption, where, split)

    captioned = {composed(name.rpartition("#")[0]) for name in once.places}
    bare = [shown(name) for name in splits if name not in captioned]
    faults += count_cases(file, "images of the split lists have no caption and are left out", bare)
    problem = "images are not in any split's list and are left out"
    faults += count_cases(file, problem, [*map(shown, unlisted)], severity="note")


def _find_kaggle(path: Path) -> list[Path]:
    files = records.matching(path, ["captions.txt"])
    head = records.first_line(files[0]) if files else ""
    name, comma, rest = head.partition(",")
    name = name.strip().strip('"')
    is_header = name.lower() in HEADS and ("," not in rest or WITH_NUMBER.fullmatch(head))
    return files if comma and (is_header or _is_picture(name)) else []


def _captions_with_header(file: Path, mark: str, faults: list[Fault]) -> Iterator[tuple[str, str]]:
    """Yield (location, text) of the lines after the header, or of all lines if the first begins with a picture name."""
    for where, line in numbered_lines(file, "caption", faults):
        if where == f"{file} line 1":
            if not _is_picture(line.partition(mark)[0].strip().strip('"')):
                continue
            faults.append(Fault(where, "has no header; the line is read as a caption", severity="note"))
        yield where, line


def _kaggle(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    numbered = WITH_NUMBER.fullmatch(records.first_line(files[0]))
    for where, written in _captions_with_header(files[0], ",", faults):
        line = re.sub(r",\s*\d+\s*,", ",", written, count=1) if numbered else written
        name, caption = _name_and_caption(line)
        if OPEN_QUOTE.fullmatch(line.partition(",")[2]):
            problem = "the caption opens a quote that its line does not close"
            fix = "close it"
            faults.append(Fault(where, problem, "a caption on one line", fix))
        elif _is_picture(name):
            yield Record(name.strip(), caption, where)
        else:
            faults.append(Fault(where, f"is {shown(line)}", "image.jpg, a comma, a caption", FIX_LINE))


def _name_and_caption(line: str) -> tuple[str, str]:
    """Split a CSV row into its two fields; split any other line at its first comma."""
    if '"' in line:
        with suppress(csv.Error):
            fields = next(csv.reader([line], strict=True, skipinitialspace=True))
            if len(fields) == 2:
                return fields[0], fields[1]
    name, comma, caption = line.partition(",")
    return (name, caption) if comma else ("", "")


def _find_results(path: Path) -> list[Path]:
    files = records.matching(path, ["results*.csv", "*.csv"])
    return [file for file in files if records.first_line(file).count("|") == 2][:1]


def _results(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    repaired: list[str] = []
    once = Once("number", faults)
    for where, line in _captions_with_header(files[0], "|", faults):
        fields = [field.strip() for field in line.split("|", 2)]
        if len(fields) == 2 and (match := WITHOUT_BAR.fullmatch(fields[1])):
            repaired.append(where.rpartition(" ")[2])
            fields = [fields[0], fields[1].split()[0], match[1]]
        if len(fields) < 2 or not _is_picture(fields[0]):
            faults.append(Fault(where, f"is {shown(line)}", "image.jpg| number| caption", FIX_LINE))
        elif once.add(f"{fields[0]}| {fields[1]}", where):
            yield Record(fields[0], fields[2] if len(fields) == 3 else "", where)
    problem = "lines lack the bar before the comment; the text after the number is read as the comment"
    faults += count_cases(files[0], problem, repaired)


def _find_annotations(path: Path) -> list[Path]:
    def titles(file: Path) -> set[str]:
        return {title.strip().strip('"') for title in records.first_line(file).split(",")}

    files = records.matching(path, ["flickr_annotations*.csv", "*.csv"])
    return [file for file in files if {"raw", "filename"} <= titles(file)][:1]


def _annotations(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    once = Once("sentid", faults)
    for where, row in open_table(files[0], titled=True).rows(faults, ("raw", "filename")):
        read = collect(partial(_captions_and_ids, row, where), faults)
        if read is None:
            continue
        captions, ids = read
        for number in ids if isinstance(ids, list) else []:
            if isinstance(number, int):
                once.add(number, where)
        for caption in captions or [""]:
            yield Record(row["filename"], caption, where, split_value(row.get("split"), where))


def _captions_and_ids(row: dict[str, str], where: str) -> tuple[list[str], object]:
    captions = records.captions_in(
        parse_json_text(row["raw"], f"{where}, column raw"), f"{where}, column raw"
    )
    return captions, parse_json_text(row.get("sentids", "[]"), f"{where}, column sentids")


def _find_lists(path: Path) -> list[Path]:
    """Find Multi30k's lists of pictures, one name per line, that have parallel files of captions (train.en, train.de)."""
    folders = [path, *records.folders_in(path)]
    lists = [
        file for folder in folders for file in records.matching(folder, ["*.txt"]) if split_in(file.stem)
    ]
    return [file for file in lists if _is_picture(records.first_line(file)) and _parallel(file, path)]


def _parallel(file: Path, root: Path) -> list[Path]:
    """List the files of captions that are parallel to a list, one for each language."""
    stem = file.stem.removesuffix("_images")
    found: dict[str, Path] = {}
    for folder in (root, *records.folders_in(root)):
        for text in records.matching(folder, [f"{stem}.[a-z][a-z]"]):
            found.setdefault(text.suffix, text)
    return [found[suffix] for suffix in sorted(found)]


def _lists_and_texts(files: list[Path], root: Path, faults: list[Fault]) -> Iterator[Record]:
    for file in files:
        names = read_lines(file, "picture name", faults)
        split = split_in(file.stem)
        for text in _parallel(file, root):
            captions = read_lines(text, "caption", faults)
            if len(captions) != len(names):
                problem = f"has {len(captions):,} lines for the {len(names):,} pictures of {file.name}"
                raise InputError.at(text, problem, "one caption per picture, in the same order", FIX_LINE)
            for number, (name, caption) in enumerate(zip(names, captions, strict=True), 1):
                where = f"{text} line {number}"
                yield Record(name.partition("#")[0], caption, where, split, language=text.suffix[1:])


FLICKR = (
    Layout("multi30k", _find_lists, _lists_and_texts, _folders),
    Layout("flickr8k", _find_tokens, _tokens, _folders, _tokens_source),
    Layout("flickr30k-annotations", _find_annotations, _annotations, _folders),
    Layout("flickr30k-results", _find_results, _results, _folders),
    Layout("kaggle", _find_kaggle, _kaggle, _folders),
)
