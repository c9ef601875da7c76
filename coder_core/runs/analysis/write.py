"""Write `analysis/<split>/`: embeddings or scores, ranks and per-sample tables of a run on a split."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.data.columns import NO_COLUMNS, SampleColumns
from coder_core.files import sealed
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.columns import column_files


def write_analysis(
    run_folder: Path,
    split: str,
    *,
    captions: Sequence[str],
    image_names: Sequence[str],
    picture_folder: str | Path = "",
    packed: Mapping[str, Any] | None = None,
    documents: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any],
    beta: float | None = None,
    fingerprint: str,
    kind: str = "coder",
    source: str = "",
    columns: SampleColumns = NO_COLUMNS,
    **arrays: np.ndarray,
) -> Path:
    """Write the analysis of one split; an earlier one is replaced atomically. ValueError: shapes that do not match, or
    an invalid name. InputError: the place of the analysis is a link. WriteError: disk full or read-only; an earlier
    analysis is untouched.

    Args:
        image_names: n picture paths relative to `picture_folder` ("" if unknown), or ids.
        packed: for pictures in tar or parquet files, the document of `note_packed`; needs the array picture_positions.
        documents: name → JSON value; becomes `<name>.json`.
        metrics: the dictionary of `retrieval_metrics`.
        beta: share of the embeddings in the ranked score; the rest is the concept branch's. None without one.
        fingerprint, kind, source: of the save behind the embeddings, "coder" or an importer's name, and the data set.
        columns: what the data says about images and captions besides.
        arrays: those of `tables.TABLES`, with embeddings, with scores or with lists. Others are written as they are.
    """
    folder = tables.split_folder(run_folder, split)
    images: dict[str, object] = {"names": list(image_names), "folder": str(picture_folder)}
    if packed:
        images["packed"] = packed

    texts = {"captions": list(captions), "images": images, **(documents or {})}
    kinds = {name: dtype for name, (_, dtype) in tables.TABLES.items()}
    arrays = {name: np.asarray(array, kinds.get(name)) for name, array in arrays.items()}

    version = _version(arrays, texts, beta)
    sizes = {"n": len(image_names), "m": len(captions)}
    tables.check_tables(arrays, tables.required_tables(version), str(folder), sizes)

    values = {name: np.asarray(value).item() for name, value in metrics.items()}
    manifest = {"version": version, "kind": kind, "split": split, "fingerprint": fingerprint}
    manifest |= {"source": source, "metrics": values}
    manifest |= {"documents": sorted(texts), **({} if beta is None else {"beta": float(beta)})}

    files: dict[str, sealed.Content] = {f"{name}.npy": array for name, array in arrays.items()}
    files |= {f"{name}.json": json.dumps(document, ensure_ascii=False) for name, document in texts.items()}
    files |= column_files(columns)
    return sealed.write_sealed(folder, files, about=manifest, replace=True)


def _version(arrays: Mapping[str, np.ndarray], texts: Mapping[str, Any], beta: float | None) -> int:
    """Check the names and types of all parts, and return the version of an analysis with these."""
    for name in (*arrays, *texts):
        if not tables.PART_NAME.fullmatch(name):
            raise ValueError(f"a table is named with lower-case letters, digits and '_', got {name!r}")
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{name} has dtype {array.dtype}; only numbers are written")
    others = {tables.VERSION_SCORED: tables.SCORES, tables.VERSION_LISTED: tables.LISTS[0]}
    given = [version for version, name in others.items() if name in arrays]
    if not given:
        return tables.VERSION if beta is None else tables.VERSION_MIXED
    if len(given) > 1 or any(name in arrays for name in tables.EMBEDDINGS):
        raise ValueError("either scores are written, or lists, or image_embeddings and text_embeddings")
    return given[0]
