"""Write `analysis/<split>/`: embeddings or scores, ranks and per-sample tables of a run on a split."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.plain_files import check_plain
from coder_core.files import sealed
from coder_core.runs.analysis import tables


def write_analysis(
    run_folder: Path,
    split: str,
    *,
    captions: Sequence[str],
    image_names: Sequence[str],
    picture_folder: str | Path = "",
    packed: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any],
    fingerprint: str,
    kind: str = "coder",
    source: str = "",
    documents: Mapping[str, Any] | None = None,
    beta: float | None = None,
    **arrays: np.ndarray,
) -> Path:
    """Write the analysis of one split; an earlier one is replaced in one step.

    Args:
        run_folder: the run.
        split: lower-case letters, digits, ".", "_", "-"; the first a letter or digit.
        captions: m strings.
        image_names: n picture paths relative to `picture_folder`, or ids.
        picture_folder: where the pictures lie, "" when unknown.
        packed: of pictures in tar or parquet files: `note_packed`, with the array picture_positions.
        metrics: the dictionary of `retrieval_metrics`.
        fingerprint: of the save the embeddings come from.
        kind: what made the embeddings: "coder", or an importer's name.
        source: the data set, as a person wants to read it.
        documents: name → JSON value; becomes `<name>.json`.
        beta: share of `image_embeddings` and `text_embeddings` in the ranked score; the rest is that of the concept
            branch. None without one.
        arrays: those of `tables.TABLES`, with embeddings or with scores. Others are written as they are.

    Raises:
        ValueError: shapes that do not fit together, or an impossible name.
        InputError: the run holds a link, a pipe or a device.
        WriteError: disk full or read-only; an earlier analysis is untouched.
    """
    folder = tables.split_folder(run_folder, split)
    check_plain(Path(run_folder))
    arrays = {
        name: np.asarray(array, tables.TABLES[name].dtype if name in tables.TABLES else None)
        for name, array in arrays.items()
    }
    texts = {
        "captions": list(captions),
        "images": {
            "names": list(image_names),
            "folder": str(picture_folder),
            **({} if packed is None else {"packed": packed}),
        },
        **(documents or {}),
    }
    for name in (*arrays, *texts):
        if not tables.PART_NAME.fullmatch(name):
            raise ValueError(f"a table is named with lower-case letters, digits and '_', got {name!r}")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} has dtype {array.dtype}; only numbers are written")
    if tables.SCORES in arrays and any(name in arrays for name in tables.EMBEDDINGS):
        raise ValueError("either scores are written, or image_embeddings and text_embeddings")
    version = (
        tables.VERSION_SCORED
        if tables.SCORES in arrays
        else tables.VERSION
        if beta is None
        else tables.VERSION_MIXED
    )
    tables.check_tables(
        arrays, tables.required_tables(version), str(folder), {"n": len(image_names), "m": len(captions)}
    )
    about = {
        "version": version,
        "kind": kind,
        "split": split,
        "fingerprint": fingerprint,
        "source": source,
        "metrics": {name: _plain(value) for name, value in metrics.items()},
        "documents": sorted(texts),
        **({} if beta is None else {"beta": float(beta)}),
    }
    files: dict[str, sealed.Content] = {f"{name}.npy": array for name, array in arrays.items()}
    files |= {f"{name}.json": json.dumps(document, ensure_ascii=False) for name, document in texts.items()}
    return sealed.write_sealed(folder, files, about=about, replace=True)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
