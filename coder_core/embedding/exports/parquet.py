"""Vectors as Parquet tables with ids, captions and file names, as LanceDB, Qdrant, DuckDB and pandas read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coder_core.console.progress import Progress
from coder_core.embedding.exports.vectors import Vectors
from coder_core.files.atomic import appearing

ROWS = 8_192  # of a row group


def write_parquet(vectors: Vectors, folder: Path, progress: Progress) -> None:
    """Write images.parquet and captions.parquet.

        images     id int64, name string, file string, split string, embedding fixed_size_list<float>[D]
        captions   id int64, image_id int64, caption string, name string, file string, split string, embedding

    `file` is the path of the picture, "" when it is not known.

    Args:
        vectors: of the split.
        folder: made; appears when both tables are complete.
        progress: called with rows done and rows in all.

    Raises:
        InputError: the folder exists, or the disk has no room.
    """
    folder_of_pictures = Path(vectors.picture_folder)
    files = [str(folder_of_pictures / name) if vectors.picture_folder else "" for name in vectors.image_names]
    owner, total = vectors.image_of_text, len(vectors.images) + len(vectors.texts)
    own_names = np.array(vectors.image_names, dtype=object)
    own_files = np.array(files, dtype=object)
    images = {"id": np.arange(len(files)), "name": own_names, "file": own_files}
    captions = {
        "id": np.arange(len(owner)),
        "image_id": owner,
        "caption": np.array(vectors.captions, dtype=object),
        "name": own_names[owner],
        "file": own_files[owner],
    }
    needed = vectors.images.nbytes + vectors.texts.nbytes
    with appearing(folder, needed=needed) as place:
        _write(place / "images.parquet", images, vectors.images, vectors, lambda done: progress(done, total))
        before = len(vectors.images)
        _write(
            place / "captions.parquet",
            captions,
            vectors.texts,
            vectors,
            lambda done: progress(before + done, total),
        )


def _write(
    file: Path,
    columns: dict[str, Any],
    embeddings: np.ndarray,
    vectors: Vectors,
    progress: Callable[[int], None],
) -> None:
    width = embeddings.shape[1]
    kinds = {name: pa.int64() if values.dtype != object else pa.string() for name, values in columns.items()}
    schema = pa.schema(
        [*kinds.items(), ("split", pa.string()), ("embedding", pa.list_(pa.float32(), width))],
        metadata={"run": vectors.run, "split": vectors.split, "model": vectors.fingerprint},
    )
    with pq.ParquetWriter(file, schema) as writer:
        for start in range(0, len(embeddings), ROWS):
            part = slice(start, start + ROWS)
            rows = np.ascontiguousarray(embeddings[part], dtype=np.float32)
            arrays: Sequence[Any] = [
                *(pa.array(values[part], kinds[name]) for name, values in columns.items()),
                pa.array([vectors.split] * len(rows), pa.string()),
                pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), width),
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
            progress(start + len(rows))
