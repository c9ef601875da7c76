"""Read a data set of pictures with captions in any known layout: splits, checks, and the location of every picture."""

from __future__ import annotations

import os
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path, PurePosixPath

import numpy as np

from coder_core.config.data import ReadingArguments, group_faults
from coder_core.console.faults import Fault, Severity, stop_on_errors
from coder_core.data.captioned.collection import CaptionedData, CaptionedSplit
from coder_core.data.captioned.layouts import find_layout
from coder_core.data.captioned.names import PictureNames, find_folder
from coder_core.data.captioned.positions import Base64Members, Files, ParquetRows, Positions, TarMembers
from coder_core.data.captioned.records import Record, folder_of, folders_in, id_array
from coder_core.data.captioned.splits import FIRST, dealt_split, split_in, splits_named
from coder_core.data.column_values import RawColumns
from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.data.groups import (
    group_numbers,
    ids_of_column,
    ids_of_file,
    open_groups,
    shared_groups,
    unrelated,
)
from coder_core.data.joined_columns import read_table_columns
from coder_core.data.lines import check_name, composed, count_cases, shared_names, shorten, shown, unwritable
from coder_core.data.pictures import ACCEPTED, ENDINGS, INSIDE, given_folder, unsafe_reason

PACKED = {"tar": TarMembers, "parquet": ParquetRows, "tsv": Base64Members}
FEWEST_IMAGES = 20  # from which captions are compared with each other
MOST_ALIKE = 0.1  # different captions per image, below which a warning is due
FOLDERS_LISTED = 200  # of a data set, to find names of splits
NAMES_OF_SPLITS = 1000  # pictures whose names are looked at for splits
SKIPPING = ", or leave them out with --skip-broken"
DOWNLOAD = "download the pictures first, for example with img2dataset, whose output is read as it is"


def read_captioned(
    path: str | Path,
    reading: ReadingArguments | None = None,
    *,
    pictures: str | Path | None = None,
    only: str = "",
) -> CaptionedData:
    """Read all splits of a data set of pictures with captions: a folder, or the file of the captions. No picture is
    opened. InputError: the data cannot be read; up to 20 faults, each with file, row and how to fix it.

    Missing pictures are left out with `reading.skip_broken`; otherwise they are errors among the faults. `pictures`:
    the folder of the picture files, if it is not beside the captions. `only`: look for missing pictures in this split.
    """
    path = Path(path)
    reading = reading or ReadingArguments()
    names = [*check_name(path.absolute()), *check_name(Path(pictures) if pictures else None)]
    stop_on_errors([*names, *_check_shares(reading), *group_faults(reading)])

    faults: list[Fault] = []
    layout = find_layout(path, reading, faults)
    files = layout.find(path)
    root = folder_of(path)
    folders = [given_folder(pictures)] if pictures is not None else layout.folders(root)
    captions = layout.source(files)
    where = ", ".join(captions.values())
    records = _of_language(layout.records(files, root, faults), reading.language, where, faults)
    names_written = None if layout.packed else PictureNames(root, folders)
    images = _collect(records, where, faults, names_written)
    if not images.captions and all(fault.severity != "error" for fault in faults):
        expected = f"at least one caption per image, and pictures that end in {', '.join(ENDINGS)}"
        faults.append(Fault(str(path), "has no caption of any picture", expected, "check the file"))
    stop_on_errors(faults)

    if layout.packed is not None:
        store = PACKED[layout.packed]
        rows_of_files = np.array(images.positions, np.int64).reshape(-1, 3)
        positions: Positions = store(files, images.names, rows_of_files)
    else:
        folder, images.names = find_folder(path, root, folders, images.names, faults)
        positions = Files(folder, images.names)
    if reading.columns:
        owners = np.array(images.owners, np.int64)
        table = Path(reading.columns)
        images.joined, notes = read_table_columns(table, images.names, owners, id_array(images.caption_ids))
        faults += notes
    _name_groups(images, reading, where, faults)
    dealt = _assign_splits(images, where, root, reading, faults)
    source = {"layout": layout.name, **captions}
    if positions.folder:
        source["pictures"] = str(positions.folder)
    splits = _splits(images, positions, source, where, faults)

    present = list[CaptionedSplit]()
    for split in splits:
        if only in ("", split.name):
            split = _report_missing(split, path, reading.skip_broken, faults)
        if len(split.rows):
            present.append(split)
    for earlier, split in combinations(splits, 2):
        names_of_both = set(split.image_names).intersection(earlier.image_names)
        where = f"{split.name} and {earlier.name}"
        faults += shared_names(where, names_of_both, "pictures")
        if split.image_groups is not None and earlier.image_groups is not None:
            faults += shared_groups(where, split.image_groups, earlier.image_groups)
    faults += _without_captions(splits)
    return CaptionedData(path, layout.name, present, faults, dealt)


def _name_groups(images: _Images, reading: ReadingArguments, where: str, faults: list[Fault]) -> None:
    """Give every image the id of its group by a column or a file, if one is named, in place of what the layout says; add a
    note."""
    if reading.group_column:
        owner = np.array(images.owners, np.int64)
        columns, _ = images.columns.typed(owner, len(images.names), where)
        columns = columns.joined(images.joined)
        images.groups, note = ids_of_column(columns, reading.group_column, where)
        faults.append(note)
    elif reading.groups:
        file = open_groups(Path(reading.groups))
        found = ids_of_file(file, images.names)
        if found is None:
            raise unrelated(file.path, images.names)
        images.groups, note = found
        faults.append(note)


def _splits(
    images: _Images, positions: Positions, source: dict[str, str], where: str, faults: list[Fault]
) -> list[CaptionedSplit]:
    """Return the splits that the images name, train first; add notes on their columns."""
    image_of_text = np.array(images.owners, np.int64)
    columns, notes = images.columns.typed(image_of_text, len(images.names), where)
    faults += notes
    every = CaptionedSplit(
        name="",
        image_names=images.names,
        captions=images.captions,
        image_of_text=image_of_text,
        positions=positions,
        rows=np.arange(len(images.names)),
        source=source,
        caption_ids=id_array(images.caption_ids),
        columns=columns.joined(images.joined),
        image_groups=group_numbers(images.groups) if any(images.groups) else None,
    )
    split_of_image = np.array(images.splits)
    in_order = sorted({*images.splits} - {""}, key=lambda name: (FIRST.get(name, 3), name))
    return [replace(every.keep(split_of_image == name), name=name) for name in in_order]


def _check_shares(reading: ReadingArguments) -> list[Fault]:
    dev = reading.dev_share
    test = reading.test_share
    if 0 <= dev <= 1 and 0 <= test <= 1 and dev + test <= 1:
        return []
    flags = "--dev-share and --test-share"
    expected = "from 0 to 1, together at most 1"
    return [Fault(flags, f"are {dev:g} and {test:g}", expected, "make them smaller")]


@dataclass
class _Images:
    """Images in order of first appearance, with their captions."""

    names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)  # of every image
    groups: list[str] = field(default_factory=list)  # of every image; "" for a group of its own
    captions: list[str] = field(default_factory=list)
    caption_ids: list[int | None] = field(default_factory=list)
    owners: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))  # three numbers per packed picture
    columns: RawColumns = field(default_factory=RawColumns)  # of every caption
    joined: SampleColumns = NO_COLUMNS  # of a table that a flag names


def _of_language(records: Iterable[Record], wanted: str, where: str, faults: list[Fault]) -> Iterator[Record]:
    """Yield the records of one language, or all without `wanted`; a note counts the captions of several languages."""
    counts: Counter[str] = Counter()
    for record in records:
        counts[record.language] += 1
        if wanted in ("", record.language):
            yield record
    named = ", ".join(f"{count:,} {language}" for language, count in sorted(counts.items()) if language)
    if wanted and wanted not in counts:
        problem = f"has no captions of --language {wanted}"
        expected = f"one of {named}" if named else "captions whose language the data names"
        faults.append(Fault(where, problem, expected, "leave --language out" if not named else ""))
    elif len(counts) > 1 and not wanted:
        fact = f"captions are in several languages: {named}"
        faults.append(Fault(where, fact, fix="read one of them with --language", severity="note"))


def _collect(
    records: Iterable[Record], where: str, faults: list[Fault], written: PictureNames | None
) -> _Images:
    """Group records into images with captions; records that cannot be used are counted and named. `written`: the gate
    for names of picture files; None for packed pictures."""
    images = _Images()
    empty = list[str]()
    number: dict[tuple[str, str], int] = {}  # (split, name) → image
    bare_names: set[tuple[str, str]] = set()
    unusable: dict[tuple[str, str, str], list[str]] = {}  # problem, expected, fix → rows
    for record in records:
        caption = " ".join(record.caption.split("\n")).strip()
        name = record.image if written is None else written.relative(record.image)
        reason = _problem(name, caption, packed=written is None)
        if reason[0]:
            case = f"{record.place.rpartition('/')[2]}: the name {shown(name)}"
            unusable.setdefault(reason, []).append(case)
            continue
        key = sys.intern(record.split), composed(name)
        if not caption:
            empty.append(record.place)
            bare_names.add(key)
            continue
        image = number.setdefault(key, len(images.names))
        if image == len(images.names):
            images.names.append(name)
            images.splits.append(key[0])
            images.groups.append(record.group)
            images.positions.extend(record.position or ())
        images.captions.append(caption)
        images.caption_ids.append(record.caption_id)
        images.columns.add(record.columns)
        images.owners.append(image)

    bare = [shown(name) for _, name in sorted(bare_names - number.keys())]
    for (problem, expected, fix), cases in unusable.items():
        fact = f"rows cannot be used: the name {problem}"
        faults += count_cases(where, fact, cases, expected, fix, "error")

    faults += written.notes(where) if written is not None else []
    faults += count_cases(where, "captions are empty and are left out", empty)
    faults += count_cases(where, "images have no caption and are left out", bare)
    faults += _repeated_captions(images, where)
    shorten(images.captions, where, faults)
    return images


def _problem(name: str, caption: str, *, packed: bool) -> tuple[str, str, str]:
    """Return what is wrong with a name or caption ("" if both can be used), what is expected, and how to fix it."""
    if reason := unwritable(caption) or unwritable(name):
        return f"or its caption contains {reason}", "UTF-8 text", "repair the text"
    if not packed and "://" in name:
        return "is a web address", "the name of a file", DOWNLOAD
    fix = "write names relative to a folder; name it with --pictures FOLDER unless it contains this file"
    return "" if packed else unsafe_reason(name), INSIDE, fix


def _repeated_captions(images: _Images, where: str) -> list[Fault]:
    """Return warnings about captions that repeat within an image, or that hardly differ between images."""
    faults = []
    pairs = np.fromiter(map(hash, zip(images.owners, images.captions, strict=True)), np.int64)
    repeats = len(pairs) - len(np.unique(pairs))
    if 10 * repeats > len(pairs):  # too many for chance
        fact = f"{repeats:,} captions repeat another one of their image"
        fix = "remove the copies"
        faults.append(Fault(where, fact, "every caption once", fix, "warning"))

    count = len(images.names)
    different = len(set(images.captions))
    if count >= FEWEST_IMAGES and different < MOST_ALIKE * count:
        fact = (
            f"{count:,} images have only {different:,} different captions, which retrieval cannot tell apart"
        )
        fix = "check that the captions come from the right column (--caption-column)"
        faults.append(Fault(where, fact, "captions that describe their image", fix, "warning"))

    return faults


def _assign_splits(
    images: _Images, where: str, root: Path, reading: ReadingArguments, faults: list[Fault]
) -> bool:
    """Give a split to every image whose record names none: the split that its folder stands for, or else one dealt by a
    hash of its group or of its name, with a note. The hash adds a warning if names in the data folder stand for splits.
    Return True if it dealt."""
    named = {
        (split, composed(name)): image
        for image, (split, name) in enumerate(zip(images.splits, images.names, strict=True))
        if split
    }
    joined: dict[int, int] = {}  # image without a split → the same image with one
    dealt = 0
    for image, name in enumerate(images.names):
        if images.splits[image]:
            continue
        split = split_in(*(parent.name for parent in PurePosixPath(name).parents))
        dealt += not split
        split = sys.intern(split or dealt_split(name, reading, images.groups[image]))
        other = named.get((split, composed(name)))
        images.splits[image] = split if other is None else ""
        if other is not None:
            joined[image] = other
    if joined:
        images.owners = array("q", (joined.get(owner, owner) for owner in images.owners))
    if not dealt:
        return False

    shares = f"{reading.test_share:.0%} as test and {reading.dev_share:.0%} as dev"
    hashed = "group" if any(images.groups) else "name"
    fact = f"has no splits: a hash of each picture's {hashed} assigns {shares} (seed {reading.split_seed})"
    flags = "change it with --dev-share, --test-share and --split-seed"
    mentioned = _names_of_splits(root, images.names)
    if not mentioned:
        faults.append(Fault(where, fact, fix=flags, severity="note"))
        return True

    fact += f", although these names stand for splits: {', '.join(map(shown, mentioned))}"
    fix = 'write a column "split", or put the captions of each split into a file or folder named after it'
    faults.append(Fault(where, fact, "the official split", fix, "warning"))
    return True


def _names_of_splits(root: Path, names: Sequence[str]) -> list[str]:
    """List up to ten files and folders of a data set, or pictures if all of them do so, whose names stand for splits."""
    folders = [root, *folders_in(root)]
    entries = [entry for folder in folders[:FOLDERS_LISTED] for entry in sorted(os.listdir(folder))]
    found = [name for name in entries if not name.lower().endswith(ENDINGS) and splits_named(name)]
    every = names[:NAMES_OF_SPLITS] if all(map(splits_named, names[:NAMES_OF_SPLITS])) else []
    first_of_split = {min(splits_named(name)): name for name in reversed(every)}
    pictures = [*first_of_split.values()] if len(first_of_split) > 1 else []
    return [*dict.fromkeys([*found, *pictures])][:10]


def count_unreadable(where: str, problem: str, cases: Sequence[str], *, skip: bool) -> list[Fault]:
    """Report pictures that cannot be read in one fault: an error, or with `skip` a warning."""
    fix = f"copy them again or convert other formats (mogrify -format jpg FILES){SKIPPING}"
    severity: Severity = "warning" if skip else "error"
    return count_cases(where, problem, cases, ACCEPTED, fix, severity)


def _report_missing(split: CaptionedSplit, path: Path, skip: bool, faults: list[Fault]) -> CaptionedSplit:
    """Add a fault that names the first missing pictures, and return the split; with `skip`, without these pictures."""
    missing = split.missing()
    names = [shown(split.image_names[image]) for image in np.flatnonzero(missing)]
    problem = f"of {len(missing):,} pictures are missing"
    faults += count_unreadable(f"{split.name} of {path}", problem, names, skip=skip)
    return split.keep(~missing) if skip else split


def _without_captions(splits: list[CaptionedSplit]) -> list[Fault]:
    """Return a note about picture files without captions."""
    folder = splits[0].positions.folder
    if folder is None:
        return []
    named = {composed(name) for split in splits for name in split.image_names}
    parts = sorted({name.rpartition("/")[0] for name in named})
    unnamed = [shown(name) for part in parts for name in sorted(_unnamed(folder, part, named))]
    return count_cases(folder, "picture files have no caption and are not read", unnamed, severity="note")


def _unnamed(folder: Path, part: str, named: set[str]) -> Iterator[str]:
    """Yield the picture files of a folder whose names, with or without their ending, are not in `named`."""
    if not (folder / part).is_dir():
        return
    with os.scandir(folder / part) as entries:  # Path objects would take more memory than all names
        for entry in entries:
            name = composed(f"{part}/{entry.name}" if part else entry.name)
            stem, dot, ending = name.rpartition(".")
            is_named = name in named or stem in named or entry.name.startswith(".")
            if f"{dot}{ending}".lower() in ENDINGS and not is_named and entry.is_file():
                yield name
