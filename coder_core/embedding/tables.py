"""Read embeddings, captions and picture names from one Parquet table, one row per caption."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.data.captioned.positions import open_parquet, plain_columns
from coder_core.data.captioned.records import caption_columns, unread_columns
from coder_core.data.captioned.tables import SAMPLE_ROWS, Table
from coder_core.data.column_values import RawColumns
from coder_core.data.embeddings import Embeddings, check_names, join_repeated, picture_names, same_rows
from coder_core.data.lines import check_texts, shorten, shown
from coder_core.data.unit_rows import unit_array
from coder_core.files.matrices import PIECE_BYTES, column_blocks, join_blocks, list_columns

SIGNS = {
    "image": ("image", "img", "picture", "vision", "visual"),
    "text": ("text", "caption", "txt", "sentence"),
}


@dataclass(frozen=True)
class EmbeddingColumns:
    """Titles of a table's columns; "" for one that is guessed."""

    image_embeddings: str = ""  # lists of floats
    text_embeddings: str = ""  # lists of floats
    image_column: str = ""  # names of the picture files
    caption_column: str = ""  # captions


GUESSED = EmbeddingColumns()


def read_table(file: Path, named: EmbeddingColumns = GUESSED, *, pictures: Path | None = None) -> Embeddings:
    """Read a table by columns, named or else guessed from their titles and types; a note lists them. Rows with the same
    picture are captions of one image; without a column of pictures, every row is an image, unless it equals the one
    before. InputError: damage, a missing column, vectors that are zero or differ in width, or an empty caption.

    file: Parquet. pictures: folder of the picture files; by default, if all paths are absolute, their common folder.
    """
    faults: list[Fault] = []
    content = open_parquet(file, faults, buffer_size=PIECE_BYTES)
    columns = _columns(file, content, named)
    rows = content.read([columns[side] for side in ("captions", "pictures") if columns[side]])
    captions = [" ".join(str(text or "").split()) for text in rows.column(columns["captions"]).to_pylist()]
    if "" in captions:
        row = captions.index("")
        raise InputError.at(f"{file} row {row}", f"has no {columns['captions']}", "a caption", "leave it out")

    v = _units(file, content, columns["images"], faults)
    w = _units(file, content, columns["texts"], faults)
    if v.shape[1] != w.shape[1]:
        widths = f"vectors of {v.shape[1]} and {w.shape[1]} numbers"
        fix = "use the projected embeddings"
        raise InputError.at(file, widths, "the same width in both", fix)

    column = rows.column(columns["pictures"]).to_pylist() if columns["pictures"] else None
    names = None if column is None else [str(name) for name in column]
    v, owners, names = join_repeated(v, np.arange(len(captions)), names, str(file), faults)
    raw_columns = _other_columns(file, content, columns.values(), faults)
    others, notes = raw_columns.typed(owners, len(v), str(file))
    faults += notes
    if names is not None:
        names, pictures = picture_names(names, pictures, faults)

    text = ", ".join(f"{what}: {column or 'none'}" for what, column in columns.items())
    faults.append(Fault(str(file), f"columns read: {text}", severity="note"))
    remarks = stop_on_errors(faults + check_names(pictures, names))
    captions = shorten(captions, str(file), remarks)
    stop_on_errors(check_texts(str(file), [*(names or []), *captions]))
    remarks += same_rows(w, captions, str(file))
    source = {"table": str(file), **columns}
    return Embeddings(v, w, captions, owners, names, pictures, source, remarks, columns=others)


def _other_columns(
    file: Path, content: pq.ParquetFile, used: Collection[str], faults: list[Fault]
) -> RawColumns:
    """Read the columns besides those `used`; a note names those that cannot be kept."""
    plain, unread = plain_columns(content)
    faults += unread_columns({title: why for title, why in unread.items() if title not in used}, file)
    raw = RawColumns()
    for title in plain:
        if title not in used:
            raw.add_column(title, content.read([title]).column(title).to_pylist())
    return raw


def _columns(file: Path, content: pq.ParquetFile, named: EmbeddingColumns) -> dict[str, str]:
    """Find the columns of images, texts, captions and pictures; "" for no pictures."""
    schema = content.schema_arrow
    lists = list_columns(schema)
    texts = [field.name for field in schema if str(field.type) in ("string", "large_string")]
    of_images = _vector_column(file, "image", named.image_embeddings, lists)
    of_texts = _vector_column(file, "text", named.text_embeddings, lists)
    sample = (
        content.read_row_group(0, columns=texts).slice(0, SAMPLE_ROWS) if content.num_row_groups else None
    )
    table = Table(file, texts, sample.to_pylist() if sample else [])
    pictures, captions = _text_columns(file, table, named.image_column, named.caption_column)
    return {"images": of_images, "texts": of_texts, "captions": captions, "pictures": pictures}


def _vector_column(file: Path, side: str, name: str, lists: list[str]) -> str:
    """Return the named column of vectors, or the only one whose title indicates this side."""
    likely = [title for title in lists if any(sign in title.lower() for sign in SIGNS[side])]
    chosen = [name] if name else likely
    if len(chosen) == 1 and chosen[0] in lists:
        return chosen[0]
    what = f"no column {name!r} of vectors" if name else f"{len(likely)} columns of {side} embeddings"
    expected = f"--{side}-embeddings with one of {', '.join(map(shown, lists[:12])) or 'none: no column has lists of floats'}"
    raise InputError.at(file, f"has {what}", expected)


def _text_columns(file: Path, table: Table, image: str, caption: str) -> tuple[str, str]:
    """Find the columns of pictures ("" for none) and of captions."""
    found = table.columns(image, caption)
    if found is not None:
        return found.image, found.captions[0]
    if image or caption not in ("", *table.titles):
        titles = ", ".join(map(shown, table.titles[:12])) or "none"
        fix = "check --image-column and --caption-column"
        raise InputError.at(file, "lacks a column that was named", f"one of {titles}", fix)
    return "", caption or caption_columns(table.titles, file)[0]


def _units(file: Path, content: pq.ParquetFile, name: str, faults: list[Fault]) -> np.ndarray:
    try:
        vectors = join_blocks(column_blocks(content, name))
    except (ValueError, pa.ArrowException) as error:
        expected = "a list of floats in every row, all of one length"
        raise InputError.at(f"{file} {name}", str(error), expected) from None
    return unit_array(vectors, f"{file} {name}", "rows", faults, in_place=True)
