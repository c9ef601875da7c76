"""Read a data set on disk: `read_split` finds the layout, reads and checks it, or raises with the reasons."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.features import scan_values
from coder_core.data.karpathy import find_annotations, inner_folders, karpathy_splits, read_karpathy
from coder_core.data.lines import check_name, follow_link, shown
from coder_core.data.pictures import check_pictures, find_pictures
from coder_core.data.precomp import read_precomp, splits_in
from coder_core.data.raw_split import RawSplit
from coder_core.data.rows import FeatureRows

if TYPE_CHECKING:  # pyarrow is loaded for those who have such data
    from coder_core.data.picture_rows import Pictures

READ_SUFFIXES = (
    ".npy",
    ".txt",
    ".json",
    ".csv",
    ".tsv",
    ".jsonl",
    ".parquet",
    ".tar",
)  # of features and captions
SMALL_TEST_IMAGES = 1_000  # COCO: "test" is the first 1,000 images of "testall"
OTHER_NAME = {"dev": "val", "val": "dev"}
FINGERPRINT_ROWS = 64
PART_STREAM = 10  # of the random numbers that choose a part of the images
LAYOUTS = (
    "a folder with {split}_ims.npy and {split}_caps.txt (or precomp/ in it), or dataset*.json with ims.npy"
)


@dataclass(frozen=True)
class Split:
    """One split of a data set: n images with L regions of D features, and m captions.

    Args:
        name: "train", "dev", "test", …
        features: (n, L, D) or (n, D), memory-mapped, in the file's dtype and byte order.
        captions: m strings.
        image_of_text: (m,) int64, the image of every caption.
        image_names: n relative picture file names or ids, or None.
        picture_folder: where the names are files, or None.
        source: what was read from where.
        faults: warnings and notes: everything training changes about the data.
        rows: the rows of the features file, from, up to, and every how many.
        zero_regions: (z,) int64, image · L + region of the regions that are all zero and are masked; empty when the
            values were not checked.
        caption_ids: (m,) int64, the number of every caption in its data set, or None.
        pictures: that an image tower reads instead of features, which are (n, L, 0) then; or None.
    """

    name: str
    features: np.ndarray
    captions: list[str]
    image_of_text: np.ndarray
    image_names: list[str] | None = None
    picture_folder: Path | None = None
    source: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    rows: tuple[int, int, int] | None = None
    zero_regions: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    pictures: Pictures | None = None
    caption_ids: np.ndarray | None = None

    @property
    def n_images(self) -> int:
        return len(self.features)

    @property
    def n_texts(self) -> int:
        return len(self.captions)

    @property
    def regions(self) -> int:
        """L; 1 for one vector an image."""
        return int(self.features.shape[1]) if self.features.ndim == 3 else 1

    @property
    def feature_size(self) -> int:
        """D of the features."""
        return int(self.features.shape[-1])

    def texts_of_image(self) -> tuple[np.ndarray, np.ndarray]:
        """offsets (n + 1,), order (m,), int64: image i has the captions order[offsets[i]:offsets[i + 1]]."""
        counts = np.bincount(self.image_of_text, minlength=self.n_images)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return offsets, np.argsort(self.image_of_text, kind="stable").astype(np.int64)


def part_images(n: int, share: float, seed: int, *, other: bool = False) -> np.ndarray:
    """(k,) int64 rows, ascending: a part of n images drawn at random.

    Args:
        n: images.
        share: of the images, above 0; at least one is drawn. A larger share holds the images of a smaller one.
        seed: of the draw.
        other: all images but those drawn.
    """
    order, count = np.random.default_rng((seed, PART_STREAM)).permutation(n), max(1, round(share * n))
    return np.sort(order[count:] if other else order[:count])


def read_split(
    path: str | Path, split: str, *, pictures: str | Path | None = None, check_values: bool = True
) -> Split:
    """Read one split of the data set at `path`, whatever its layout.

    Args:
        path: a folder of precomp files, its parent, or a folder (or file) with Karpathy's JSON.
        split: "train", "dev" (or "val"), "test", "testall", or any name the files have.
        pictures: folder of the picture files; found by itself when it is images/ beside the data.
        check_values: also read every feature once, for NaN, Inf and zero rows.

    Raises:
        InputError: the data cannot be trained on; carries up to 20 faults, each with place and fix.
    """
    stop_on_errors([*check_name(Path(path).absolute()), *check_name(Path(pictures) if pictures else None)])
    root, layout = find_layout(path)
    raw = _read(root, layout, split)
    faults = list(raw.faults)
    if layout.is_dir() and layout != root:
        follow_link(layout, faults)
    zero = np.empty((0, 2), dtype=np.int64)
    if check_values:
        zero, value_faults = scan_values(raw.file, raw.rows)
        faults += value_faults
    folder = find_pictures(root, layout, pictures, raw.image_names)
    faults += check_pictures(folder, raw.image_names, asked=pictures is not None)
    stop_on_errors(faults)
    return Split(
        name=split,
        features=raw.features,
        captions=raw.captions,
        image_of_text=raw.image_of_text.astype(np.int64, copy=False),
        image_names=raw.image_names,
        picture_folder=folder,
        source=raw.source | ({"pictures": str(folder)} if folder else {}),
        faults=faults,
        rows=(*raw.rows, raw.stride),
        zero_regions=_flat_rows(zero, raw),
        caption_ids=raw.caption_ids,
    )


def _flat_rows(zero: np.ndarray, raw: RawSplit) -> np.ndarray:
    """(z, 2) pairs (row of the file, region) → (·,) image · L + region, for the rows that the split shows."""
    regions = raw.features.shape[1] if raw.features.ndim == 3 else 1
    image, between = np.divmod(zero[:, 0] - raw.rows[0], raw.stride)
    return (image * regions + zero[:, 1])[between == 0]


def available_splits(path: str | Path) -> list[str]:
    """Names of the splits at `path`: train first, then dev, then the others in alphabetical order."""
    _, layout = find_layout(path)
    names = splits_in(layout) if layout.is_dir() else karpathy_splits(layout)
    first = {"train": 0, "dev": 1, "val": 1}
    return sorted(names, key=lambda name: (first.get(name, 2), name))


def find_layout(path: str | Path) -> tuple[Path, Path]:
    """The folder itself, and the folder of precomp files or the JSON file to read.

    Raises:
        InputError: there is neither, or a link where they should be leads to nothing.
    """
    path = Path(path)
    if path.is_file() and path.suffix == ".json":
        return path.parent, path
    if not path.is_dir():
        problem = "not a folder" if path.exists() else "there is no such folder"
        raise InputError(Fault(str(path), problem, LAYOUTS, "check the path"))
    annotated = any(path.glob("dataset*.json"))
    inner = inner_folders(path, [])
    folders = [folder for folder in inner if _is_precomp(folder, annotated)]
    if _is_precomp(path, annotated):
        return path, path
    if len(folders) > 1 and folders[0].name != "precomp":
        names = ", ".join(folder.name for folder in folders)
        raise InputError(
            Fault(str(path), f"holds several data sets: {names}", "one data set", "name one of them")
        )
    if folders:
        return path, folders[0]
    _refuse_pictures(path)
    return path, find_annotations(path, LAYOUTS)


def _refuse_pictures(path: Path) -> None:
    """Say of pictures with captions what can be done with them."""
    from coder_core.data.captioned import recognise  # pyarrow is loaded for those who have such data

    recognised = recognise(path) if not any(path.glob("dataset*.json")) else None
    if recognised is not None:
        layout, why = recognised
        problem = f"holds pictures with captions ({layout.name}: {why}) and no region features"
        fix = f"python -m coder_core.features {path} --model … --out … makes features with a pretrained model"
        raise InputError(Fault(str(path), problem, LAYOUTS, fix))


def leaves(path: Path, root: Path) -> bool:
    """True if a link leads a data set, its folder of precomp files, or a file of them out of `root`.

    A command follows such links for whoever types it; the app offers no data set that has one.
    """
    entries = [path, *path.glob("*"), *path.glob("*precomp/*")]
    read = [entry for entry in entries if entry.suffix in READ_SUFFIXES or entry.name.endswith("precomp")]
    return not all(
        Path(os.path.realpath(entry)).is_relative_to(os.path.realpath(root)) for entry in [path, *read]
    )


def _is_precomp(folder: Path, annotated: bool) -> bool:
    """True for a folder with caption files; beside a JSON, features alone belong to the JSON."""
    return any(folder.glob("*_caps.txt")) if annotated else bool(splits_in(folder))


def _read(root: Path, layout: Path, split: str) -> RawSplit:
    """Read `split` under its own name, under its other name (dev, val), or as the first images of testall."""
    if not layout.is_dir():
        return read_karpathy(root, layout, split)
    present = splits_in(layout)
    for name in (split, OTHER_NAME.get(split)):
        if name in present:
            return read_precomp(root, layout, name)
    if split == "test" and "testall" in present:
        raw = read_precomp(root, layout, "testall")
        if len(raw.features) <= SMALL_TEST_IMAGES:
            return raw
        note = f'there is no "test"; it is the first {SMALL_TEST_IMAGES:,} images of "testall"'
        raw.faults.append(Fault(str(layout), note, severity="note"))
        return raw.first_images(SMALL_TEST_IMAGES)
    listed = ", ".join(present)
    raise InputError(
        Fault(str(layout), f'there is no split "{split}"', f"one of {listed}", "name one that is there")
    )


def fingerprint(split: Split) -> str:
    """A cheap, stable sha256 (hex) of a split: shape, dtype, 64 evenly spaced images' values, captions, pairing."""
    digest = hashlib.sha256()
    digest.update(repr((split.features.shape, split.features.dtype.str, split.n_texts)).encode())
    rows = np.unique(np.linspace(0, split.n_images - 1, FINGERPRINT_ROWS).astype(np.int64))
    reader = FeatureRows(split.features)
    digest.update(b"".join(reader.of_images(row, row + 1).tobytes() for row in rows.tolist()))
    digest.update(np.ascontiguousarray(split.image_of_text, dtype="<i8").tobytes())
    for caption in split.captions:
        digest.update(caption.encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


def compare_splits(splits: Sequence[Split]) -> list[Fault]:
    """Faults between splits, each compared with the first one, train.

    Another feature size is an error: one model reads all splits. Another number of regions or captions an image is
    noted. The same picture in train and in another split is a
    warning: what is measured there was seen in training.
    """
    faults = []
    for split in splits[1:]:
        train = splits[0]
        place = f"{split.name} and {train.name}"
        if split.feature_size != train.feature_size:
            sizes = f"{split.feature_size} and {train.feature_size} numbers a region"
            fix = "extract the features of all splits with the same program"
            faults.append(Fault(place, sizes, "the same feature size in every split", fix))
        if split.regions != train.regions:
            counts = f"{split.regions} and {train.regions} regions an image; one model reads both"
            faults.append(Fault(place, counts, severity="note"))
        each, in_train = (f"{some.n_texts / some.n_images:.1f}" for some in (split, train))
        if each != in_train:
            counts = f"{each} and {in_train} captions an image; recalls depend on their number"
            faults.append(Fault(place, counts, severity="note"))
        shared = sorted(_names(split) & _names(train))
        if shared and train.name == "train" and split.name != "train":
            overlap = f"{len(shared):,} images are in both; the first: {', '.join(map(shown, shared[:10]))}"
            fix = "remove them from one of the two"
            faults.append(Fault(place, overlap, "different images", fix, severity="warning"))
    return faults


def _names(split: Split) -> set[str]:
    """The names of a split's images; none where they are row numbers."""
    names = split.image_names or []
    return set() if names == [str(row) for row in range(len(names))] else set(names)
