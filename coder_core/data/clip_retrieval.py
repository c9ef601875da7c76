"""Output of clip-retrieval: img_emb/img_emb_0.npy, text_emb/text_emb_0.npy, metadata/metadata_0.parquet."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from coder_core.console.faults import Fault, InputError, collect, stop_on_errors
from coder_core.data.captioned.positions import open_parquet
from coder_core.data.embeddings import Embeddings, check_picture_names, check_widths, open_matrix, unit_rows
from coder_core.data.features import FeatureFile
from coder_core.data.lines import shorten, shown

PARTS = ("img_emb", "text_emb", "metadata")
COLUMNS = ("image_path", "caption")
SAME = 0.999  # cosine of two rows of one picture
MOST_ROWS_NAMED = 20
LAYOUT = "img_emb/img_emb_0.npy, text_emb/text_emb_0.npy and metadata/metadata_0.parquet"


def read_clip_retrieval(folder: str | Path, *, pictures: str | Path | None = None) -> Embeddings:
    """Read a folder of clip-retrieval's `inference`; rows with one image_path are one image with several captions.

    Args:
        folder: with img_emb, text_emb and metadata.
        pictures: folder in which the image paths are files; where they are absolute, the folder they share.

    Raises:
        InputError: parts are missing or do not fit one another; up to 20 faults with file, rows and how to fix it.
    """
    faults: list[Fault] = []
    folder = Path(folder)
    numbers = _part_numbers(folder)
    names: list[str] = []
    captions: list[str] = []
    images, texts = [], []
    for number in numbers:
        files = [folder / part / f"{part}_{number}" for part in PARTS]
        image = collect(lambda: open_matrix(files[0].with_suffix(".npy"), faults), faults)  # noqa: B023
        text = collect(lambda: open_matrix(files[1].with_suffix(".npy"), faults), faults)  # noqa: B023
        table = collect(lambda: open_parquet(files[2].with_suffix(".parquet"), faults), faults)  # noqa: B023
        if image is None or text is None or table is None:
            continue
        faults += check_widths(image, text)
        faults += _same_count(image, text, table.metadata.num_rows, files[2].with_suffix(".parquet"))
        _read_table(table, files[2].with_suffix(".parquet"), names, captions, faults)
        images.append(image)
        texts.append(text)
    stop_on_errors(faults)
    rows = [collect(lambda: unit_rows(file, "images", 1, faults), faults) for file in images]  # noqa: B023
    words = [collect(lambda: unit_rows(file, "captions", 1, faults), faults) for file in texts]  # noqa: B023
    stop_on_errors(faults)
    v = np.concatenate([part for part in rows if part is not None])
    w = np.concatenate([part for part in words if part is not None])
    first: dict[str, int] = {}
    owners = np.array([first.setdefault(name, len(first)) for name in names], dtype=np.int64)
    v, image_names = _one_row_an_image(v, owners, list(first), str(folder), faults), list(first)
    if all(os.path.isabs(name) for name in image_names):
        shared = Path(os.path.commonpath([os.path.dirname(name) for name in image_names]))
        image_names = [os.path.relpath(name, shared) for name in image_names]
        pictures = pictures if pictures is not None or not shared.is_dir() else shared
    picture_folder = Path(pictures) if pictures is not None else None
    faults += check_picture_names(picture_folder, image_names)
    remarks = stop_on_errors(faults)
    source = {
        "captions": str(folder),
        "layout": "clip-retrieval",
        "captions belong to images": "equal image_path",
    }
    captions = shorten(captions, str(folder), remarks)
    return Embeddings(v, w, captions, owners, image_names, picture_folder, source, remarks)


def _part_numbers(folder: Path) -> list[int]:
    """The numbers of the parts that all three folders have.

    Raises:
        InputError: there are none, or one folder lacks some.
    """
    arrays = {}
    for part in PARTS:
        names = [path.name for path in (folder / part).glob(f"{part}_*")] if (folder / part).is_dir() else []
        matches = [re.fullmatch(rf"{part}_(\d+)\.(?:npy|parquet)", name) for name in names]
        arrays[part] = {int(match[1]) for match in matches if match}
    whole = set.union(*arrays.values())
    if not whole:
        raise InputError.at(folder, "holds no embeddings of clip-retrieval", LAYOUT, "check the path")
    lacking = [f"{part}_{n}" for part, numbers in arrays.items() for n in sorted(whole - numbers)]
    if lacking:
        raise InputError.at(folder, f"lacks {', '.join(lacking[:10])}", LAYOUT, "copy these files too")
    return sorted(whole)


def _same_count(images: FeatureFile, texts: FeatureFile, rows: int, file: Path) -> list[Fault]:
    if images.shape[0] == texts.shape[0] == rows:
        return []
    problem = f"{rows:,} rows for {images.shape[0]:,} images and {texts.shape[0]:,} captions"
    return [Fault(str(file), problem, "one row of each a sample", "run clip-retrieval on this part again")]


def _read_table(
    table: pq.ParquetFile, file: Path, names: list[str], captions: list[str], faults: list[Fault]
) -> None:
    missing = [column for column in COLUMNS if column not in table.schema_arrow.names]
    if missing:
        columns = ", ".join(map(shown, table.schema_arrow.names[:12]))
        expected = "clip-retrieval inference with images and texts"
        faults.append(Fault(str(file), f"has no column {' and '.join(missing)}, but {columns}", expected))
        return
    row = 0
    for batch in table.iter_batches(4096, columns=list(COLUMNS), use_threads=False):
        for name, caption in zip(*(batch.column(column).to_pylist() for column in COLUMNS), strict=True):
            good = isinstance(name, str) and name and isinstance(caption, str) and caption.strip()
            if not good and len(faults) < MOST_ROWS_NAMED:
                problem = f"image_path {shown(str(name))}, caption {shown(str(caption))}"
                faults.append(
                    Fault(f"{file} row {row}", problem, "both", "leave samples without a caption out")
                )
            names.append(str(name))
            captions.append(" ".join(str(caption).split("\n")).strip())
            row += 1


def _one_row_an_image(
    rows: np.ndarray, owners: np.ndarray, names: list[str], place: str, faults: list[Fault]
) -> np.ndarray:
    """The first row of every image; another row of it must be nearly the same."""
    firsts = np.unique(owners, return_index=True)[1]
    images = rows[firsts]
    cosines = np.einsum("nd,nd->n", rows, images[owners])
    other = np.flatnonzero(cosines < SAME)
    if len(other):
        name = shown(names[owners[other[0]]])
        problem = f"{len(other):,} rows differ from an earlier one of their image_path; the first: {other[0]}, {name}"
        faults.append(Fault(place, problem, "one picture a path", "give different pictures different paths"))
    return images
