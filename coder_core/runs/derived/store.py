"""`derived/<split>/<kind>-<key>/`: results computed from an analysis, looked up by what they were computed from.

A new analysis or another parameter gives another key, so a stale result is never shown; it is removed when the next one
is written. Results are outside `analysis/`, which is sealed and replaced as a whole.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coder_core.console.faults import InputError
from coder_core.console.plain_files import check_values, subfolder, trusting
from coder_core.files import atomic, sealed
from coder_core.runs.analysis.read import Analysis
from coder_core.runs.analysis.tables import RANKED_QUERIES, split_folder

VERSION = 1
Result = TypeVar("Result")
_NAME = re.compile(r"[a-z]+-[0-9a-f]{24}")
OF_RANKS = ("blends", "causes", "hubs", "qrels", "widened")
"""Kinds of results that depend on which queries are ranked."""

_SOURCE_FILES = ("image_embeddings.npy", "text_embeddings.npy", "scores.npy", "image_of_text.npy")


@dataclass(frozen=True)
class DerivedFolder:
    """Folder of one result, named by kind and key: 24 hexadecimal digits, a hash of `about`."""

    path: Path
    key: str
    about: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Kind and key: also the name of the job that computes it."""
        return self.path.name


def derived_folder(
    run_folder: Path, split: str, kind: str, parameters: Mapping[str, Any], analyses: Sequence[Analysis]
) -> DerivedFolder:
    """Return the folder of a result, from `parameters` (JSON values) and its source `analyses`, the run's own first."""
    split_folder(run_folder, split)  # refuses a name that leads elsewhere
    description = {"version": VERSION, "kind": kind, "parameters": dict(parameters)}
    description["sources"] = [_source(analysis) for analysis in analyses]
    if kind in OF_RANKS and analyses[0].ranked_queries is not None:
        files = analyses[0].manifest["files"]
        description["ranked"] = [files[f"{name}.npy"]["sha256"] for name in RANKED_QUERIES]
    key = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:24]
    path = subfolder(run_folder, "derived", split, f"{kind}-{key}")
    return DerivedFolder(path, key, description)


def list_derived(run_folder: Path, split: str, kind: str, analysis: Analysis) -> Iterator[DerivedFolder]:
    """Yield the folders of an analysis's stored results of a `kind`, with any parameters. InputError: the manifest of
    one is damaged."""
    parent = subfolder(run_folder, "derived", split)
    for name in atomic.folder_names(parent):
        if name.startswith(f"{kind}-"):
            manifest = sealed.SealedFolder(parent / name).manifest
            with trusting(str(parent / name)):
                folder = derived_folder(run_folder, split, kind, manifest["parameters"], [analysis])
            if folder.name == name:  # otherwise it is from other embeddings
                yield folder


def write_derived(
    folder: DerivedFolder,
    arrays: Mapping[str, np.ndarray],
    *,
    notes: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Store a result: arrays, notes (sentences for the reader) and facts (other values). A damaged one under the same
    name is replaced, stale ones beside it are removed."""
    manifest = {**folder.about, "key": folder.key, "notes": list(notes), "facts": dict(facts or {})}
    files = {f"{name}.npy": array for name, array in arrays.items()}
    sealed.write_sealed(folder.path, files, about=manifest, replace=True)
    for name in filter(_NAME.fullmatch, atomic.folder_names(folder.path.parent)):
        other = folder.path.with_name(name)
        if name != folder.name and _first_source(other) != folder.about["sources"][0]:
            atomic.remove(other)


def read_as(
    folder: DerivedFolder, build: Callable[[dict[str, Any], dict[str, Any]], Result]
) -> Result | None:
    """Return what `build` makes of a result's arrays and manifest, every byte verified; None if it does not exist.
    InputError: the result is damaged, does not match its name, or has values that no version writes; the file is named.
    Computing it again replaces it."""
    if not atomic.locate(folder.path).is_dir():
        return None
    stored = sealed.SealedFolder(folder.path)
    where = str(folder.path / sealed.MANIFEST)
    stored.check()
    manifest = stored.manifest
    expected = {"key": folder.key, **folder.about}
    if expected != {name: manifest.get(name) for name in expected}:
        raise InputError.at(folder.path, "has contents that do not match its name", fix="compute it again")
    check_values(manifest, {"notes": list, "facts": dict}, where)
    with trusting(where):
        return build({name: np.array(stored.array(name)) for name in manifest.get("arrays", ())}, manifest)


def _source(analysis: Analysis) -> dict[str, str]:
    files = analysis.manifest["files"]
    checksums = {name: files[name]["sha256"] for name in _SOURCE_FILES if name in files}
    return {"fingerprint": analysis.fingerprint} | checksums


def _first_source(path: Path) -> Any:
    """Return a stored result's record of the run's own analysis; None if it cannot be read."""
    try:
        return sealed.SealedFolder(path).manifest["sources"][0]
    except (InputError, KeyError, IndexError, TypeError):
        return None
