"""`derived/<split>/<kind>-<key>/`: what was computed from an analysis, looked up by what it came from.

    checkpoints/<run>/derived/dev/layout-3f0c…/     manifest.json + plane.npy

The key is a checksum of the kind, the parameters and of where the numbers came from: the embeddings' and the pairing's
sha256 and the checkpoint's fingerprint, of two runs where two take part. A new analysis or another parameter is another
key; a stale result is never shown, and is removed when the next one is written. It is not kept inside `analysis/`,
which is sealed and replaced as a whole.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.runs.analysis.read import Analysis
from coder_core.runs.analysis.tables import split_folder
from coder_core.runs.files import sealed

DERIVED = "derived"
VERSION = 1
_KIND = re.compile(r"[a-z]+")
_KEY = re.compile(r"[0-9a-f]{24}")
_SOURCE_FILES = ("image_embeddings.npy", "text_embeddings.npy", "image_of_text.npy")


@dataclass(frozen=True)
class Ticket:
    """The name of one result: where it stands or will stand, and what it is looked up by.

    Args:
        folder: its place. kind: "layout", "clusters" … key: 24 hexadecimal digits. about: what the key was made of.
    """

    folder: Path
    kind: str
    key: str
    about: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Kind and key: also the name of the job that computes it."""
        return f"{self.kind}-{self.key}"


@dataclass(frozen=True)
class Derived:
    """A result that was read back. arrays: name → array; notes: what a reader has to know about it; facts: the rest."""

    arrays: Mapping[str, np.ndarray]
    notes: tuple[str, ...]
    facts: Mapping[str, Any]


def ticket(
    run_folder: Path, split: str, kind: str, parameters: Mapping[str, Any], sources: Sequence[Analysis]
) -> Ticket:
    """Name a result.

    Args:
        run_folder: the run it is kept beside.
        parameters: JSON values.
        sources: the analyses it is computed from, the run's own first.
    """
    about = {
        "version": VERSION,
        "kind": kind,
        "parameters": dict(parameters),
        "sources": [_source(analysis) for analysis in sources],
    }
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:24]
    split_folder(run_folder, split)  # refuses a name that leads elsewhere
    return Ticket(Path(run_folder) / DERIVED / split / f"{kind}-{key}", kind, key, about)


def _source(analysis: Analysis) -> dict[str, str]:
    files = analysis.manifest["files"]
    return {"fingerprint": analysis.fingerprint} | {name: files[name]["sha256"] for name in _SOURCE_FILES}


def write_derived(
    place: Ticket,
    arrays: Mapping[str, np.ndarray],
    *,
    notes: Sequence[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> Path:
    """Keep a result; a damaged one under the same name is replaced, stale ones beside it are removed.

    Raises:
        WriteError: disk full or read-only.
    """
    about = {
        **place.about,
        "key": place.key,
        "notes": list(notes),
        "facts": dict(facts or {}),
    }
    files = {f"{name}.npy": array for name, array in arrays.items()}
    written = sealed.write_sealed(place.folder, files, about=about, replace=True)
    _remove_stale(place)
    return written


def read_derived(place: Ticket) -> Derived | None:
    """A kept result, every byte verified; None when there is none.

    Raises:
        InputError: it is damaged, or is not what its name says; the file is named. Computing it again replaces it.
    """
    if not sealed.locate(place.folder).is_dir():
        return None
    folder = sealed.SealedFolder(place.folder)
    folder.check()
    manifest = folder.manifest
    if manifest.get("key") != place.key or any(manifest.get(name) != value for name, value in place.about.items()):
        raise InputError(Fault(str(place.folder), "holds another result than its name says", fix="compute it again"))
    arrays = {name: np.array(folder.array(name)) for name in manifest["arrays"]}
    return Derived(arrays, tuple(str(note) for note in manifest["notes"]), manifest["facts"])


def _remove_stale(place: Ticket) -> None:
    """Results beside this one that came from an analysis of this run that is no longer there, or cannot be read."""
    for folder in place.folder.parent.iterdir():
        kind, _, key = folder.name.partition("-")
        if folder == place.folder or not (_KIND.fullmatch(kind) and _KEY.fullmatch(key)) or folder.is_symlink():
            continue
        try:
            own = sealed.read_manifest(folder)["sources"][0]
        except (InputError, KeyError, IndexError, TypeError):
            own = None
        if own != place.about["sources"][0]:
            sealed.remove(folder)
