"""Export an analysed split's vectors, whose inner products are the run's scores, as Parquet tables or a faiss index."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coder_core.console.output import Progress
from coder_core.data.columns import NO_COLUMNS, Column, SampleColumns
from coder_core.evaluation.sources import mixed_embeddings
from coder_core.files.atomic import appearing, writing
from coder_core.runs.analysis.columns import arrow_column
from coder_core.runs.analysis.joined import joined_columns
from coder_core.runs.analysis.read import Analysis, open_analysis

ROWS = 8_192  # in a row group of Parquet, and added to an index at a time


class Vectors(NamedTuple):
    """Vectors of one split of one run, (n, D) and (m, D) float32 unit rows, and the analysis they come from."""

    run: str
    split: str
    images: np.ndarray
    texts: np.ndarray
    analysis: Analysis
    columns: SampleColumns = NO_COLUMNS


def read_vectors(run: Path, split: str) -> Vectors:
    """Read the vectors of a split: its embeddings or, for a run with a concept branch, both branches in one vector.
    InputError: the split has no intact analysis, or its model scores pair by pair and has no such vectors."""
    analysis = open_analysis(run, split)
    images = analysis.image_embeddings
    texts = analysis.text_embeddings
    concepts = analysis.concepts
    if concepts is not None:
        images = mixed_embeddings(images, concepts.image_embeddings, concepts.beta)
        texts = mixed_embeddings(texts, concepts.text_embeddings, concepts.beta)
    columns = analysis.columns.joined(joined_columns(run, analysis))
    return Vectors(run.resolve().name, split, images, texts, analysis, columns)


def write_parquet(vectors: Vectors, folder: Path, progress: Progress) -> None:
    """Write images.parquet and captions.parquet.

        images     id int64, name string, file string, split string, embedding fixed_size_list<float>[D]
        captions   id int64, image_id int64, caption string, name string, file string, split string, embedding

    `file` is the path of the picture, "" if unknown. The user's columns follow: those of images in both, those of
    captions in the second; their titles begin with "column " where they repeat one above. The folder appears when both
    tables are complete.
    InputError: the folder exists, or the disk has no room.
    """
    analysis = vectors.analysis
    pictures = analysis.picture_folder
    names = np.array(analysis.image_names, dtype=object)
    files = np.array([str(Path(pictures) / name) if pictures else "" for name in names], dtype=object)
    owner = np.asarray(analysis.image_of_text, dtype=np.int64)
    n = len(vectors.images)
    m = len(vectors.texts)
    images = {"id": np.arange(n), "name": names, "file": files}
    captions = {"id": np.arange(m), "image_id": owner, "caption": np.array(analysis.captions, dtype=object)}
    captions |= {"name": names[owner], "file": files[owner]}
    with appearing(folder, needed=vectors.images.nbytes + vectors.texts.nbytes) as unfinished:
        of_images = dict(vectors.columns.images)
        _write(unfinished / "images.parquet", images, of_images, vectors)
        progress(n, n + m)
        of_captions = vectors.columns.of_captions(owner)
        _write(unfinished / "captions.parquet", captions, of_captions, vectors)
        progress(n + m, n + m)


def _write(file: Path, columns: dict[str, np.ndarray], own: Mapping[str, Column], vectors: Vectors) -> None:
    embeddings = vectors.texts if "image_id" in columns else vectors.images
    rows = np.ascontiguousarray(embeddings, dtype=np.float32)
    arrays: dict[str, Any] = columns | {"split": np.full(len(rows), vectors.split, dtype=object)}
    arrays["embedding"] = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    arrays |= {f"column {title}" if title in arrays else title: arrow_column(own[title]) for title in own}
    facts = {"run": vectors.run, "split": vectors.split, "model": vectors.analysis.fingerprint}
    pq.write_table(pa.table(arrays).replace_schema_metadata(facts), file, row_group_size=ROWS)


def names_file(index: Path) -> Path:
    """Return the file with the names of an index's rows: images.faiss.json beside images.faiss."""
    return index.with_name(f"{index.name}.json")


def write_faiss(vectors: Vectors, side: str, file: Path, progress: Progress) -> None:
    """Write an exact inner-product index and its `names_file`. Row i is image or caption i of the split.
    InputError: the disk has no room for it. `side`: "images" or "captions"."""
    import faiss

    rows = vectors.images if side == "images" else vectors.texts
    index = faiss.IndexFlatIP(rows.shape[1])
    for start in range(0, len(rows), ROWS):
        index.add(np.ascontiguousarray(rows[start : start + ROWS]))
        progress(min(start + ROWS, len(rows)), len(rows))
    analysis = vectors.analysis
    document = {"run": vectors.run, "split": vectors.split, "model": analysis.fingerprint, "rows": side}
    names = analysis.image_names if side == "images" else analysis.captions
    text = json.dumps(document | {"names": names}, ensure_ascii=False, indent=1)
    with writing(file, names_file(file), needed=rows.nbytes) as (index_file, text_file):
        faiss.write_index(index, str(index_file))
        text_file.write_text(text, "utf-8")
