"""Vectors as an index that faiss opens, and the names of its rows."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress
from coder_core.embedding.exports.vectors import Vectors
from coder_core.files.atomic import replace_file, replacing

ROWS = 65_536  # added at a time


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
