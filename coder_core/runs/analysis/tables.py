"""The layout of an analysis folder for writer and reader: versions, and every array's shape and dtype."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coder_core.console.faults import InputError
from coder_core.files import atomic
from coder_core.files.manifest import MANIFEST

VERSION = 1
VERSION_MIXED = (
    2  # two branches: the ranks are those of the mixture, which a reader of version 1 would not know
)
VERSION_SCORED = 3  # a matrix of scores and no embeddings, which a reader of the others relies on
VERSIONS = (VERSION, VERSION_MIXED, VERSION_SCORED)
SCORES = "scores"
IMAGE_PARTS = "image_parts"
IMAGE_PART_LENGTHS = "image_part_lengths"
KIND_IMPORTED = "embeddings"  # another model's: no configuration, no history and no weights belong to them
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


class Table(NamedTuple):
    """An array of the folder.

    Args:
        shape: sizes by letter: n images, m captions, g concepts, K clusters; any other letter is bound by the first
            array that has it.
        dtype: as NumPy spells it.
    """

    shape: str
    dtype: str


TABLES = {
    "scores": Table("n m", "<f4"),  # instead of embeddings, of a model that scores pair by pair
    "image_embeddings": Table("n D", "<f4"),  # unit rows, as are all embeddings
    "text_embeddings": Table("m D", "<f4"),
    "image_of_text": Table("m", "<i8"),
    CAPTION_IDS: Table("m", "<i8"),  # numbers of captions in their data set, of layouts that have them
    "picture_positions": Table("n 3", "<i8"),  # of pictures in tar or parquet files, which images.json names
    "image_ranks": Table("n", "<i8"),  # 0 is first, −1 for an image without captions
    "text_ranks": Table("m", "<i8"),
    "image_best": Table("n k", "<i4"),  # the best captions of every image, best first
    "text_best": Table("m l", "<i4"),
    "image_parts": Table(
        "n L P", "<f2"
    ),  # what the scorer reads of an image, so that new captions can be scored
    "image_part_lengths": Table("n", "<i8"),  # how many of the L exist
    "concept_graph": Table("g g", "<f4"),
    "concept_together": Table("g g", "<i4"),  # train captions that hold both
    "concept_image_embeddings": Table("n C", "<f4"),
    "concept_text_embeddings": Table("m C", "<f4"),
    "concept_image_attention": Table("n g", "<f2"),  # rows sum to 1
    "concept_text_attention": Table("m g", "<f2"),
    "concept_image_strongest": Table(
        "n s", "<i4"
    ),  # concepts with the largest attention, where it is too large
    "concept_text_strongest": Table("m s", "<i4"),
    "concept_image_strength": Table("n s", "<f2"),  # their attention
    "concept_text_strength": Table("m s", "<f2"),
    "cluster_centroids": Table("K D", "<f4"),
    "cluster_members": Table("K", "<i8"),  # pairs of the train split that belong to each
    "cluster_pair_labels": Table("m", "<i4"),
    "cluster_pair_cosines": Table("m", "<f4"),
    "cluster_text_labels": Table("m", "<i4"),
    "cluster_image_labels": Table("n", "<i4"),
    "query_embeddings": Table(
        "q D", "<f4"
    ),  # unit rows of texts that are no captions; queries.json has the texts
    "sample_weight": Table("m", "<f4"),
    "weight_diversity": Table("m 2", "<f4"),  # of image and caption
    "weight_discrepancy": Table("m 2", "<f4"),
}
RANKS = ("image_ranks", "text_ranks", "image_best", "text_best")
EMBEDDINGS = ("image_embeddings", "text_embeddings")


def required_tables(version: int) -> tuple[str, ...]:
    """The arrays that every reader of this version relies on, the concept branch's left to its own reader."""
    return (*((SCORES,) if version == VERSION_SCORED else EMBEDDINGS), "image_of_text", *RANKS)


def check_tables(
    arrays: Mapping[str, np.ndarray],
    required: Iterable[str],
    place: str,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Compare arrays with `TABLES` and with one another.

    Args:
        arrays: name → array; names that `TABLES` lacks are passed over.
        required: names that have to be there.
        place: the folder, for messages.
        sizes: letter → size, where they are known.

    Raises:
        InputError: names the first array that is missing, or has another shape or dtype.
    """
    bound = {str(number): number for number in range(4)} | dict(sizes or {})
    for name, table in TABLES.items():
        file = f"{place}/{name}.npy"
        if name not in arrays:
            if name in required:
                raise InputError.at(
                    file, "is missing", f"an array of shape ({table.shape.replace(' ', ', ')})"
                )
            continue
        array, letters = arrays[name], table.shape.split()
        for letter, size in zip(letters, array.shape, strict=False):
            bound.setdefault(letter, size)
        expected = tuple(bound.get(letter, 0) for letter in letters)
        if array.shape != expected:
            raise InputError.at(file, f"has shape {array.shape}", f"{expected}")
        if array.dtype.str != table.dtype:
            raise InputError.at(file, f"has dtype {array.dtype.str}", table.dtype)


def split_folder(run_folder: Path, split: str) -> Path:
    """The folder of a split's analysis.

    Raises:
        InputError: the name could lead out of the run folder, or be taken for more than a name.
    """
    if not _SPLIT.fullmatch(split) or len(split) > LONGEST_SPLIT:
        expected = f"lower-case letters, digits, '.', '_' and '-', the first a letter or digit, at most {LONGEST_SPLIT}"
        place = f"split {split!r} of {Path(run_folder).name}"
        raise InputError.at(place, "is not a split's name", expected, "name it otherwise")
    return Path(run_folder) / "analysis" / split


def list_splits(run_folder: Path) -> list[str]:
    """The splits a run has an analysis of, sorted."""
    folder = Path(run_folder) / "analysis"
    names = filter(_SPLIT.fullmatch, atomic.folder_names(folder))
    return [name for name in names if (atomic.locate(folder / name) / MANIFEST).is_file()]
