"""`analysis/<split>/`: embeddings or scores, and per-sample tables of a run on a split; all the app needs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.runs.files import sealed

VERSION = 1
VERSION_MIXED = 2  # two branches: the ranks are those of the mixture, which a reader of version 1 would not know
VERSION_SCORED = 3  # a matrix of scores and no embeddings, which a reader of the others relies on
VERSIONS = (VERSION, VERSION_MIXED, VERSION_SCORED)
SCORES = "scores"
IMAGE_PARTS = "image_parts"  # what the scorer reads of an image, so that a new caption can be scored
IMAGE_PART_LENGTHS = "image_part_lengths"
ANALYSIS = "analysis"
KIND_IMPORTED = "embeddings"  # another model's: no configuration, no history and no weights belong to them
DOCUMENT_IMPORTED = "imported"  # what such an analysis was made of
_SPLIT = re.compile(r"[a-z0-9_-]+")
_PART = re.compile(r"[a-z0-9_]+")


def write_analysis(
    run_folder: Path,
    split: str,
    *,
    image_embeddings: np.ndarray | None = None,
    text_embeddings: np.ndarray | None = None,
    scores: np.ndarray | None = None,
    image_of_text: np.ndarray,
    captions: Sequence[str],
    image_names: Sequence[str],
    picture_folder: str | Path = "",
    metrics: Mapping[str, Any],
    fingerprint: str,
    image_ranks: np.ndarray,
    text_ranks: np.ndarray,
    image_best: np.ndarray,
    text_best: np.ndarray,
    kind: str = "coder",
    source: str = "",
    extra_arrays: Mapping[str, np.ndarray] | None = None,
    extra_documents: Mapping[str, Any] | None = None,
    beta: float | None = None,
) -> Path:
    """Write the analysis of one split; an earlier one is replaced in one step.

    Args:
        run_folder: the run.
        split: lower-case letters, digits, "_", "-".
        image_embeddings: (n, D) unit rows.
        text_embeddings: (m, D) unit rows.
        scores: (n, m), instead of the two, of a model whose scores are no inner products of one vector each.
        image_of_text: (m,) the image each caption belongs to.
        captions: m strings.
        image_names: n picture paths relative to `picture_folder`, or ids.
        picture_folder: where the pictures lie, "" when unknown.
        metrics: the dictionary of `retrieval_metrics`.
        fingerprint: of the save the embeddings come from.
        image_ranks: (n,) 0 is first, −1 for an image without captions.
        text_ranks: (m,) 0 is first.
        image_best: (n, k) the best captions of every image, best first.
        text_best: (m, k) the best images of every caption, best first.
        kind: what made the embeddings: "coder", or an importer's name.
        source: the data set, as a person wants to read it.
        extra_arrays: name → array; becomes `<name>.npy`.
        extra_documents: name → JSON value; becomes `<name>.json`.
        beta: share of `image_embeddings` and `text_embeddings` in the ranked score; the rest is that of the concept
            branch, among the extra arrays. None without one.

    Raises:
        ValueError: shapes that do not fit together, or an impossible name.
        WriteError: disk full or read-only; an earlier analysis is untouched.
    """
    given = {"image_embeddings": image_embeddings, "text_embeddings": text_embeddings, SCORES: scores}
    arrays: dict[str, np.ndarray] = {
        **{name: np.asarray(array, np.float32) for name, array in given.items() if array is not None},
        "image_of_text": np.asarray(image_of_text, np.int64),
        "image_ranks": np.asarray(image_ranks, np.int64),
        "text_ranks": np.asarray(text_ranks, np.int64),
        "image_best": np.asarray(image_best, np.int32),
        "text_best": np.asarray(text_best, np.int32),
        **{name: np.asarray(array) for name, array in (extra_arrays or {}).items()},
    }
    documents = {
        "captions": list(captions),
        "images": {"names": list(image_names), "folder": str(picture_folder)},
        **(extra_documents or {}),
    }
    _check_names(split, [*arrays, *documents])
    _check_shapes(arrays, len(captions), len(image_names))
    about = {
        "version": VERSION_SCORED if scores is not None else VERSION if beta is None else VERSION_MIXED,
        "kind": kind,
        "split": split,
        "fingerprint": fingerprint,
        "source": source,
        "metrics": {name: _plain(value) for name, value in metrics.items()},
        "documents": sorted(documents),
    }
    if beta is not None:
        about["beta"] = float(beta)
    files: dict[str, sealed.Content] = {f"{name}.npy": array for name, array in arrays.items()}
    files |= {f"{name}.json": json.dumps(document, ensure_ascii=False) for name, document in documents.items()}
    return sealed.write_sealed(split_folder(run_folder, split), files, about=about, replace=True)


def split_folder(run_folder: Path, split: str) -> Path:
    """Where the analysis of a split stands.

    Raises:
        InputError: the name could lead out of the run folder.
    """
    if not _SPLIT.fullmatch(split):
        raise InputError(Fault(f"split {split!r}", "is not a split's name", "lower-case letters, digits, '_' and '-'"))
    return Path(run_folder) / ANALYSIS / split


def list_splits(run_folder: Path) -> list[str]:
    """The splits a run has an analysis of, sorted."""
    folder = Path(run_folder) / ANALYSIS
    names = filter(_SPLIT.fullmatch, sealed.folder_names(folder))
    return [name for name in names if (sealed.locate(folder / name) / sealed.MANIFEST).is_file()]


def _check_names(split: str, names: Sequence[str]) -> None:
    if not _SPLIT.fullmatch(split):
        raise ValueError(f"a split is named with lower-case letters, digits, '_' and '-', got {split!r}")
    for name in names:
        if not _PART.fullmatch(name):
            raise ValueError(f"a table is named with lower-case letters, digits and '_', got {name!r}")


def _check_shapes(arrays: Mapping[str, np.ndarray], captions: int, images: int) -> None:
    scored = SCORES in arrays
    if scored == ("image_embeddings" in arrays) or scored == ("text_embeddings" in arrays):
        raise ValueError("either scores are written, or image_embeddings and text_embeddings")
    if scored and arrays[SCORES].shape != (images, captions):
        raise ValueError(f"{SCORES} has shape {arrays[SCORES].shape}; expected {(images, captions)}")
    expected = {
        **({} if scored else {"image_embeddings": images, "text_embeddings": captions}),
        "image_of_text": captions,
        "image_ranks": images,
        "text_ranks": captions,
        "image_best": images,
        "text_best": captions,
    }
    for name, rows in expected.items():
        if arrays[name].shape[:1] != (rows,):
            raise ValueError(f"{name} has shape {arrays[name].shape}; expected {rows:,} rows")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} has dtype {array.dtype}; only numbers are written")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
