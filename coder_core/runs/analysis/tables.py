"""The layout of an analysis folder for writer and reader: versions, and every array's shape and dtype."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from coder_core.console.faults import InputError
from coder_core.files import atomic
from coder_core.files.manifest import MANIFEST

VERSION = 1
VERSION_MIXED = 2  # two branches; a reader of version 1 would not know that ranks are those of their mixture
VERSION_SCORED = 3  # a matrix of scores and no embeddings, which a reader of the others relies on
VERSIONS = (VERSION, VERSION_MIXED, VERSION_SCORED)
SCORES = "scores"
IMAGE_PARTS = "image_parts"
IMAGE_PART_LENGTHS = "image_part_lengths"
KIND_IMPORTED = "embeddings"  # another model's: no configuration, no history and no weights belong to them
UNRANKED = "unranked"  # folder of a run with splits that an evaluation ranks
DOCUMENT_IMPORTED = "imported"  # what such an analysis was made of
DOCUMENT_TOWERS = "towers"  # and with which towers, where they can embed new words and pictures
CAPTION_IDS = "caption_ids"
PICTURE_POSITIONS = "picture_positions"
QUERIES, DOCUMENT_QUERIES = "query_embeddings", "queries"
DOCUMENT_REGIONS = "regions"  # which picture tower made the region features a run was evaluated on
DOCUMENT_TUNED = "tuned"  # which pretrained towers a run trained on; its saves hold what changed of them
PART_NAME = re.compile(r"[a-z0-9_]+")
_SPLIT = re.compile(r"[a-z0-9][a-z0-9._-]*")
LONGEST_SPLIT = 200

TABLES: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
RANKS = ("image_ranks", "text_ranks", "image_best", "text_best")
EMBEDDINGS = ("image_embeddings", "text_embeddings")


def required_tables(version: int) -> tuple[str, ...]:
    """The arrays that every reader of this version relies on, except those of the concept branch."""
    return (*((SCORES,) if version == VERSION_SCORED else EMBEDDINGS), "image_of_text", *RANKS)


def check_tables(
    arrays: Mapping[str, np.ndarray],
    required: Iterable[str],
    place: str,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Compare arrays with `TABLES`, where it has them, and with one another. `place`: the folder. `sizes`: letter → size,
    where they are known. InputError: names the first array that is required and missing, or has another shape or dtype."""
    bound = {str(number): number for number in range(4)} | dict(sizes or {})
    for name, (shape, dtype) in TABLES.items():
        file, letters = f"{place}/{name}.npy", shape.split()
        if name not in arrays:
            if name in required:
                raise InputError.at(file, "is missing", f"an array of shape ({', '.join(letters)})")
            continue
        array = arrays[name]
        for letter, size in zip(letters, array.shape, strict=False):
            bound.setdefault(letter, size)
        expected = tuple(bound.get(letter, 0) for letter in letters)
        if array.shape != expected:
            raise InputError.at(file, f"has shape {array.shape}", f"{expected}")
        if array.dtype.str != dtype:
            raise InputError.at(file, f"has dtype {array.dtype.str}", dtype)


def split_folder(run_folder: Path, split: str) -> Path:
    """The folder of a split's analysis. InputError: the name could lead out of the run folder, or be taken for more
    than a name."""
    if not _SPLIT.fullmatch(split) or len(split) > LONGEST_SPLIT:
        expected = f"lower-case letters, digits, '.', '_' and '-', the first a letter or digit, at most {LONGEST_SPLIT}"
        where = f"split {split!r} of {Path(run_folder).name}"
        raise InputError.at(where, "is not a split's name", expected, "name it otherwise")
    return Path(run_folder) / "analysis" / split


def list_splits(run_folder: Path) -> list[str]:
    """The splits a run has an analysis of, sorted."""
    folder = Path(run_folder) / "analysis"
    names = filter(_SPLIT.fullmatch, atomic.folder_names(folder))
    return [name for name in names if (atomic.locate(folder / name) / MANIFEST).is_file()]
