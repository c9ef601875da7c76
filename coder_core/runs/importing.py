"""Embeddings of another model -> a run folder that the app opens: an analysis, and nothing that needs a model."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

import numpy as np

from coder_core.config import RUN_NAME
from coder_core.data.embeddings import Embeddings
from coder_core.evaluation.ranking import scored_ranks
from coder_core.evaluation.recall import Metrics, all_metrics
from coder_core.evaluation.sources import Source, check_sources
from coder_core.faults import Fault, InputError
from coder_core.runs import sealed, swap
from coder_core.runs.analysis import DOCUMENT_IMPORTED, KIND_IMPORTED, split_folder, write_analysis
from coder_core.runs.evaluating import BEST_LISTED


def place_of(root: str | Path, name: str, split: str) -> Path:
    """The folder an imported run will get.

    Raises:
        InputError: an impossible name of run or split, or a run of that name already there.
    """
    if not RUN_NAME.fullmatch(name):
        expected = "letters, digits, '.', '_' and '-', a letter or digit first"
        raise InputError(Fault("--name", f"is {name!r}", expected, "it becomes the name of a folder"))
    folder = Path(root) / name
    split_folder(folder, split)
    if folder.exists() or folder.is_symlink():
        raise InputError(_taken(folder))
    return folder


def import_run(found: Embeddings, root: str | Path, name: str, split: str) -> tuple[Path, Metrics]:
    """Rank the embeddings both ways and write them as the run `root/name`, in one step.

    Args:
        found: checked embeddings.
        root: folder of the runs; made when missing.
        name: of the new run.
        split: the name the analysis goes by.

    Raises:
        InputError: as `place_of`; disk full or read-only (nothing is left behind then).
    """
    folder = place_of(root, name, split)
    scored = check_sources([Source(found.images, found.texts)], found.image_of_text)
    ranked = scored_ranks(scored, best=BEST_LISTED)
    metrics = all_metrics(scored, ranked)
    temporary = swap.temporary_beside(folder)
    try:
        write_analysis(
            temporary, split, image_embeddings=found.images, text_embeddings=found.texts,
            image_of_text=found.image_of_text, captions=found.captions,
            image_names=found.image_names or [f"image {i}" for i in range(len(found.images))],
            picture_folder=found.picture_folder.resolve() if found.picture_folder else "", metrics=metrics,
            fingerprint=_fingerprint(found), image_ranks=ranked.image_ranks, text_ranks=ranked.text_ranks,
            image_best=ranked.image_best, text_best=ranked.text_best, kind=KIND_IMPORTED,
            source=", ".join(f"{key}: {value}" for key, value in found.source.items()),
            extra_documents={DOCUMENT_IMPORTED: _about(found)},
        )  # fmt: skip
        swap.clean(folder.parent)
        _move(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder, metrics


def _move(temporary: Path, folder: Path) -> None:
    try:
        swap.move(temporary, folder, replace=False)
    except OSError as error:
        if folder.exists():  # somebody else was faster
            raise InputError(_taken(folder)) from error
        raise sealed.WriteError(Fault(str(folder), f"could not be written ({error.strerror})")) from error


def _about(found: Embeddings) -> dict[str, object]:
    return {
        "created": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "files": found.source,
        "images": len(found.images),
        "captions": len(found.texts),
        "dimension": int(found.images.shape[1]),
        "notes": [str(fault) for fault in found.faults],
    }


def _fingerprint(found: Embeddings) -> str:
    """12 hex digits that change with any number of the embeddings or of the pairing."""
    digest = hashlib.sha256()
    for array in (found.images, found.texts, found.image_of_text):
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:12]


def _taken(folder: Path) -> Fault:
    return Fault(str(folder), "exists already", "a new name", "choose another --name, or remove that folder")
