"""Export the vectors of an analysed split whose inner products are the run's scores: Parquet tables, or an index of faiss."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.files.atomic import appearing, replace_file, replacing
from coder_core.runs.analysis.read import open_analysis

ROWS = 8_192  # of a row group of Parquet; added to an index at a time


@dataclass(frozen=True)
class Vectors:
    """One split of one run.

    Args:
        run, split: their names.
        fingerprint: of the save the embeddings come from.
        images, texts: (n, D), (m, D) float32 unit rows.
        image_of_text: (m,) the image each caption belongs to.
        image_names: n relative picture paths, or ids.
        captions: m texts.
        picture_folder: where the pictures lie; "" when unknown.
    """

    run: str
    split: str
    fingerprint: str
    images: np.ndarray
    texts: np.ndarray
    image_of_text: np.ndarray
    image_names: list[str]
    captions: list[str]
    picture_folder: str


def read_vectors(run: Path, split: str) -> Vectors:
    """The vectors of a split: its embeddings, or, of a run with a concept branch, both branches in one vector.

    Raises:
        InputError: the split has no intact analysis, or a model that scores pair by pair, which has no such vectors.
    """
    analysis = open_analysis(run, split)
    images, texts, concepts = analysis.image_embeddings, analysis.text_embeddings, analysis.concepts
    if concepts is not None:
        images = mixed_embeddings(images, concepts.image_embeddings, concepts.beta)
        texts = mixed_embeddings(texts, concepts.text_embeddings, concepts.beta)
    return Vectors(
        run.resolve().name,
        split,
        analysis.fingerprint,
        images,
        texts,
        analysis.image_of_text,
        analysis.image_names,
        analysis.captions,
        analysis.picture_folder,
    )


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


def names_file(index: Path) -> Path:
    """File with the names of an index's rows: images.faiss.json beside images.faiss."""
    return index.with_name(f"{index.name}.json")


def write_faiss(vectors: Vectors, side: str, file: Path, progress: Progress) -> None:
    """Write an exact index by inner product. Row i is image or caption i of the split.

    Args:
        vectors: of the split.
        side: "images" or "captions".
        file: of the index; `names_file(file)` gets what its rows are.
        progress: called with rows done and rows in all.

    Raises:
        InputError: the disk has no room for it.
    """
    import faiss

    rows = vectors.images if side == "images" else vectors.texts
    free = shutil.disk_usage(file.parent).free
    if rows.nbytes > free:
        problem = f"{rows.nbytes:,} bytes are needed and {free:,} are free"
        raise InputError(Fault(str(file), problem, fix="make room or choose another folder"))
    index = faiss.IndexFlatIP(rows.shape[1])
    for start in range(0, len(rows), ROWS):
        index.add(np.ascontiguousarray(rows[start : start + ROWS]))
        progress(min(start + ROWS, len(rows)), len(rows))
    about = {
        "run": vectors.run,
        "split": vectors.split,
        "model": vectors.fingerprint,
        "rows": side,
        "names": vectors.image_names if side == "images" else vectors.captions,
    }
    with replacing(file) as temporary:
        faiss.write_index(index, str(temporary))
        temporary.chmod(file.parent.stat().st_mode & 0o666)
        replace_file(names_file(file), json.dumps(about, ensure_ascii=False, indent=1))
