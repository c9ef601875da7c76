"""Read a data set of features: `read_split` finds its layout, reads it and checks it, or raises all reasons at once.

The layout is a folder of precomp files of SCAN and VSE++, {split}_ims.npy, {split}_caps.txt and, optionally,
{split}_ids.txt, or Karpathy's dataset_*.json with features beside it, in one file per split or one for all images.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coder_core.console.faults import Fault, InputError, collect, stop_on_errors
from coder_core.data.captioned.annotated import read_annotations
from coder_core.data.captioned.records import folders_in, id_array
from coder_core.data.captioned.splits import SPLIT_NAME
from coder_core.data.column_values import RawColumns
from coder_core.data.features import FeatureFile, FeatureRows, copied_rows, open_features, scan_values
from coder_core.data.lines import (
    Once,
    check_name,
    follow_link,
    karpathy_files,
    name_pictures,
    read_lines,
    shorten,
)
from coder_core.data.pictures import check_pictures, find_pictures
from coder_core.data.split import Split

READ_SUFFIXES = (".npy", ".txt", ".json", ".csv", ".tsv", ".jsonl", ".parquet", ".tar")
SMALL_TEST_IMAGES = 1_000  # images of COCO's usual "test"; all 5,000 are "testall"
OTHER_NAME = {"dev": "val", "val": "dev"}
LAYOUTS = "{split}_ims.npy and {split}_caps.txt (perhaps in precomp/), or dataset*.json with ims.npy"
ALL_IMAGES = ("ims.npy", "features.npy")
FILE_NAMES = {"train": ("train",), "dev": ("dev", "val"), "test": ("test", "testall")}
REPEATS_CHECKED = 100
MOST_REPEATS = 100
FEATURES = "_ims.npy"
CAPTIONS = "_caps.txt"
USUAL_SPLITS = {"train", "dev", "val", "test", "testall"}
ONE_ROW = "one row of features per image"


def read_split(
    path: str | Path, split: str, *, pictures: str | Path | None = None, check_values: bool = True
) -> Split:
    """Read one split of a data set in any layout: "train", "dev" (or "val"), "test", "testall", or any name in its
    files. InputError: the data cannot be used for training; up to 20 faults, each with location and fix.

    `path`: a folder of precomp files, its parent, or a folder (or file) with Karpathy's JSON. `pictures`: their folder,
    found automatically if it is images/ beside the data. `check_values`: check all features for NaN, Inf and zero rows.
    """
    stop_on_errors([*check_name(Path(path).absolute()), *check_name(Path(pictures) if pictures else None)])
    root, layout = find_features(path)
    data = _read(root, layout, split)
    faults = list(data.faults)
    if layout.is_dir() and layout != root:
        follow_link(layout, faults)

    zero = np.empty((0, 2), dtype=np.int64)
    assert data.file is not None
    assert data.rows is not None
    start, stop, stride = data.rows
    if check_values:
        zero, value_faults = scan_values(data.file, (start, stop))
        faults += value_faults

    folder = find_pictures(root, layout, pictures, data.image_names)
    faults += check_pictures(folder, data.image_names, asked=pictures is not None)
    stop_on_errors(faults)
    image, between = np.divmod(zero[:, 0] - start, stride)
    return replace(
        data,
        name=split,
        picture_folder=folder,
        source=data.source | ({"pictures": str(folder)} if folder else {}),
        faults=faults,
        zero_regions=(image * data.regions + zero[:, 1])[between == 0],
    )


def available_splits(path: str | Path) -> list[str]:
    """List the splits at `path`: train first, then dev, then the others in alphabetical order."""
    _, layout = find_features(path)
    annotated = [] if layout.is_dir() else read_annotations(layout, [])[1]
    names = splits_in(layout) if layout.is_dir() else {image.split for image in annotated}
    first = {"train": 0, "dev": 1, "val": 1}
    return sorted(names, key=lambda name: (first.get(name, 2), name))


def find_features(path: str | Path) -> tuple[Path, Path]:
    """Find the data folder and, to read, its folder of precomp files or its JSON file; InputError if neither exists."""
    path = Path(path)
    if path.is_file() and path.suffix == ".json":
        return path.parent, path
    if not path.exists():
        raise InputError.at(path, "there is no such folder", LAYOUTS, "check the path")
    annotations = karpathy_files(path)
    inner = [folder for folder in _inner_folders(path, []) if _is_precomp(folder, bool(annotations))]
    if _is_precomp(path, bool(annotations)):
        return path, path
    if len(inner) > 1 and inner[0].name != "precomp":
        names = ", ".join(folder.name for folder in inner)
        raise InputError.at(path, f"contains several data sets: {names}", "one data set", "name one of them")
    if inner:
        return path, inner[0]
    if len(annotations) == 1:
        return path, annotations[0]
    if annotations:
        names = ", ".join(file.name for file in annotations)
        raise InputError.at(path, f"contains several JSON files: {names}", LAYOUTS, "name one of them")
    # here, because it imports pyarrow
    from coder_core.data.captioned.layouts import recognise, unrecognised

    if recognised := recognise(path):
        layout, why = recognised
        problem = f"contains pictures with captions ({layout.name}: {why}) but no region features"
        fix = f"coder-lab features {path} --model … --out … makes features with a pretrained model"
        raise InputError.at(path, problem, LAYOUTS, fix)
    raise unrecognised(path)


def _inner_folders(root: Path, faults: list[Fault]) -> list[Path]:
    """Find the folders precomp/ and *_precomp/ in a data folder; InputError if one is a broken link."""
    folders = [root / "precomp", *sorted(root.glob("*_precomp"))]
    for folder in folders:
        follow_link(folder, faults)
    return [folder for folder in folders if folder.is_dir()]


def _is_precomp(folder: Path, annotated: bool) -> bool:
    """True for a folder of precomp files. With a JSON file it needs captions: features alone belong to the JSON."""
    return any(folder.glob("*_caps.txt")) if annotated else bool(splits_in(folder))


def leaves(path: Path, root: Path) -> bool:
    """True if a data set, or a file or folder in it that is read for captions or features, is a link out of `root`.
    Commands follow such links; the app does not offer data sets that have one."""
    real_root = os.path.realpath(root)

    def is_outside(entry: Path) -> bool:
        return not Path(os.path.realpath(entry)).is_relative_to(real_root)

    if is_outside(path):
        return True
    for folder in [path, *folders_in(path)]:
        if is_outside(folder):  # of pictures alone, which are served under other rules
            return any(entry.suffix in READ_SUFFIXES for entry in folder.iterdir())
        with os.scandir(folder) as entries:
            links = [folder / entry.name for entry in entries if entry.is_symlink()]
        read = [link for link in links if link.suffix in READ_SUFFIXES or link.name.endswith("precomp")]
        if any(map(is_outside, read)):
            return True
    return False


def _read(root: Path, layout: Path, split: str) -> Split:
    """Read `split` under its own name, under its other name (dev, val), or as the first images of testall."""
    if not layout.is_dir():
        return _read_karpathy(root, layout, split)
    present = splits_in(layout)
    for name in (split, OTHER_NAME.get(split)):
        if name in present:
            data = read_precomp(root, layout, name)
            if OTHER_NAME.get(name) in present:
                problem = "has both dev_* and val_* files, two names of one split; commands read dev_* alone"
                data.faults.append(Fault(str(layout), problem, fix="rename one", severity="warning"))
            return data
    if split == "test" and "testall" in present:
        text = f'has no "test"; the first {SMALL_TEST_IMAGES:,} images of "testall" are used as "test"'
        why = Fault(str(layout), text, severity="note")
        return read_precomp(root, layout, "testall").first_images(SMALL_TEST_IMAGES, why)
    raise _no_split(layout, split, present)


def _no_split(layout: Path, split: str, present: list[str]) -> InputError:
    expected = f"one of {', '.join(present)}"
    return InputError.at(layout, f'there is no split "{split}"', expected, "choose one of these")


def _read_karpathy(root: Path, path: Path, split: str) -> Split:
    """Read one split of a Karpathy JSON file and its features, in `root` or a precomp folder in it. "restval" belongs
    to "train"; COCO's "test" is the first 1,000 of its test images, which "testall" has all."""
    faults: list[Fault] = []
    dataset, annotated = read_annotations(path, faults)
    name = {"val": "dev", "testall": "test"}.get(split, split)
    rows = [row for row, image in enumerate(annotated) if image.split == name]
    images = [annotated[row] for row in rows]
    if not images:
        raise _no_split(path, split, sorted({image.split for image in annotated}))
    found, is_of_split = _find_file(root, path, name, faults)
    file = open_features(found, faults)
    count = len(rows) if is_of_split else len(annotated)
    if file.shape[0] != count:
        owner = f'of split "{name}" ' if is_of_split else ""
        problem = f"{file.shape[0]:,} rows of features for {count:,} images {owner}in {path.name}"
        fix = "extract the features of exactly these images, in imgid order"
        raise InputError.at(file.path, problem, "one row per image", fix)
    if is_of_split:
        features = file.map()
        span = (0, count, 1)
    else:
        file, features, span = _rows_of(file, rows, faults)

    captions = [caption for image in images for caption in image.captions]
    captions_of_each = [len(image.captions) for image in images]
    ids = [number for image in images for number in image.caption_ids]
    raw_columns = RawColumns()
    for image in images:
        for _ in image.captions:
            raw_columns.add(image.columns)
    owners = np.repeat(np.arange(len(images)), captions_of_each)
    columns, notes = raw_columns.typed(owners, len(images), str(path))
    faults += notes
    source = {"layout": "Karpathy JSON", "features": str(file.path), "captions": str(path)}
    source["captions belong to images"] = "sentences of images[i], images in imgid order"
    whole = Split(
        name=split,
        features=features,
        file=file,
        rows=span,
        captions=shorten(captions, str(path), faults),
        image_of_text=owners,
        image_names=[image.name for image in images],
        caption_ids=id_array(ids),
        columns=columns,
        source=source,
        faults=faults,
    )
    if split != "test" or dataset != "coco":
        return whole
    text = f'"test" is the first {SMALL_TEST_IMAGES:,} of COCO\'s {len(images):,}; all are "testall"'
    return whole.first_images(SMALL_TEST_IMAGES, Fault(str(path), text, severity="note"))


def _find_file(root: Path, path: Path, split: str, faults: list[Fault]) -> tuple[Path, bool]:
    """Return the features file of a split, and True if it has only this split's images. InputError: there is none."""
    folders = [root, *_inner_folders(root, faults)]
    of_split = [folder / f"{name}_ims.npy" for folder in folders for name in FILE_NAMES[split]]
    of_all = [folder / name for folder in folders for name in ALL_IMAGES]
    found = next((file for file in (*of_split, *of_all) if os.path.lexists(file)), None)
    if found is None:
        names = f"{FILE_NAMES[split][0]}_ims.npy (this split's images in imgid order) or {ALL_IMAGES[0]} (all images)"
        fix = "add them; or, to use pictures instead, name their folder with --pictures"
        raise InputError.at(root, f'has no features for split "{split}" of {path.name}', names, fix)
    return found, found in of_split


def _rows_of(
    file: FeatureFile, rows: list[int], faults: list[Fault]
) -> tuple[FeatureFile, np.ndarray, tuple[int, int, int]]:
    """Return rows of a features file: the file, their features, and their place in it (start, stop, stride). Adjacent
    rows are a view of the file, others are copied to another file."""
    first = rows[0]
    last = rows[-1] + 1
    if last - first == len(rows):
        return file, file.map()[first:last], (first, last, 1)
    copy = copied_rows(file, np.array(rows), faults)
    return copy, copy.map(), (0, len(rows), 1)


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
