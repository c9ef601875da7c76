"""Read the precomp layout of SCAN and VSE++: {split}_ims.npy, {split}_caps.txt and, optionally, {split}_ids.txt."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coder_core.console.faults import Fault, InputError, collect
from coder_core.data.captioned.annotated import name_pictures
from coder_core.data.captioned.records import Once
from coder_core.data.captioned.splits import SPLIT_NAME
from coder_core.data.features import FeatureRows, open_features
from coder_core.data.lines import read_lines, shorten
from coder_core.data.split import Split

REPEATS_CHECKED = 100
MOST_REPEATS = 100
FEATURES = "_ims.npy"
CAPTIONS = "_caps.txt"
USUAL_SPLITS = {"train", "dev", "val", "test", "testall"}
ONE_ROW = "one row of features per image"


class Pairing(NamedTuple):
    """Image of every caption."""

    image_of_text: np.ndarray  # (m,) int64
    names: list[str] | None  # n ids, or None
    stride: int  # rows of the features file per image: 1, or r if every row is repeated r times
    how: str  # in words, for the report


class PairingFiles(NamedTuple):
    """Files of images, captions and ids, for messages."""

    images: Path
    captions: Path
    ids: Path


def read_precomp(root: Path, folder: Path, split: str) -> Split:
    """Read the split whose files in `folder` start with this name; `root` is the folder that the user named. InputError
    with all faults of the captions, the ids, the features' header and the counts."""
    faults: list[Fault] = []
    files = PairingFiles(*(folder / f"{split}_{end}" for end in ("ims.npy", "caps.txt", "ids.txt")))
    captions = collect(lambda: read_lines(files.captions, "caption", faults), faults)
    ids = collect(lambda: read_lines(files.ids, "id", faults), faults) if os.path.lexists(files.ids) else None
    file = collect(lambda: open_features(files.images, faults), faults)
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors or captions is None or file is None:
        if captions and file and len(captions) % file.shape[0]:
            errors.append(_no_ratio(files.captions, len(captions), file.shape[0]))
        raise InputError(errors)
    features = file.map()
    pairing = pair(features, len(captions), ids, files, faults)
    source = {"layout": "precomp", "features": str(files.images), "captions": str(files.captions)}
    source |= {} if ids is None else {"ids": str(files.ids)}
    source["captions belong to images"] = pairing.how
    return Split(
        name=split,
        features=features[:: pairing.stride],
        file=file,
        rows=(0, file.shape[0], pairing.stride),
        captions=shorten(captions, str(files.captions), faults),
        image_of_text=pairing.image_of_text,
        image_names=None if pairing.names is None else name_pictures(root, folder, pairing.names, faults),
        source=source,
        faults=faults,
    )


def pair(
    features: np.ndarray, captions: int, ids: list[str] | None, files: PairingFiles, faults: list[Fault]
) -> Pairing:
    """Find which image every caption belongs to, from the ids or from an exact ratio. InputError: neither fits.

    With n rows of features, m captions and k ids:

    - no ids: m must be a multiple of n; every m / n captions are one image;
    - k = n: one id per image, its name; every m / n captions are one image;
    - k = m: one id per caption, n different ones; equal ids are one image, numbered in order of first appearance;
    - n = m, and every row (and id, if given) is repeated r times: images are stored once per caption, and every r-th
      row is read.
    """
    rows = len(features)
    if ids is not None and len(ids) not in (rows, captions):
        problem = f"{len(ids):,} ids for {rows:,} rows of features and {captions:,} captions"
        expected = f"one id per image ({rows:,}) or one per caption ({captions:,})"
        fix = "write one of the two, or remove the file if every image has the same number of captions"
        raise InputError.at(files.ids, problem, expected, fix)
    if ids is not None and len(ids) != rows:
        return _pair_by_ids(ids, rows, files.ids)
    repeat = _repeats(features, captions, ids)
    if repeat > 1:
        text = f"every row is stored {repeat} times, once per caption; one of every {repeat} is read"
        faults.append(Fault(str(files.images), text, severity="note"))
        names = None if ids is None else ids[::repeat]
        how = f"every {repeat} repeated rows are one image"
        return Pairing(np.arange(captions) // repeat, names, repeat, how)
    if captions % rows:
        raise InputError([_no_ratio(files.captions, captions, rows)])
    repeated: list[Fault] = []
    fix = f"write each image's id once, or one id per caption; in both cases {ONE_ROW} is needed"
    once = Once("id", repeated, fix)
    for line, name in enumerate(ids or (), start=1):
        once.add(name, f"{files.ids} line {line}")
    if repeated:
        raise InputError(repeated)
    each = captions // rows
    how = f"{each} captions per image, {captions:,} / {rows:,}"
    return Pairing(np.arange(captions, dtype=np.int64) // each, ids, 1, how)


def _pair_by_ids(ids: list[str], rows: int, ids_file: Path) -> Pairing:
    """Pair by one id per caption: equal ids are one image, numbered in order of first appearance."""
    image_of_text, names = number_names(ids)
    if len(names) != rows:
        fix = "give every caption the id of its image"
        if len(names) == len(ids) and len(ids) % rows == 0:
            fix = f"these ids number the captions: remove the file, so that every {len(ids) // rows} captions belong to one image"
        problem = f"one id per caption, {len(names):,} different ids, for {rows:,} rows of features"
        raise InputError.at(ids_file, problem, f"{rows:,} different ids, {ONE_ROW}", fix)
    return Pairing(image_of_text, names, 1, "equal ids, one per caption")


def number_names(names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return (m,) int64, every name's number in order of first appearance, and the different names in this order."""
    number: dict[str, int] = {}
    numbers = [number.setdefault(name, len(number)) for name in names]
    return np.array(numbers, dtype=np.int64), list(number)


def _repeats(features: np.ndarray, captions: int, ids: list[str] | None) -> int:
    """Count the repetitions of each row if features have one row per caption (n = m); otherwise return 1."""
    rows = len(features)
    if rows != captions or rows < 2:
        return 1
    reader = FeatureRows(features)

    def same_row(i: int, j: int) -> bool:
        return np.array_equal(reader.of_images([i]), reader.of_images([j]))

    nearby = range(1, min(rows, MOST_REPEATS + 1))
    repeat = next((i for i in nearby if not (same_row(i, 0) if ids is None else ids[i] == ids[0])), 1)
    if repeat == 1 or rows % repeat:
        return 1
    groups = np.unique(np.linspace(0, rows // repeat - 1, REPEATS_CHECKED).astype(int)) * repeat
    if not all(same_row(int(start), int(start) + i) for start in groups for i in range(1, repeat)):
        return 1
    once = (ids or [])[::repeat]
    repeated = [name for name in once for _ in range(repeat)]
    return repeat if len(set(once)) == len(once) and repeated == (ids or []) else 1


def _no_ratio(captions_file: Path, captions: int, rows: int) -> Fault:
    problem = f"{captions:,} captions for {rows:,} images, {captions / rows:.4f} per image"
    expected = "the same whole number of captions for every image, or one id per caption"
    fix = "look for a missing or duplicated line, or write the ids ({split}_ids.txt; embed import: --ids)"
    return Fault(str(captions_file), problem, expected, fix)


def splits_in(folder: Path) -> list[str]:
    """List the splits in a folder, in alphabetical order: names with features, and the usual ones with captions alone,
    whose features are missing. If nothing has features, every name with captions counts."""
    featured = _names_of(folder, FEATURES)
    captioned = _names_of(folder, CAPTIONS)
    return sorted(featured | (captioned & USUAL_SPLITS) or captioned)


def unread_captions(folder: Path) -> list[Fault]:
    """Return notes on files of captions that belong to no split, such as those of another tokenizer."""
    unread = sorted(_names_of(folder, CAPTIONS) - {*splits_in(folder)})
    fact = "has no features and is not read"
    return [Fault(str(folder / f"{name}{CAPTIONS}"), fact, severity="note") for name in unread]


def _names_of(folder: Path, ending: str) -> set[str]:
    names = {path.name.removesuffix(ending) for path in folder.glob(f"*{ending}")}
    return {name for name in names if SPLIT_NAME.fullmatch(name)}
