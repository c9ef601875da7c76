"""List runs from their small files; a damaged run is listed with its fault."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from coder_core.api.diversity import LossSettings
from coder_core.config.schema import find_setting, read_document, to_document
from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import SMALL, check_values, subfolder
from coder_core.evaluation.sampled import describe_counts
from coder_core.files.atomic import MOST_ENTRIES, folder_names, locate
from coder_core.files.sealed import MANIFEST, MANIFEST_BYTES, SealedFolder, read_toml
from coder_core.objectives.table import LOSSES
from coder_core.runs.analysis import tables
from coder_core.runs.analysis.read import check_manifest, check_metrics
from coder_core.runs.folder import check_run, holds_run
from coder_core.runs.record import read_status

IMPORTED = "imported"
MOST_BYTES = 1 << 18  # of the manifests of a run's analyses, so that a listing takes milliseconds
ORIGINS = {
    "features": "trained on region features that came with the data",
    "tower features": "trained on region features of a pretrained tower, which did not change",
    "frozen towers": "trained on top of pretrained towers, which did not change",
    "tuned towers": "pretrained towers that training changed",
    "zero-shot": "a pretrained model as it is: nothing was trained",
    "imported": "embeddings that another program computed",
    "lists": "lists of another system, from a run file: there are no embeddings",
}


class SplitSamples(NamedTuple):
    """Numbers of images and captions in an evaluated split, and their digest; equal for runs of the same samples."""

    images: int
    captions: int
    digest: str


@dataclass(frozen=True)
class RunSummary:
    """One run folder."""

    name: str
    path: Path
    # "running", "interrupted", "finished", "stopped", "failed", "imported", "unknown", "damaged", or
    # "left out": a link that leaves the folder
    state: str
    fault: str = ""  # why a run cannot be opened; "" otherwise
    config: Mapping[str, Any] = field(
        default_factory=dict
    )  # the tables of config.toml, complete; {} if unreadable
    # what this version does not know of its configuration: training and encoding refuse it, its results are shown
    unknown: tuple[str, ...] = ()
    status: Mapping[str, Any] = field(default_factory=dict)  # status.json; {} if it does not exist
    splits: tuple[str, ...] = ()  # names of the analysed splits, dev first; damaged ones are left out
    # split → its retrieval metrics
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    stamp: str = ""  # changes whenever a file of an analysis folder changes; a key for caches
    # of an imported run: created, files, images, captions, dimension, notes
    origin: Mapping[str, Any] = field(default_factory=dict)
    has_best: bool = False  # training has stored a best model
    samples: Mapping[str, SplitSamples] = field(default_factory=dict)  # split → its samples
    # split → damage of its analysis, found by the sizes of its files and by checking its metrics against
    # its arrays; any other changed byte is only found when the analysis is opened
    damaged: Mapping[str, str] = field(default_factory=dict)
    documents: frozenset[str] = frozenset()  # names of the analyses' documents
    # split → "sampled 10,000 of 1,000,000" or "not ranked"; only of splits whose queries are not all ranked
    sampled: Mapping[str, str] = field(default_factory=dict)

    @property
    def imported(self) -> bool:
        """True for another model's embeddings, without configuration, history and model."""
        return self.state == IMPORTED

    @property
    def usable(self) -> bool:
        """True if at least one split can be opened."""
        return not self.fault and bool(self.splits)


def list_runs(root: str | Path) -> list[RunSummary]:
    """List the run folders in `root`, by name. A link to a place outside `root` is listed, but not followed."""
    base = Path(root)
    runs = []
    for path in sorted(base.iterdir()) if base.is_dir() else []:
        if path.name.startswith(".") or not path.is_dir():
            continue
        shown = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        if shown != path.name:
            fault = Fault(str(base / shown), "has a name that is not UTF-8", fix="rename the folder")
            runs.append(RunSummary(shown, base / shown, "damaged", str(fault)))
            continue
        if not path.resolve().is_relative_to(base.resolve()):
            target = path.resolve()
            fact = f"is a link to {target}, and only links within {base.name} are followed"
            fix = f"move the run here, or start the app with CODER_CHECKPOINTS={target.parent}"
            runs.append(RunSummary(path.name, path, "left out", str(Fault(str(path), fact, fix=fix))))
        elif holds_run(path):
            runs.append(_summary_of_any(path))

    return runs


def _summary_of_any(path: Path) -> RunSummary:
    """Summarise a run folder, with any exception as its fault, because one run must not hide the others."""
    try:
        return summarise(path)
    except Exception as error:
        fact = f"cannot be read ({type(error).__name__}: {str(error)[:200]})"
        fault = Fault(str(path), fact, fix="restore the run or remove it")
        return RunSummary(path.name, path, "damaged", str(fault))


def summarise(path: Path) -> RunSummary:
    """Summarise one run folder; a damaged one has a fault."""
    try:
        splits = _split_folders(path)
        manifests = {folder.name: _read_manifest(folder) for folder in splits}
        damaged = {folder.name: damage for folder in splits if (damage := _damage(folder))}
        has_best = bool(folder_names(path / "best"))
        kinds = {manifest.get("kind") for manifest in manifests.values()}
        imported = kinds == {tables.KIND_IMPORTED} and not (path / "config.toml").exists()
        if not kinds and (waiting := folder_names(path / tables.UNRANKED)):
            fix = f"run coder-lab evaluate {path} --split {waiting[0]}"
            raise InputError.at(path, "has imported embeddings without ranks", fix=fix)
        config, unknown = ({}, []) if imported else read_tables(path)
        status = {"state": IMPORTED} if imported else read_status(path) or {}
        origin = _origin(path, manifests) if imported else {}
    except InputError as error:
        return RunSummary(path.name, path, "damaged", str(error))
    except OSError as error:
        fact = f"cannot be read ({error.strerror})"
        fault = Fault(error.filename or str(path), fact, fix="change its owner or permissions")
        return RunSummary(path.name, path, "damaged", str(fault))

    intact = {split: manifest for split, manifest in manifests.items() if split not in damaged}
    return RunSummary(
        path.name,
        path,
        str(status.get("state", "unknown")),
        config=config,
        unknown=tuple(f"{fault.place} {fault.found}" for fault in unknown),
        status=status,
        splits=tuple(intact),
        metrics={split: manifest["metrics"] for split, manifest in intact.items()},
        stamp="|".join(
            f"{f.name}:{manifests[f.name].get('self', '')}:{_changed(f, manifests[f.name])}" for f in splits
        ),
        origin=origin,
        damaged=damaged,
        has_best=has_best,
        documents=frozenset(str(name) for manifest in manifests.values() for name in manifest["documents"]),
        samples={split: _samples(manifest) for split, manifest in intact.items()},
        sampled={split: words for split, manifest in intact.items() if (words := _sampled(manifest))},
    )


def _split_folders(path: Path) -> list[Path]:
    """Return the folders of a run's analyses, dev first. InputError: a link, a folder that no split can have as its
    name, or more analyses than can be listed at once."""
    analysis = subfolder(path, "analysis")
    entries = list(islice(analysis.iterdir(), MOST_ENTRIES)) if analysis.exists() else []
    names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
    folders = [tables.split_folder(path, name) for name in sorted(names, key=lambda name: name != "dev")]
    sizes = [(locate(folder) / MANIFEST).stat().st_size for folder in folders]
    total = sum(min(size, MANIFEST_BYTES) for size in sizes)  # a larger one is refused when it is read
    if total > MOST_BYTES:
        problem = f"has {len(folders):,} analyses, whose manifests have {total:,} bytes"
        raise InputError.at(analysis, problem, f"at most {MOST_BYTES:,}", "remove some of them")
    return folders


def _read_manifest(folder: Path) -> dict[str, Any]:
    manifest = SealedFolder(folder).manifest
    check_manifest(manifest, str(folder / MANIFEST))
    return manifest


def _damage(folder: Path) -> str:
    """Return the damage of an analysis: missing or cut files, or metrics that do not match its arrays; else ""."""
    try:
        check_metrics(folder)
    except InputError as error:
        return str(error)
    return ""


def _samples(manifest: Mapping[str, Any]) -> SplitSamples:
    """Derive the samples from shapes and checksums in an analysis's manifest."""
    arrays = manifest.get("arrays", {})
    files = manifest["files"]
    shapes = (arrays.get(name, {}).get("shape") or [0] for name in ("image_ranks", "image_of_text"))
    images, captions = (shape[0] for shape in shapes)
    digests = (files.get(name, {}).get("sha256", "") for name in ("captions.json", "image_of_text.npy"))
    return SplitSamples(images, captions, "-".join(digests))


def _sampled(manifest: Mapping[str, Any]) -> str:
    """Describe which queries of an analysis are ranked, from its manifest; "" if all are."""
    arrays = manifest["arrays"]
    if not all(name in arrays for name in tables.RANKED_QUERIES):
        return ""
    ranked_images, ranked_captions = (arrays[name]["shape"][0] for name in tables.RANKED_QUERIES)
    images, captions, _ = _samples(manifest)
    return describe_counts(ranked_images, ranked_captions, images, captions)


def _changed(folder: Path, manifest: Mapping[str, Any]) -> int:
    """Return the time of a sealed folder's last change, in nanoseconds; 0 while the folder is being replaced."""
    place = locate(folder)
    with suppress(OSError):
        return max((place / name).lstat().st_mtime_ns for name in (MANIFEST, *manifest["files"]))
    return 0


def _origin(path: Path, manifests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the verified source of an imported run; {} if it is not recorded."""
    split, manifest = next(iter(manifests.items()))
    name = f"{tables.DOCUMENT_IMPORTED}.json"
    if name not in manifest["files"]:
        return {}
    folder = path / "analysis" / split
    document: dict[str, Any] = SealedFolder(folder).document(tables.DOCUMENT_IMPORTED, SMALL)
    kinds = {"created": str, "files": dict, "images": int, "captions": int, "dimension": int, "notes": list}
    check_values(document, kinds, str(folder / name))
    return document


def read_tables(path: Path) -> tuple[dict[str, Any], list[Fault]]:
    """Return the tables of a run's config.toml and a fault for each part that this version does not know (`complete`),
    verified against the run's manifest. InputError: the file is missing, damaged or not TOML."""
    check_run(path)
    document = read_toml(path, "config.toml")
    check_values(document, {"about": dict}, str(path / "config.toml"))
    about = document.pop("about", {})
    config, unknown = complete(document)
    return config | {"about": about}, unknown


def complete(document: Mapping[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Return the tables of a configuration, and a fault for each part that this version does not know.

    Settings that did not exist when the run was trained get the values it was trained with. Unknown keys and names stay
    in the tables, to be shown; other values that do not fit their setting are left out.
    """
    known, unknown = read_document(document)
    config = to_document(known)
    for section, table in document.items():
        if section == "name" or not isinstance(table, dict):
            continue
        shown = config.setdefault(section, {})
        for key, written in table.items():
            setting = find_setting(key)
            value = written if setting is None else setting.read(written)
            if setting is None or setting.allows(value) or (setting.choices and isinstance(value, str)):
                shown[setting.key if setting else key] = value
            else:
                shown.pop(setting.key, None)
    return config, unknown


def loss_values(config: Mapping[str, Any]) -> LossSettings:
    """Return μ, γ, ε and the measure of diversity that a run was trained with; the paper's if it used another loss, or
    values that this version does not know."""
    objective = config.get("objective", {})
    numbers = ("temperature", "gamma", "epsilon", "entropy_temperature")
    function = objective.get("diversity")
    known = function in ("std", "entropy") and all(name in objective for name in numbers)
    entry = LOSSES.get(str(objective.get("loss")))
    if entry is None or not entry.reads("gamma") or not known:
        return LossSettings()
    values = {name: float(objective[name]) for name in numbers}
    return LossSettings(**values, function=function, trained=True)


def numbers_from(run: RunSummary) -> str:
    """Return the origin of a run's numbers, a key of `ORIGINS`, from its manifests and configuration; "" for a run that
    cannot be read."""
    if run.fault:
        return ""
    if run.imported:
        if tables.DOCUMENT_LISTS in run.documents:
            return "lists"
        return "zero-shot" if tables.DOCUMENT_TOWERS in run.documents else IMPORTED
    towers = run.config.get("towers", {})
    sides = [side for side in ("image", "text") if towers.get(f"{side}_tower")]
    if sides:
        tuned = any(towers.get(f"{side}_tuning", "frozen") != "frozen" for side in sides)
        return "tuned towers" if tuned else "frozen towers"
    return "tower features" if tables.DOCUMENT_REGIONS in run.documents else "features"


def facts(run: RunSummary) -> dict[str, Any]:
    """Return the columns of the run table besides the metrics: from (`numbers_from`), loss, data, seed, epochs, bank,
    dimension, created, step, steps."""
    config = run.config
    origin = run.origin
    source = str(config.get("data", {}).get("data", ""))
    noted = config.get("about", {})
    loss = config.get("objective", {}).get("loss", "")
    dimension = config.get("model", {}).get("dimension")
    if run.imported:
        source = str(origin.get("files", {}).get("captions", ""))
        noted = origin
        loss = IMPORTED
        dimension = origin.get("dimension") or None

    return {
        "from": numbers_from(run),
        "loss": loss,
        "data": Path(source).name or source,
        "seed": config.get("training", {}).get("seed"),
        "epochs": config.get("training", {}).get("epochs"),
        "bank": config.get("memory", {}).get("bank_size"),
        "dimension": dimension,
        "created": str(noted.get("created", ""))[:16],
        "step": run.status.get("step"),
        "steps": run.status.get("steps"),
    }
