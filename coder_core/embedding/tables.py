"""Embeddings, captions and picture names in one Parquet table, one row a caption."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.captioned.positions import open_parquet
from coder_core.data.captioned.tables import Table
from coder_core.data.embeddings import Embeddings, check_names, one_row_an_image, unit_array
from coder_core.data.lines import shorten, shown
from coder_core.files.matrices import vectors_of

SIGNS = {
    "text": ("text", "caption", "txt", "sentence"),
    "image": ("image", "img", "picture", "vision", "visual"),
}


def read_table(
    file: Path,
    *,
    image_embeddings: str = "",
    text_embeddings: str = "",
    image_column: str = "",
    caption_column: str = "",
    pictures: Path | None = None,
) -> Embeddings:
    """Read the columns that are named, or guessed from their titles and types; a note says which. Rows with one picture
    are captions of one image; without a column of pictures every row is an image.

    Args:
        file: Parquet.
        image_embeddings, text_embeddings: columns of lists of floats.
        image_column, caption_column: columns of texts.
        pictures: folder in which the pictures are files; where their paths are absolute, the folder they share.

    Raises:
        InputError: damage, a column that is missing, vectors that do not fit or have no direction, an empty caption.
    """
    faults: list[Fault] = []
    content = open_parquet(file, faults)
    schema = content.schema_arrow
    lists = [field.name for field in schema if pa.types.is_list(field.type) or "list" in str(field.type)]
    vectors = {
        side: _vector_column(file, side, name, lists)
        for side, name in (("image", image_embeddings), ("text", text_embeddings))
    }
    texts = [
        field.name
        for field in schema
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
    ]
    first = content.read_row_group(0, columns=texts).slice(0, 1).to_pylist() if content.num_row_groups else []
    image, caption = _text_columns(
        file, Table(texts, first[0] if first else {}), image_column, caption_column
    )
    rows = content.read([*vectors.values(), *filter(None, (image, caption))])
    captions = [" ".join(str(text or "").split()) for text in rows.column(caption).to_pylist()]
    if empty := [row for row, text in enumerate(captions) if not text]:
        raise InputError.at(f"{file} row {empty[0]}", f"has no {caption}", "a caption", "leave such rows out")
    v, w = (_units(file, rows, name, faults) for name in vectors.values())
    if v.shape[1] != w.shape[1]:
        widths = f"{vectors['image']} has {v.shape[1]} numbers, {vectors['text']} {w.shape[1]}"
        raise InputError.at(
            file, widths, "the same width in both", "use the projected embeddings of both encoders"
        )
    names = [str(name) for name in rows.column(image).to_pylist()] if image else None
    number: dict[str, int] = {}
    owners = np.arange(len(captions))
    if names is not None:
        owners = np.array([number.setdefault(name, len(number)) for name in names])
        names = list(number)
        v = one_row_an_image(v, owners, names, file, faults)
        if pictures is None and all(os.path.isabs(name) and os.path.isfile(name) for name in names):
            pictures = Path(os.path.commonpath([os.path.dirname(name) for name in names]))
        if pictures is not None:
            names = [os.path.relpath(name, pictures) if os.path.isabs(name) else name for name in names]
    columns = {
        "images": vectors["image"],
        "texts": vectors["text"],
        "captions": caption,
        "pictures": image or "none",
    }
    text = ", ".join(f"{what}: {column}" for what, column in columns.items())
    faults.append(Fault(str(file), f"columns read: {text}", severity="note"))
    remarks = stop_on_errors(faults + check_names(pictures, names))
    return Embeddings(
        v,
        w,
        shorten(captions, str(file), remarks),
        owners,
        names,
        pictures,
        {"table": str(file), **columns},
        remarks,
    )


def _vector_column(file: Path, side: str, name: str, lists: list[str]) -> str:
    """The named column of vectors, or the only one whose title speaks of this side."""
    likely = [title for title in lists if any(sign in title.lower() for sign in SIGNS[side])]
    chosen = [name] if name else likely
    if len(chosen) == 1 and chosen[0] in lists:
        return chosen[0]
    problem = (
        f"has no column {name!r} of vectors" if name else f"has {len(likely)} columns of {side} embeddings"
    )
    expected = f"--{side}-embeddings, one of {', '.join(map(shown, lists[:12])) or 'none: no column holds lists of floats'}"
    raise InputError.at(file, problem, expected)


def _text_columns(file: Path, table: Table, image: str, caption: str) -> tuple[str, str]:
    """The columns of pictures ("" for none) and of captions."""
    found = table.columns(image, caption)
    if found is not None:
        return found[0], found[1][0]
    titles = ", ".join(map(shown, table.titles[:12])) or "none"
    if image or caption not in ("", *table.titles):
        raise InputError.at(
            file, "lacks a named column", f"one of {titles}", "check --image-column and --caption-column"
        )
    captions = (
        [caption]
        if caption
        else [title for title in table.titles if any(s in title.lower() for s in SIGNS["text"])]
    )
    if not captions:
        raise InputError.at(file, f"has no column of captions, but {titles}", "--caption-column")
    return "", captions[0]


def _units(file: Path, rows: pa.Table, name: str, faults: list[Fault]) -> np.ndarray:
    try:
        vectors = vectors_of(rows.column(name))
    except ValueError as error:
        raise InputError.at(
            f"{file} {name}", str(error), "a list of floats in every row, all of one length"
        ) from None
    return unit_array(vectors, f"{file} {name}", "rows", faults)
