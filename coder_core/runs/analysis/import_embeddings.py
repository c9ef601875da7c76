"""Embeddings of another model -> a run folder that the app opens: an analysis, and nothing that needs a model."""

from __future__ import annotations

import hashlib
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from coder_core.config.schema import RUN_NAME
from coder_core.console.faults import Fault, InputError
from coder_core.data.embeddings import Embeddings
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import Metrics, all_metrics
from coder_core.evaluation.sources import EmbeddingPair
from coder_core.evaluation.tiles import score_tiles
from coder_core.runs.analysis.evaluate import BEST_LISTED
from coder_core.runs.analysis.write import DOCUMENT_IMPORTED, KIND_IMPORTED, list_splits, split_folder, write_analysis
from coder_core.runs.files import sealed


def place_of(root: str | Path, name: str, split: str, *, overwrite: bool = False) -> Path:
    """The folder an imported run has or will get.

    Args:
        root: folder of the runs. name: of the run. split: the name the analysis goes by.
        overwrite: take the place of a split that was imported before.

    Raises:
        InputError: an impossible name of run or split, a run of that name that was not imported, or a split that it
            has already.
    """
    if not RUN_NAME.fullmatch(name):
        expected = "letters, digits, '.', '_' and '-', a letter or digit first"
        raise InputError(Fault("--name", f"is {name!r}", expected, "it becomes the name of a folder"))
    folder = Path(root) / name
    place = split_folder(folder, split)
    if not folder.exists() and not folder.is_symlink():
        return folder
    if folder.is_symlink() or not _imported(folder):
        raise InputError(_taken(folder))
    if place.exists() and not overwrite:
        fix = "name another --split, or add --overwrite to take its place"
        raise InputError(Fault(str(place), "exists already", "a new split", fix))
    return folder


def import_run(
    found: Embeddings, root: str | Path, name: str, split: str, *, overwrite: bool = False
) -> tuple[Path, Metrics]:
    """Rank the embeddings both ways and write them as a split of the run `root/name`, in one step.

    Args:
        found: checked embeddings.
        root: folder of the runs; made when missing.
        name: of a new run, or of an imported one that gets another split; its other splits are not touched.
        split: the name the analysis goes by.
        overwrite: replace a split of that name.

    Raises:
        InputError: as `place_of`; another number of numbers a sample than the run's other splits; disk full or
            read-only (nothing is left behind then).
    """
    folder = place_of(root, name, split, overwrite=overwrite)
    more = folder.exists()
    if more:
        _refuse_another_model(folder, split, found)
    scores = score_tiles([EmbeddingPair(found.images, found.texts)], found.image_of_text)
    ranks = rank(scores, best=BEST_LISTED)
    metrics = all_metrics(scores, ranks)
    with nullcontext(folder) if more else sealed.appearing(folder) as target:
        write_analysis(
            target, split, image_embeddings=found.images, text_embeddings=found.texts,
            image_of_text=found.image_of_text, captions=found.captions,
            image_names=found.image_names or [f"image {i}" for i in range(len(found.images))],
            picture_folder=found.picture_folder.resolve() if found.picture_folder else "", metrics=metrics,
            fingerprint=_fingerprint(found), image_ranks=ranks.image_ranks, text_ranks=ranks.text_ranks,
            image_best=ranks.image_best, text_best=ranks.text_best, kind=KIND_IMPORTED,
            source=", ".join(f"{key}: {value}" for key, value in found.source.items()),
            extra_documents={DOCUMENT_IMPORTED: _about(found)},
        )  # fmt: skip
    return folder, metrics


def _imported(folder: Path) -> bool:
    """Whether a folder holds imported embeddings and nothing else that belongs to a run."""
    if (folder / "config.toml").exists():
        return False
    splits = list_splits(folder)
    kinds = {sealed.read_manifest(split_folder(folder, split)).get("kind") for split in splits}
    return kinds == {KIND_IMPORTED}


def _refuse_another_model(folder: Path, split: str, found: Embeddings) -> None:
    width = found.images.shape[1]
    for other in list_splits(folder):
        theirs = sealed.read_manifest(split_folder(folder, other))["arrays"]["image_embeddings"]["shape"][1]
        if other != split and theirs != width:
            fix = "these are another model's: choose another --name"
            raise InputError(Fault(f"split {other} of {folder}", f"has {theirs} numbers a sample", f"{width}", fix))


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
