"""Read a data set of pictures with captions in any known layout: splits, checks, and the location of every picture."""

from __future__ import annotations

import hashlib
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np

from coder_core.config.data import ReadingArguments
from coder_core.console.faults import Fault, InputError, Severity, stop_on_errors
from coder_core.console.progress import Progress
from coder_core.data.captioned.layouts import find_layout
from coder_core.data.captioned.positions import Files, ParquetRows, Positions, TarMembers
from coder_core.data.captioned.records import Layout, Record, folder_of, id_array, shared_names, split_name
from coder_core.data.lines import check_name, composed, count_cases, holds_half_character, shorten, shown
from coder_core.data.pictures import ACCEPTED, ENDINGS, INSIDE, find_file, given_folder, unsafe_reason

Result = TypeVar("Result")

THREADS = 4  # for decoding pictures
PIECE = 64  # pictures read at a time, before they are decoded
FIRST = {"train": 0, "dev": 1, "test": 2}
NAMES_TRIED = 20
SKIPPING = ", or leave them out with --skip-broken"
DOWNLOAD = "download the pictures first, for example with img2dataset, whose output is read as it is"


def dealt_split(name: str, reading: ReadingArguments) -> str:
    """Assign an image to a split, for data without splits, by a hash of the seed and its name, so that adding pictures
    moves none. Folder and ending are ignored, so packing the pictures into another container moves none either."""
    base = composed(name).rpartition("/")[2]
    stem, dot, ending = base.rpartition(".")
    identity = stem if f"{dot}{ending}".lower() in ENDINGS else base
    key = f"{reading.split_seed}\0{identity}".encode("utf-8", "surrogatepass")
    share = int.from_bytes(hashlib.blake2b(key, digest_size=8).digest()) / 2**64
    if share < reading.test_share:
        return "test"
    return "dev" if share < reading.test_share + reading.dev_share else "train"


@dataclass(frozen=True)
class CaptionedSplit:
    """One split: n pictures, which are not copied, and m captions."""

    name: str  # "train", "dev", "test", …
    image_names: list[str]  # n names: paths relative to `positions.folder`, or names inside packed files
    captions: list[str]  # m strings
    image_of_text: np.ndarray  # (m,) int64, the image of every caption
    positions: Positions  # of the pictures of all splits
    rows: np.ndarray  # (n,) int64, the numbers of this split's pictures in `positions`
    source: dict[str, str] = field(default_factory=dict)  # what was read from where
    caption_ids: np.ndarray | None = None  # (m,) int64, the number of every caption in its data set, or None

    def read(self, image: int) -> bytes:
        """Return the content of a picture's file."""
        return self.positions.read(int(self.rows[image]))

    def place(self, image: int) -> str:
        """Return the location of a picture, for messages."""
        return self.positions.place(int(self.rows[image]))

    def missing(self) -> np.ndarray:
        """Return (n,) bool, True for pictures whose files are missing."""
        return np.isin(self.rows, self.positions.missing(self.rows.tolist()))

    def keep(self, images: np.ndarray) -> CaptionedSplit:
        """Return the split of the images for which `images` (n,) is true, with their captions."""
        if images.all():
            return self
        number = np.cumsum(images) - 1
        texts = np.flatnonzero(images[self.image_of_text])
        return replace(
            self,
            image_names=[self.image_names[image] for image in np.flatnonzero(images)],
            captions=[self.captions[text] for text in texts],
            image_of_text=number[self.image_of_text[texts]],
            rows=self.rows[images],
            caption_ids=None if self.caption_ids is None else self.caption_ids[texts],
        )


@dataclass(frozen=True)
class CaptionedData:
    """All splits of a data set, train first, with its faults: notes and warnings, and errors of pictures."""

    path: Path
    layout: str
    splits: list[CaptionedSplit]
    faults: list[Fault]

    def split(self, name: str) -> CaptionedSplit:
        """Return the split of this name; "val" is "dev". InputError if it does not exist."""
        for split in self.splits:
            if split.name == split_name(name):
                return split
        expected = f"one of {', '.join(split.name for split in self.splits)}"
        raise InputError.at(self.path, f'there is no split "{name}"', expected, "choose one of these")


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
    stop_on_errors([*names, *_check_shares(reading)])
    faults: list[Fault] = []
    layout = find_layout(path, reading, faults)
    files = layout.find(path)
    source = {"layout": layout.name, **layout.source(files)}
    where = ", ".join(list(source.values())[1:])
    records = layout.records(files, folder_of(path), faults)
    images = _collect(records, where, reading, faults, packed=layout.packed is not None)
    if not images.captions and all(fault.severity != "error" for fault in faults):
        expected = f"at least one caption per image, and pictures that end in {', '.join(ENDINGS)}"
        faults.append(Fault(str(path), "has no caption of any picture", expected, "check the file"))
    stop_on_errors(faults)
    positions = _positions(path, layout, files, images, pictures)
    source |= {"pictures": str(positions.folder)} if positions.folder else {}
    owners = np.array(images.owners, np.int64)
    ids = id_array(images.caption_ids)
    rows = np.arange(len(images.names))
    split_of_image = np.array(images.splits)
    every = CaptionedSplit("", images.names, images.captions, owners, positions, rows, source, ids)
    in_order = sorted(set(images.splits), key=lambda name: (FIRST.get(name, 3), name))
    splits = [replace(every.keep(split_of_image == name), name=name) for name in in_order]
    sought = [split for split in splits if only in ("", split.name)]
    present = {split.name: _report_missing(split, path, reading.skip_broken, faults) for split in sought}
    for earlier, split in combinations(splits, 2):
        names_of_both = set(split.image_names).intersection(earlier.image_names)
        faults += shared_names(f"{split.name} and {earlier.name}", names_of_both, "pictures")
    faults += _without_captions(splits)
    remaining = [present.get(split.name, split) for split in splits]
    return CaptionedData(path, layout.name, [split for split in remaining if len(split.rows)], faults)


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
    captions: list[str] = field(default_factory=list)
    caption_ids: list[int | None] = field(default_factory=list)
    owners: array[int] = field(default_factory=lambda: array("q"))
    positions: array[int] = field(default_factory=lambda: array("q"))  # three numbers per packed picture


def _collect(
    records: Iterable[Record], where: str, reading: ReadingArguments, faults: list[Fault], *, packed: bool
) -> _Images:
    """Group records into images with captions; records that cannot be used are counted and named."""
    images = _Images()
    empty = list[str]()
    number: dict[tuple[str, str], int] = {}  # (split, name) → image
    bare_names: set[tuple[str, str]] = set()
    unusable: dict[tuple[str, str, str], list[str]] = {}  # problem, expected, fix → rows
    dealt = 0
    for record in records:
        caption = " ".join(record.caption.split("\n")).strip()
        reason = _problem(record, caption, packed=packed)
        if reason[0]:
            case = f"{record.place.rpartition('/')[2]}: the name {shown(record.image)}"
            unusable.setdefault(reason, []).append(case)
            continue
        dealt += not record.split
        key = sys.intern(record.split or dealt_split(record.image, reading)), composed(record.image)
        if not caption:
            empty.append(record.place)
            bare_names.add(key)
            continue
        image = number.setdefault(key, len(images.names))
        if image == len(images.names):
            images.names.append(record.image)
            images.splits.append(key[0])
            images.positions.extend(record.position or ())
        images.captions.append(caption)
        images.caption_ids.append(record.caption_id)
        images.owners.append(image)
    bare = [shown(name) for _, name in sorted(bare_names - number.keys())]
    for (problem, expected, fix), cases in unusable.items():
        fact = f"rows cannot be used: the name {problem}"
        faults += count_cases(where, fact, cases, expected, fix, "error")
    faults += count_cases(where, "captions are empty and are left out", empty)
    faults += count_cases(where, "images have no caption and are left out", bare)
    keys = np.fromiter(map(hash, zip(images.owners, images.captions, strict=True)), np.int64)
    if 10 * (repeats := len(keys) - len(np.unique(keys))) > len(keys):  # too many for chance
        fact = f"{repeats:,} captions repeat another one of their image"
        fix = "remove the copies"
        faults.append(Fault(where, fact, "every caption once", fix, "warning"))
    if dealt:
        shares = f"{reading.test_share:.0%} as test and {reading.dev_share:.0%} as dev"
        text = f"has no splits: a hash of each picture's name assigns {shares} (seed {reading.split_seed})"
        flags = "change it with --dev-share, --test-share and --split-seed"
        faults.append(Fault(where, text, fix=flags, severity="note"))
    shorten(images.captions, where, faults)
    return images


def _problem(record: Record, caption: str, *, packed: bool) -> tuple[str, str, str]:
    """Return what is wrong with a name or caption ("" if both can be used), what is expected, and how to fix it."""
    if holds_half_character(record.image) or holds_half_character(caption):
        return "or its caption contains half a character (a lone surrogate)", "UTF-8 text", "repair the text"
    if not packed and "://" in record.image:
        return "is a web address", "the name of a file", DOWNLOAD
    fix = "write names relative to a folder; name it with --pictures FOLDER unless it contains this file"
    return "" if packed else unsafe_reason(record.image), INSIDE, fix


def _positions(
    path: Path, layout: Layout, files: list[Path], images: _Images, pictures: str | Path | None
) -> Positions:
    if layout.packed is not None:
        store = TarMembers if layout.packed == "tar" else ParquetRows
        return store(files, images.names, np.array(images.positions, np.int64).reshape(-1, 3))
    if pictures is not None:
        return Files(given_folder(pictures), images.names)

    def count(folder: Path) -> int:
        return sum(find_file(folder, name) is not None for name in images.names[:NAMES_TRIED])

    tried = layout.folders(folder_of(path))
    likeliest = max((folder for folder in tried if folder.is_dir()), key=count, default=None)
    if likeliest is None or not any(find_file(likeliest, name) for name in images.names[:1000]):
        folders = ", ".join(dict.fromkeys(map(str, tried)))
        problem = f"none of the folders {folders} has the pictures; the first is {shown(images.names[0])}"
        raise InputError.at(path, problem, "a folder that contains them", "name it with --pictures FOLDER")
    return Files(likeliest, images.names)


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


def each_picture(
    split: CaptionedSplit, look: Callable[[bytes | str], Result], progress: Progress
) -> Iterator[Result]:
    """Yield the result of `look` for every picture, in order; threads call it with the file's bytes, or with the reason
    (a string) why it cannot be read."""

    def read(image: int) -> bytes | str:
        try:
            return split.read(image)
        except InputError as error:
            return error.faults[0].found

    count = len(split.rows)
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, count, PIECE):
            images = range(start, min(start + PIECE, count))
            yield from pool.map(look, [read(image) for image in images])  # packed files are read in order
            progress(images.stop, count)
