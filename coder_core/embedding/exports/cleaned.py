"""Write a data set with the corrections of its reviewers, in its own layout, with a report of the changes.

Precomp captions, with or without features, get one id per caption. In Flickr's text files (tokens, results.csv,
captions.txt), lines are removed and added; all other lines stay as they are. Other layouts are refused.
"""

import json
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.captioned.annotated import PRECOMP
from coder_core.data.captioned.layouts import recognise
from coder_core.data.captioned.records import Layout, Record, folder_of
from coder_core.data.dataset import available_splits, find_features, number_names, read_split
from coder_core.data.features import FeatureRows
from coder_core.data.reviews import Reviews, Verdict, judge_split
from coder_core.files.atomic import appearing

REPORT = "cleaned.json"
TEXT_FILES = ("flickr8k", "flickr30k-results", "kaggle")
WRITTEN = "precomp, flickr8k (*.token.txt), flickr30k-results (results.csv) or kaggle (captions.txt)"


@dataclass(frozen=True)
class Corrections:
    """Verdicts on pairs, and which of them change the data."""

    reviews: Reviews
    leave_out: Collection[Verdict]  # verdicts whose pairs are left out
    add_matches: bool  # add the pairs that were judged to match as well


@dataclass
class Cleaning:
    """Changes made to the data."""

    reviews: str  # fingerprint of the verdicts
    # left_out, added: split ("" if the data has none), image, caption and verdict of every pair
    left_out: list[tuple[str, str, str, str]] = field(default_factory=list)
    added: list[tuple[str, str, str, str]] = field(default_factory=list)
    images: list[tuple[str, str]] = field(default_factory=list)  # split and name, if no caption is left
    elsewhere: int = 0  # verdicts on pairs that the data does not have


def write_cleaned(data: Path, corrections: Corrections, out: Path) -> Cleaning:
    """Write the cleaned data set as a new folder, which appears only when it is complete. InputError: the layout cannot
    be written, the data cannot be read, or `out` already exists."""
    recognised = recognise(data)
    layout = recognised[0] if recognised else None
    precomp = _is_precomp(data, layout)
    if not precomp and (layout is None or layout.name not in TEXT_FILES):
        found = f"the layout {layout.name}" if layout else "an unknown layout"
        problem = f"is in {found}, which this command cannot write"
        fix = "leave the pairs out in training and evaluation instead: --reviews"
        raise InputError.at(data, problem, WRITTEN, fix)

    cleaning = Cleaning(corrections.reviews.fingerprint())
    with appearing(out) as folder:
        if precomp or layout is None:
            _write_precomp(data, corrections, folder, cleaning)
        else:
            _write_lines(data, layout, corrections, folder, cleaning)
        report = json.dumps(asdict(cleaning), ensure_ascii=False, indent=1)
        (folder / REPORT).write_text(f"{report}\n", "utf-8")

    return cleaning


def _is_precomp(data: Path, layout: Layout | None) -> bool:
    try:
        return find_features(data)[1].is_dir()
    except InputError:
        return layout is not None and layout.name == "precomp"


class _Split(NamedTuple):
    """One split of precomp files: n images with m captions."""

    name: str
    image_names: list[str] | None
    captions: list[str]
    image_of_text: np.ndarray  # (m,) int64
    features: FeatureRows | None

    @property
    def n_images(self) -> int:
        if self.image_names is not None:
            return len(self.image_names)
        return 0 if self.features is None else len(self.features.features)


def _write_precomp(data: Path, corrections: Corrections, folder: Path, cleaning: Cleaning) -> None:
    """Write every split: captions, one id per caption, and the rows of features in the order of the ids."""
    cleaning.elsewhere = len(corrections.reviews.verdicts)
    for split in _splits(data):
        _write_split(split, corrections, folder, cleaning)


def _write_split(split: _Split, corrections: Corrections, folder: Path, cleaning: Cleaning) -> None:
    name = split.name
    captions = split.captions
    verdicts = corrections.reviews.verdicts
    judged = judge_split(verdicts, split.image_names, captions, split.image_of_text, split.n_images)
    cleaning.elsewhere = max(0, cleaning.elsewhere - len(verdicts) + judged.elsewhere)

    dropped = np.isin(judged.labels, list(corrections.leave_out))
    matches = judged.matches if corrections.add_matches else judged.matches[:0]
    known = set(zip(captions, split.image_of_text.tolist(), strict=True))
    is_new = [(captions[row], image) not in known for row, image in matches.tolist()]
    matches = matches[np.array(is_new, bool)]
    texts = np.concatenate([np.flatnonzero(~dropped), matches[:, 0]])
    owners = np.concatenate([split.image_of_text[~dropped], matches[:, 1]])
    images = dict.fromkeys(owners.tolist())

    ids = split.image_names or [str(row) for row in range(split.n_images)]
    for row in np.flatnonzero(dropped):
        image = ids[split.image_of_text[row]]
        cleaning.left_out.append((name, image, captions[row], str(judged.labels[row])))
    for row, image in matches.tolist():
        cleaning.added.append((name, ids[image], captions[row], "also-matches"))
    cleaning.images += [(name, ids[row]) for row in range(split.n_images) if row not in images]

    _write_text(folder / f"{name}_caps.txt", [captions[row] for row in texts])
    _write_text(folder / f"{name}_ids.txt", [ids[image] for image in owners])
    if split.features is not None and images:
        _copy_features(split.features, list(images), folder / f"{name}_ims.npy")


def _write_text(file: Path, lines: Iterable[str]) -> None:
    file.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _copy_features(features: FeatureRows, images: Sequence[int], file: Path) -> None:
    """Write the features of these images, in this order."""
    shape = (len(images), *features.features.shape[1:])
    rows = np.lib.format.open_memmap(file, "w+", features.features.dtype, shape)
    for position, image in enumerate(images):
        rows[position] = features.of_images([image])[0]
    rows.flush()


def _splits(data: Path) -> Iterator[_Split]:
    """Read every split."""
    files = PRECOMP.find(data)
    if not files or any(files[0].parent.glob("*_ims.npy")):
        for name in available_splits(data):
            split = read_split(data, name, check_values=False)
            features = FeatureRows(split.features)
            yield _Split(name, split.image_names, split.captions, split.image_of_text, features)
        return

    faults = list[Fault]()
    records = dict[str, list[Record]]()
    for record in PRECOMP.records(files, folder_of(data), faults):
        records.setdefault(record.split, []).append(record)
    stop_on_errors(faults)
    for name, of_split in records.items():
        owners, images = number_names([record.image for record in of_split])
        captions = [record.caption for record in of_split]
        yield _Split(name, images, captions, owners, None)


def _write_lines(data: Path, layout: Layout, corrections: Corrections, out: Path, cleaning: Cleaning) -> None:
    """Write the file of captions without the excluded lines, with added lines at the end; copy the lists of images."""
    faults = list[Fault]()
    verdicts = corrections.reviews.verdicts
    files = layout.find(data)
    source = layout.source(files)
    file = Path(source["captions"])
    dropped: set[int] = set()
    lines_of: dict[str, set[int]] = {}
    owners_of: dict[str, set[str]] = {}
    splits_of: dict[str, set[str]] = {}
    for record in layout.records(files, folder_of(data), faults):
        number = int(record.place.rpartition(" line ")[2])
        lines_of.setdefault(record.image, set()).add(number)
        owners_of.setdefault(record.caption, set()).add(record.image)
        splits_of.setdefault(record.image, set()).add(record.split)
        verdict = verdicts.get((record.image, record.caption), verdicts.get((record.image, ""), "none"))
        if verdict in corrections.leave_out and number not in dropped:
            dropped.add(number)
            cleaning.left_out.append((record.split, record.image, record.caption, verdict))

    stop_on_errors(faults)
    lines = file.read_bytes().split(b"\n")
    retained = [line for number, line in enumerate(lines, 1) if line.strip() and number not in dropped]
    gained = set()
    for (image, caption), verdict in verdicts.items():
        owners = owners_of.get(caption, set())
        if image not in lines_of or (caption and not owners):
            cleaning.elsewhere += 1
        elif corrections.add_matches and verdict == "also-matches" and image not in owners:
            shared = splits_of[image] & {split for owner in owners for split in splits_of[owner]}
            if shared:  # never add a train caption to a test image
                retained.append(LINES[layout.name](image, _free_number(image, retained), caption).encode())
                cleaning.added.append((min(shared), image, caption, verdict))
                gained.add(image)

    emptied = [image for image, lines in lines_of.items() if lines <= dropped and image not in gained]
    cleaning.images += [(min(splits_of[image]), image) for image in emptied]
    (out / file.name).write_bytes(b"".join(line + b"\n" for line in retained))
    for name in source.values():
        if Path(name) != file:
            shutil.copyfile(name, out / Path(name).name)


def _free_number(image: str, lines: list[bytes]) -> int:
    """Return the next caption number of the image: one more than the largest in `lines`, or 0."""
    taken = re.compile(re.escape(image.encode()) + rb"(?:#|\|\s*)(\d+)")
    return 1 + max((int(match[1]) for line in lines if (match := taken.match(line))), default=-1)


def _csv_field(text: str) -> str:
    """Quote a text if CSV requires it."""
    doubled = text.replace('"', '""')
    return f'"{doubled}"' if "," in text or '"' in text else text


LINES: dict[str, Callable[[str, int, str], str]] = {
    "flickr8k": lambda image, number, caption: f"{image}#{number}\t{caption}",
    "flickr30k-results": lambda image, number, caption: f"{image}| {number}| {caption}",
    "kaggle": lambda image, number, caption: f"{_csv_field(image)},{_csv_field(caption)}",
}
