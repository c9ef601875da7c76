"""Import embeddings of another model as a run folder that the app opens: analyses without a model."""

import hashlib
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.config.schema import name_faults
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import Progress, silent
from coder_core.console.plain_files import check_folder, subfolder
from coder_core.data.embeddings import ONCE_PER_IMAGE, Embeddings
from coder_core.evaluation.rank_metrics import Metrics
from coder_core.evaluation.relevance import relevance_of_judgements
from coder_core.evaluation.sampled import AS_USUAL, AUTO, RankOptions, choose_queries, queries_differ
from coder_core.evaluation.sources import EmbeddingPair, slices
from coder_core.files import atomic, sealed
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.columns import read_columns
from coder_core.runs.analysis.evaluate import describe_samples, ranked
from coder_core.runs.analysis.read import Analysis, open_analysis
from coder_core.runs.analysis.unfinished_ranks import UnfinishedRanks
from coder_core.runs.analysis.write import write_analysis

ROWS_AT_ONCE = 4_096  # compared at once
MANY_TIES = 20  # percent of captions whose right image ties with another
FEWEST_IMAGES = 20  # from which R@1 is compared with chance
Parts = tuple[Mapping[str, np.ndarray], Mapping[str, Any], Mapping[str, Any]]
"""Arrays, documents, and the arguments of `write_analysis` that describe the samples."""
SAMPLES = "samples"  # document with the arguments of `write_analysis` besides arrays, documents and metrics


def import_folder(root: str | Path, name: str, split: str, *, overwrite: bool = False) -> Path:
    """Return the folder that an imported run has or will get in `root`. InputError: an invalid name of run or split, a
    folder that cannot be written, a run of that name that was not imported, or a split that exists (no `overwrite`)."""
    stop_on_errors(name_faults(name))
    folder = Path(root) / name
    folder_of_split = tables.split_folder(folder, split)
    stop_on_errors(check_folder(str(folder_of_split), folder_of_split))
    if not folder.exists() and not folder.is_symlink():
        return folder
    if folder.is_symlink() or not is_imported(folder):
        fix = "choose another name, or remove that folder"
        raise InputError.at(folder, "already exists", "a new name", fix)
    if split in (known := _split_folders(folder)) and not overwrite:
        fix = "name another --split, or add --overwrite to replace it"
        raise InputError.at(known[split], "already exists", "a new split", fix)
    return folder


def import_run(
    embeddings: Embeddings,
    root: str | Path,
    name: str,
    split: str,
    *,
    overwrite: bool = False,
    towers: Mapping[str, Any] | None = None,
    options: RankOptions = AS_USUAL,
    progress: Progress = silent,
) -> tuple[Path, Metrics]:
    """Rank the embeddings both ways, of a large split a sample of the queries, and write them atomically as a split of
    a new run `root/name`, or of an imported run, whose other splits stay as they are.

    InputError: as for `import_folder`; the run's other splits have another width or other towers; the disk is full or
    read-only (nothing is left behind then).

    `towers`: description of those that made the embeddings, if they can be loaded again.
    """
    folder = import_folder(root, name, split, overwrite=overwrite)
    existing = folder.exists()
    if existing:
        check_same_model(folder, split, embeddings.images.shape[1], towers)

    arrays = {"image_embeddings": embeddings.images, "text_embeddings": embeddings.texts}
    documents: dict[str, object] = {tables.DOCUMENT_IMPORTED: _description(embeddings)}
    if towers:
        documents[tables.DOCUMENT_TOWERS] = dict(towers)
    if embeddings.queries is not None:
        documents[tables.DOCUMENT_QUERIES] = embeddings.query_texts
        arrays[tables.QUERIES] = embeddings.queries
    if embeddings.search_log is not None:
        arrays[tables.JUDGEMENTS] = embeddings.search_log.judgements
        documents[tables.DOCUMENT_SEARCH_LOG] = embeddings.search_log.document()

    samples = describe_samples(embeddings, len(embeddings.images))
    samples |= {"fingerprint": _fingerprint(embeddings), "picture_folder": str(samples["picture_folder"])}
    arrays |= {name: samples.pop(name) for name in list(samples) if isinstance(samples[name], np.ndarray)}
    with nullcontext(folder) if existing else atomic.appearing(folder) as target:
        parts = (arrays, documents, samples)
        metrics = _write_ranked(target, UnfinishedRanks(folder, split), parts, options, progress)

    return folder, metrics


def metric_warnings(embeddings: Embeddings, metrics: Metrics) -> list[Fault]:
    """Return warnings about metrics that suggest wrong files: equal images and texts, many ties, or R@1 no better than
    chance (in both directions, from 20 images)."""
    n = len(embeddings.images)
    m = len(embeddings.texts)
    faults = list[Fault]()
    if n == m and all(
        np.array_equal(embeddings.images[part], embeddings.texts[part]) for part in slices(n, ROWS_AT_ONCE)
    ):
        problem = "are the same numbers: every caption matches itself"
        fix = "check that neither was given twice"
        faults.append(Fault("images and texts", problem, "different numbers", fix, "warning"))

    if (ties := metrics.get("t2i_ties", 0)) >= MANY_TIES:
        problem = f"{ties:.0f}% of the captions score another image exactly as high as their own"
        faults.append(
            Fault("ties", problem, "different rows for different images", ONCE_PER_IMAGE, "warning")
        )
    elif n >= FEWEST_IMAGES and all(
        metrics.get(name, 100) / 100 * queries <= by_chance + 2 * by_chance**0.5
        for name, queries, by_chance in (("i2t_r1", n, 1.0), ("t2i_r1", m, m / n))
    ):
        problem = (
            "no better than chance: rows in the wrong order, captions of other images, or an untrained model"
        )
        fix = "check the order of rows and every caption's image (embed import: --ids; log_split: image_of_text)"
        faults.append(Fault("R@1", problem, "row i of the texts for caption i", fix, "warning"))

    return faults


def rank_imported(folder: Path, split: str, options: RankOptions, progress: Progress = silent) -> None:
    """Rank an imported split with other `options` than it was; do nothing if these are "auto" and it has any ranks."""
    unranked = split in atomic.folder_names(folder / tables.UNRANKED)  # an earlier version wrote such splits
    if not unranked and not _ranks_others(open_analysis(folder, split), options):
        return
    parts = _read_unranked(folder, split) if unranked else _read_ranked(open_analysis(folder, split))
    _write_ranked(folder, UnfinishedRanks(folder, split), parts, options, progress)
    if unranked:
        atomic.remove(folder / tables.UNRANKED / split)


def _ranks_others(analysis: Analysis, options: RankOptions) -> bool:
    """True if the options name other queries than are ranked; False for the lists of another system."""
    if analysis.lists is not None:
        return False
    if options.queries == AUTO and (np.asarray(analysis.text_ranks) >= 0).any():
        return False
    owner = np.asarray(analysis.image_of_text)
    chosen = choose_queries(analysis.relevance, owner, options.queries)
    return queries_differ(chosen, analysis.ranked_queries)


def _read_unranked(folder: Path, split: str) -> Parts:
    """Read the parts of a split that was written without ranks."""
    stored = sealed.SealedFolder(subfolder(folder, tables.UNRANKED, split))
    arrays = {name: stored.array(name) for name in stored.manifest["arrays"]}
    names = [name.removesuffix(".json") for name in stored.manifest["files"] if name.endswith(".json")]
    documents = {name: stored.document(name) for name in names}
    samples = documents.pop(SAMPLES)
    columns = read_columns(stored, len(arrays["image_embeddings"]), len(arrays["text_embeddings"]))
    return arrays, documents, samples | {"columns": columns}


def _read_ranked(analysis: Analysis) -> Parts:
    """Read the parts of an analysis besides its ranks."""
    ranks = (*tables.RANKS, *tables.RANKED_QUERIES)
    arrays = {name: analysis.array(name) for name in analysis.arrays if name not in ranks}
    documents = {name: analysis.document(name) for name in analysis.manifest["documents"]}
    images = documents.pop("images")
    samples = {
        "captions": documents.pop("captions"),
        "image_names": images["names"],
        "picture_folder": images["folder"],
        "packed": images.get("packed"),
        "fingerprint": analysis.fingerprint,
        "source": analysis.manifest.get("source", ""),
        "columns": analysis.columns,
    }
    return arrays, documents, samples


def _write_ranked(
    folder: Path, place: UnfinishedRanks, parts: Parts, options: RankOptions, progress: Progress
) -> Metrics:
    """Rank the parts of a split and write its analysis into a run folder."""
    arrays, documents, samples = parts
    pair = EmbeddingPair(arrays["image_embeddings"], arrays["text_embeddings"])
    relevance = None
    if tables.JUDGEMENTS in arrays:
        relevance = relevance_of_judgements(arrays[tables.JUDGEMENTS], *pair.shape)

    metrics, ranks = ranked([pair], arrays["image_of_text"], place, options, progress, relevance=relevance)
    write_analysis(
        folder,
        place.split,
        metrics=metrics,
        documents=documents,
        kind=tables.KIND_IMPORTED,
        **samples,
        **dict(arrays) | ranks,
    )
    return metrics


def _split_folders(folder: Path) -> dict[str, Path]:
    """Map every split of a run to its folder; to the ranked one if it has both."""
    ranked_splits = {split: tables.split_folder(folder, split) for split in tables.list_splits(folder)}
    unranked = subfolder(folder, tables.UNRANKED)
    return {name: unranked / name for name in atomic.folder_names(unranked)} | ranked_splits


def is_imported(folder: Path) -> bool:
    """True if a folder holds imported embeddings and nothing else of a run."""
    if (folder / "config.toml").exists():
        return False
    kinds = {sealed.SealedFolder(path).manifest.get("kind") for path in _split_folders(folder).values()}
    return kinds == {tables.KIND_IMPORTED}


def check_trained(folder: Path, fix: str) -> None:
    """Raise InputError, with the advice `fix`, for a run of embeddings alone, in which nothing was trained."""
    if is_imported(folder):
        found = "has only embeddings; nothing was trained"
        raise InputError.at(folder, found, "a run of coder_core.train", fix)


def check_same_model(folder: Path, split: str, size: int, towers: Mapping[str, Any] | None) -> None:
    """Raise InputError if another split of a run has another dimension or was made by other towers."""
    fix = "splits of one run come from one model: choose another name"
    for other, path in _split_folders(folder).items():
        if other == split:
            continue
        content = sealed.SealedFolder(path)
        where = f"split {other} of {folder}"
        if "image_embeddings" not in content.manifest["arrays"]:
            raise InputError.at(where, "has the lists of another system", "embeddings", fix)
        other_size = content.manifest["arrays"]["image_embeddings"]["shape"][1]
        if other_size != size:
            raise InputError.at(where, f"has {other_size} numbers per sample", f"{size}", fix)
        has_towers = f"{tables.DOCUMENT_TOWERS}.json" in content.manifest["files"]
        other_towers = _identity(content.document(tables.DOCUMENT_TOWERS) if has_towers else None)
        if other_towers != _identity(towers):
            raise InputError.at(where, f"was made by {other_towers}", _identity(towers), fix)


def check_has_lists(folder: Path) -> None:
    """Raise InputError if a split of an imported run has embeddings instead of lists of another system."""
    for split, path in _split_folders(folder).items():
        if "text_lists" not in sealed.SealedFolder(path).manifest["arrays"]:
            fix = "splits of one run come from one system: choose another name"
            raise InputError.at(f"split {split} of {folder}", "has embeddings", "lists of a run file", fix)


def _identity(towers: Mapping[str, Any] | None) -> str:
    """Describe towers in words; equal descriptions mean that embeddings can be compared."""
    if towers is None:
        return "embeddings from files"
    name = towers.get("model") or towers.get("tower")
    return f"{name} ({str(towers.get('fingerprint'))[:12]}), prompt {towers.get('prompt')!r}"


def _description(embeddings: Embeddings) -> dict[str, object]:
    return {
        "created": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "files": embeddings.source,
        "images": len(embeddings.images),
        "captions": len(embeddings.texts),
        "queries": len(embeddings.query_texts),
        "dimension": int(embeddings.images.shape[1]),
        "notes": [str(fault) for fault in embeddings.faults],
    }


def _fingerprint(embeddings: Embeddings) -> str:
    """Return 12 hex digits that change with any number of the embeddings or of the pairing."""
    digest = hashlib.sha256()
    queries = () if embeddings.queries is None else (embeddings.queries,)
    for array in (embeddings.images, embeddings.texts, embeddings.image_of_text, *queries):
        digest.update(repr(array.shape).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:12]
