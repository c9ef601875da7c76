"""The layout of an analysis folder for writer and reader: versions, and every array's shape and dtype."""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.plain_files import subfolder
from coder_core.evaluation.metrics import Ranks
from coder_core.evaluation.relevance import Queries
from coder_core.files import atomic
from coder_core.files.sealed import MANIFEST

VERSION = 1
VERSION_MIXED = 2  # two branches, whose mixture gives the ranks; readers of version 1 do not know this
VERSION_SCORED = 3  # a matrix of scores, without the embeddings that readers of other versions need
VERSION_LISTED = 4  # lists of another system, without embeddings and without scores of all pairs
VERSIONS = (VERSION, VERSION_MIXED, VERSION_SCORED, VERSION_LISTED)
SCORES = "scores"
IMAGE_PARTS = "image_parts"
IMAGE_PART_LENGTHS = "image_part_lengths"
KIND_IMPORTED = "embeddings"  # of another model, without configuration, history and weights
UNRANKED = "unranked"  # folder of a run with splits that an evaluation has yet to rank
DOCUMENT_IMPORTED = "imported"  # sources of such an analysis
DOCUMENT_LISTS = "lists"  # file, tag and depth of the lists of another system
DOCUMENT_TOWERS = "towers"  # its towers, if they can embed new texts and pictures
CAPTION_IDS = "caption_ids"
IMAGE_GROUPS = "image_groups"
PICTURE_POSITIONS = "picture_positions"
JUDGEMENTS = "judgements"  # of a search log
DOCUMENT_SEARCH_LOG = "search_log"  # its ids of queries, and the queries that are not counted
QUERIES = "query_embeddings"
DOCUMENT_QUERIES = "queries"
DOCUMENT_REGIONS = "regions"  # picture tower of the region features that a run was evaluated on
DOCUMENT_TUNED = "tuned"  # pretrained towers that a run started from; its saves have only what changed
PART_NAME = re.compile(r"[a-z0-9_]+")
_SPLIT = re.compile(r"[a-z0-9][a-z0-9._-]*")
LONGEST_SPLIT = 200

TABLES: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
RANKS = ("image_ranks", "text_ranks", "image_best", "text_best")
RANKED_QUERIES = ("image_queries", "text_queries")  # if only a sample is ranked
EMBEDDINGS = ("image_embeddings", "text_embeddings")
LISTS = ("image_lists", "image_list_scores", "text_lists", "text_list_scores")
_SOURCES = {VERSION_SCORED: (SCORES,), VERSION_LISTED: LISTS}  # of the ranks; embeddings of other versions


def rank_tables(ranks: Ranks, queries: Queries | None = None) -> dict[str, np.ndarray]:
    """Return the arrays `RANKS` and, if only some queries are ranked, `RANKED_QUERIES`."""
    sampled = {} if queries is None else {"image_queries": queries.images, "text_queries": queries.texts}
    return sampled | {
        "image_ranks": ranks.i2t.first,
        "text_ranks": ranks.t2i.first,
        "image_best": ranks.i2t.best,
        "text_best": ranks.t2i.best,
    }


def required_tables(version: int) -> tuple[str, ...]:
    """Return the arrays that every reader of this version needs, except those of the concept branch."""
    return (*_SOURCES.get(version, EMBEDDINGS), "image_of_text", *RANKS)


def check_tables(
    arrays: Mapping[str, np.ndarray],
    required: Iterable[str],
    place: str,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Compare arrays with their shapes and dtypes in `TABLES`, and their sizes with each other. `place`: the folder.
    `sizes`: letter → known size. InputError: names the first array that is missing or has another shape or dtype."""
    bound = {str(number): number for number in range(4)} | dict(sizes or {})
    for name, (shape, dtype) in TABLES.items():
        file = f"{place}/{name}.npy"
        letters = shape.split()
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


def split_folder(run_folder: Path, split: str, kind: str = "analysis") -> Path:
    """Return the folder of a split's analysis, or of its joined columns. InputError: not a plain name, which might lead
    out of the run folder or be mistaken for something else, or the folder is a link."""
    if not _SPLIT.fullmatch(split) or len(split) > LONGEST_SPLIT:
        expected = f"lower-case letters, digits, '.', '_' and '-', the first a letter or digit, at most {LONGEST_SPLIT}"
        where = f"split {split!r} of {Path(run_folder).name}"
        raise InputError.at(where, "is not a split's name", expected, "choose another name")
    return subfolder(run_folder, kind, split)


def list_splits(run_folder: Path) -> list[str]:
    """List the splits of which a run has an analysis, sorted."""
    folder = subfolder(run_folder, "analysis")
    names = filter(_SPLIT.fullmatch, atomic.folder_names(folder))
    return [name for name in names if (atomic.locate(folder / name) / MANIFEST).is_file()]
