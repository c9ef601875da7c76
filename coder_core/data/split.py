"""One split of a data set with features or pictures, its checksums, and checks between splits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from coder_core.config.data import ReadingArguments, group_faults
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import Progress, silent
from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.data.features import FeatureFile, FeatureRows
from coder_core.data.groups import group_numbers, groups_of_splits, ids_of_column, open_groups, shared_groups
from coder_core.data.joined_columns import join_to_splits
from coder_core.data.lines import shared_names
from coder_core.data.search_log import SearchLog, read_search_log
from coder_core.files.atomic import cache_folder, settled, write_cached

if TYPE_CHECKING:  # imports torch, which only training on pictures needs
    from coder_core.data.captioned.decoding import Pictures

FINGERPRINT_ROWS = 64
PART_STREAM = 10  # stream of the random numbers that choose a part of the images
CHECKSUM_VERSION = 1  # of the checksum's method
PIECE_BYTES = 8 * 2**20
THREADS = 2
HEX = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Split:
    """One split of a data set: n images with L regions of D features, and m captions."""

    name: str  # "train", "dev", "test", …
    features: np.ndarray  # (n, L, D) or (n, D), memory-mapped, in the file's dtype and byte order
    captions: list[str]  # m strings
    image_of_text: np.ndarray  # (m,) int64, the image of every caption
    image_names: list[str] | None = None  # n relative picture file names or ids, or None
    picture_folder: Path | None = None  # in which the names are files, or None
    source: dict[str, str] = field(default_factory=dict)  # what was read from where
    faults: list[Fault] = field(default_factory=list)  # warnings and notes, such as on conversions
    file: FeatureFile | None = None  # the features file, or None
    rows: tuple[int, int, int] | None = None  # its rows (start, stop, step), or None
    # (z,) int64, image · L + region of the all-zero regions, which are masked; empty if the values were not
    # checked
    zero_regions: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    pictures: Pictures | None = None  # for an image tower; features are then (n, L, 0)
    caption_ids: np.ndarray | None = None  # (m,) int64, the number of every caption in its data set, or None
    columns: SampleColumns = NO_COLUMNS  # what the data says besides
    # (n,) int64, equal for images that show the same thing, below 0 for groups of one image; None without groups
    image_groups: np.ndarray | None = None
    search_log: SearchLog | None = None  # whose queries the captions are, or None

    @property
    def n_images(self) -> int:
        return len(self.features)

    @property
    def n_texts(self) -> int:
        return len(self.captions)

    @property
    def regions(self) -> int:
        """L; 1 for one vector per image."""
        return int(self.features.shape[1]) if self.features.ndim == 3 else 1

    @property
    def feature_size(self) -> int:
        """D of the features."""
        return int(self.features.shape[-1])

    def first_images(self, count: int, why: Fault) -> Split:
        """Return the first `count` images and their captions, and add the fault `why`; features stay memory-mapped."""
        if self.n_images <= count:
            return self
        start, _, stride = self.rows or (0, self.n_images, 1)
        texts = np.flatnonzero(self.image_of_text < count)
        return replace(
            self.of_texts(texts),
            columns=self.columns.take(np.arange(count), texts),
            features=self.features[:count],
            rows=(start, start + count * stride, stride),
            image_names=None if self.image_names is None else self.image_names[:count],
            image_groups=None if self.image_groups is None else self.image_groups[:count],
            faults=[*self.faults, why],
        )

    def of_texts(self, texts: np.ndarray, image_of_text: np.ndarray | None = None) -> Split:
        """Return all images with only these captions, (k,) rows; `image_of_text` moves these to other images."""
        owners = self.image_of_text[texts] if image_of_text is None else image_of_text
        ids = None if self.caption_ids is None else self.caption_ids[texts]
        captions = [self.captions[text] for text in texts.tolist()]
        columns = self.columns.take(np.arange(self.n_images), texts)
        return replace(self, captions=captions, image_of_text=owners, caption_ids=ids, columns=columns)


def with_queries_of_log(split: Split, name: str, queries: Path, qrels: Path) -> tuple[Split, list[Fault]]:
    """Return the images of a split under another name, with the queries of a search log in place of the captions, and notes
    on the log. InputError: as for `read_search_log`, or the images have no names."""
    if not split.image_names:
        where = f"split {split.name}"
        raise InputError.at(where, "has no names of images, which judgments refer to", "{split}_ids.txt")
    log, notes = read_search_log(queries, qrels, split.image_names)
    changed = replace(
        split,
        name=name,
        captions=log.texts,
        image_of_text=log.image_of_text,
        caption_ids=None,
        columns=SampleColumns(split.columns.images),
        source={**split.source, "queries": str(queries), "judgements": str(qrels)},
        search_log=log,
    )
    return changed, notes


def part_images(n: int, share: float, seed: int, *, other: bool = False) -> np.ndarray:
    """Draw a share of n images at random, at least one, or with `other` return the rest: (k,) int64 rows, ascending. A
    larger share includes the images of a smaller one."""
    order = np.random.default_rng((seed, PART_STREAM)).permutation(n)
    count = max(1, round(share * n))
    return np.sort(order[count:] if other else order[:count])


def compare_splits(splits: Sequence[Split]) -> list[Fault]:
    """Compare every split with the first one, train, and return the faults. A different feature size is an error,
    because one model reads all splits. Other numbers of regions or captions per image are noted. An image in both train
    and another split is a warning: evaluation must not use training samples."""
    faults = []
    for split in splits[1:]:
        train = splits[0]
        where = f"{split.name} and {train.name}"
        if split.feature_size != train.feature_size:
            sizes = f"{split.feature_size} and {train.feature_size} numbers per region"
            fix = "extract the features of all splits with the same program"
            faults.append(Fault(where, sizes, "the same feature size in every split", fix))
        if split.regions != train.regions:
            counts = f"{split.regions} and {train.regions} regions per image; the model can read both"
            faults.append(Fault(where, counts, severity="note"))
        each = f"{split.n_texts / split.n_images:.1f}"
        in_train = f"{train.n_texts / train.n_images:.1f}"
        if each != in_train:
            counts = f"{each} and {in_train} captions per image; recall depends on their number"
            faults.append(Fault(where, counts, severity="note"))
        if train.name == "train" and split.name != "train":
            faults += shared_names(where, _names(split) & _names(train), "images")
            if split.image_groups is not None and train.image_groups is not None:
                faults += shared_groups(where, split.image_groups, train.image_groups)

    return faults


def with_columns(splits: Mapping[str, Split], reading: ReadingArguments) -> dict[str, Split]:
    """Return the splits of region features with the columns of a table, if a flag names one. InputError: as for
    `join_to_splits`."""
    if not reading.columns:
        return dict(splits)
    samples = {
        name: (split.image_names or [], split.image_of_text, split.caption_ids)
        for name, split in splits.items()
    }
    joined = dict(splits)
    for name, (columns, notes) in join_to_splits(Path(reading.columns), samples).items():
        split = splits[name]
        joined[name] = replace(split, columns=split.columns.joined(columns), faults=[*split.faults, *notes])
    return joined


def with_groups(splits: Mapping[str, Split], reading: ReadingArguments) -> dict[str, Split]:
    """Return the splits of region features with the columns of a table and the groups of their images, by a column or a
    file, if flags name them. InputError: as for `with_columns`, `ids_of_column` and `groups_of_splits`, or a column and a
    file are both named."""
    grouped = with_columns(splits, reading)
    if not (reading.group_column or reading.groups):
        return grouped

    stop_on_errors(group_faults(reading))
    if reading.group_column:
        for name, split in grouped.items():
            where = split.source.get("captions", split.name)
            ids, note = ids_of_column(split.columns, reading.group_column, where)
            grouped[name] = replace(split, image_groups=group_numbers(ids), faults=[*split.faults, note])
    else:
        names = {name: split.image_names or [] for name, split in grouped.items()}
        groups, notes = groups_of_splits(open_groups(Path(reading.groups)), names)
        for name, of_images in groups.items():
            faults = [*grouped[name].faults, notes[name]]
            grouped[name] = replace(grouped[name], image_groups=of_images, faults=faults)

    return grouped


def _names(split: Split) -> set[str]:
    """Return the names of a split's images; none if they are row numbers."""
    names = split.image_names or []
    return set() if names == [str(row) for row in range(len(names))] else set(names)


def fingerprint(split: Split) -> str:
    """Return a cheap, stable sha256 (hex) of shape, dtype, 64 evenly spaced images' values, captions and pairing."""
    shape = repr((split.features.shape, split.features.dtype.str, split.n_texts)).encode()
    rows = np.unique(np.linspace(0, split.n_images - 1, FINGERPRINT_ROWS).astype(np.int64))
    values = FeatureRows(split.features).of_images(rows).tobytes()
    return captions_checksum(split.captions, split.image_of_text, shape + values)


def captions_checksum(captions: Sequence[str], image_of_text: np.ndarray, before: bytes = b"") -> str:
    """Return the sha256 (hex) of the bytes `before`, the image of every caption, and the captions."""
    digest = hashlib.sha256(before + np.ascontiguousarray(image_of_text, dtype="<i8").tobytes())
    for caption in captions:
        digest.update(caption.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def split_checksums(split: Split, progress: Progress = silent) -> dict[str, str]:
    """Return the sha256 (hex) of all of a split's "features" and of its "captions", by which a run recognises its data.
    The layout on disk does not matter. The checksum of the features is kept in $CODER_CACHE under the file's path,
    size, times and inode, so that an unchanged file is read once."""
    captions = captions_checksum(split.captions, split.image_of_text)
    return {"features": _features_checksum(split, progress), "captions": captions}


def _features_checksum(split: Split, progress: Progress) -> str:
    path = Path(split.source["features"]) if "features" in split.source else None
    identity = _identity(path, split) if path is not None else ""
    cached = cache_folder() / "checksums" / hashlib.sha256(identity.encode()).hexdigest()
    with suppress(OSError, UnicodeDecodeError):
        if identity and HEX.fullmatch(checksum := cached.read_text("ascii")):
            return checksum
    checksum = _hash(split.features, progress)
    if path is not None and identity and identity == _identity(path, split):
        write_cached(cached, checksum)
    return checksum


def _identity(path: Path, split: Split) -> str:
    """Return a key of a file's state and of the rows that a split uses; "" just after a change."""
    state = path.stat()
    if not settled(max(state.st_mtime_ns, state.st_ctime_ns)):
        return ""
    times = state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev
    shape = split.features.shape, split.features.dtype.str, split.rows
    return repr((CHECKSUM_VERSION, str(path.resolve()), *times, *shape))


def _hash(features: np.ndarray, progress: Progress) -> str:
    """Return the sha256 (hex) of the shape, the type and the sha256 of every piece of rows; threads read the pieces."""
    count = len(features)
    reader = FeatureRows(features)
    rows = max(1, PIECE_BYTES // (features[0].size * features.itemsize))
    digest = hashlib.sha256(repr((features.shape, features.dtype.str)).encode())
    pieces = [range(start, min(start + rows, count)) for start in range(0, count, rows)]
    with ThreadPoolExecutor(THREADS) as pool:
        digests = pool.map(lambda piece: hashlib.sha256(reader.of_images(piece).tobytes()).digest(), pieces)
        for piece, part in zip(pieces, digests, strict=True):
            digest.update(part)
            progress(piece.stop, count)
    return digest.hexdigest()
