"""Saves: model and training state as safetensors and JSON, written atomically, verified when read."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.runs.files import sealed, swap

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_DOCUMENT_ROOM = 1 << 16
PROTOTYPES = "prototypes"
"""File stem of the prototypes beside a model: whole in a state, without what only training needs in a best save."""


class Save:
    """One verified save.

    Attributes:
        path: its folder.
        manifest: its manifest.
        fingerprint: 12 hex digits that change with any byte of the save.
        skipped: why newer saves of the same store were passed over.
    """

    def __init__(self, path: Path, skipped: list[Fault] | None = None) -> None:
        """Verify every file.

        Raises:
            InputError: a file is missing, cut or damaged (all of them named), or a newer version wrote the save.
        """
        self.path = path
        self.manifest = sealed.read_manifest(path)
        self.skipped = skipped or []
        faults = sealed.check_files(path, self.manifest)
        if faults:
            raise InputError(faults)
        self.fingerprint = hashlib.sha256(sealed.render_manifest(self.manifest)).hexdigest()[:12]

    @property
    def name(self) -> str:
        """The save's name in its store, for example the step."""
        return self.path.name

    def tensors(self, stem: str, *, device: str = "cpu") -> dict[str, Tensor]:
        """The tensors of `<stem>.safetensors`. Keys and shapes are checked by whoever loads them."""
        path = self._listed(f"{stem}.safetensors")
        try:
            return load_file(path, device=device)
        except SafetensorError as error:
            raise InputError(Fault(str(path), f"cannot be read ({error})")) from error

    def document(self, name: str) -> Any:
        """The contents of `<name>.json`."""
        return json.loads(sealed.read_checked(self.path, self._listed(f"{name}.json").name))

    def _listed(self, name: str) -> Path:
        if name not in self.manifest["files"]:
            present = ", ".join(self.manifest["files"])
            raise InputError(Fault(str(self.path), f"holds no {name}", f"one of {present}"))
        return self.path / name


class SaveStore:
    """The saves of one kind, `<run>/state` or `<run>/best`, named by step; the last `keep` stay.

    The caller holds the run's lock: one writer at a time. Readers need no lock.
    """

    def __init__(self, folder: Path, *, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep must be ≥ 1, got {keep}")
        self.folder = Path(folder)
        self.keep = keep

    def names(self) -> list[str]:
        """The saves present, oldest first: "90" before "100"."""
        if not self.folder.is_dir():
            return []
        found = [path.name for path in self.folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]
        return sorted(found, key=_natural)

    def tidy(self) -> None:
        """Take away what a killed writer left, before reading: it may have died between two renames.

        Raises:
            sealed.WriteError: the folder is not writable.
        """
        try:
            swap.clean(self.folder, alone=True)
        except OSError as error:
            fault = Fault(str(self.folder), f"cannot be tidied after a killed writer ({error.strerror})")
            raise sealed.WriteError(fault) from error

    def write(self, name: str, tensors: dict[str, dict[str, Tensor]], documents: dict[str, Any]) -> Path:
        """Write one save, then prune.

        A save of the same name is replaced. Saves whose name sorts after it belong to steps this run has not taken
        (it was continued from before them) and go.

        Args:
            name: letters, digits, ".", "_", "-"; normally the step.
            tensors: file stem → named tensors of any shape, dtype and device.
            documents: file stem → anything JSON can hold.

        Raises:
            sealed.WriteError: disk full or folder not writable; earlier saves are intact.
        """
        for stem in (name, *tensors, *documents):
            if not _NAME.fullmatch(stem):
                raise ValueError(f"a save's name is made of letters, digits, '.', '_' and '-', got {stem!r}")

        def fill(folder: Path) -> None:
            for stem, content in tensors.items():
                _write_tensors(folder / f"{stem}.safetensors", content)
            for stem, document in documents.items():
                sealed.write_file(folder / f"{stem}.json", json.dumps(document, ensure_ascii=False).encode())

        size = sum(tensor.nbytes for content in tensors.values() for tensor in content.values())
        path = sealed.write_sealed(self.folder / name, fill, needed=size + _DOCUMENT_ROOM, replace=True)
        self._prune(name)
        return path

    def open(self, name: str) -> Save:
        """One save by name, verified."""
        if name not in self.names():
            raise InputError(Fault(str(self.folder), f"holds no save {name!r}", f"one of {', '.join(self.names())}"))
        return Save(self.folder / name)

    def newest(self) -> Save | None:
        """The newest save that verifies, or None when there is no save at all.

        Raises:
            InputError: saves exist and none verifies, or the newest was written by a newer version.
        """
        skipped: list[Fault] = []
        for name in reversed(self.names()):
            try:
                return Save(self.folder / name, list(skipped))
            except sealed.NewerFormatError:
                raise
            except InputError as error:
                skipped.extend(error.faults)
        if skipped:
            raise InputError(skipped)
        return None

    def _prune(self, newest: str) -> None:
        names = self.names()
        position = names.index(newest)
        for name in names[: max(0, position + 1 - self.keep)] + names[position + 1 :]:
            swap.remove(self.folder / name)


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Digits compare as numbers, and come before letters."""
    parts = re.findall(r"\d+|\D+", name)
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]


def _write_tensors(path: Path, tensors: dict[str, Tensor]) -> None:
    """One safetensors file. Tensors that share memory (tied weights, views) are written out each on its own."""
    storages: set[int] = set()
    separate = {}
    for key, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        storage = plain.untyped_storage()
        if storage.data_ptr() in storages or storage.nbytes() != plain.nbytes:
            plain = plain.clone(memory_format=torch.contiguous_format)
        storages.add(plain.untyped_storage().data_ptr())
        separate[key] = plain
    try:
        save_file(separate, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error
