"""Saves of a run: model and training state as safetensors and JSON, written atomically, verified when read."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import subfolder
from coder_core.files import atomic, sealed

_STEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_STEP = re.compile(r"[0-9]+")
PROTOTYPES = "prototypes"
"""File stem of the prototypes beside a model: complete in a state, without the training's parts in a best save."""


class Save(sealed.SealedFolder):
    """One verified save. name: in its store, the step. fingerprint: 12 hex digits that change with any byte. skipped:
    why newer saves of the store were skipped."""

    def __init__(self, path: Path, skipped: list[Fault] | None = None) -> None:
        """Verify every file. InputError: files are missing, cut or damaged (all are named), or another version wrote
        the save."""
        super().__init__(path)
        self.check()
        self.name = path.name
        self.skipped = skipped or []
        self.fingerprint = self.manifest_sha256[:12]

    def tensors(self, stem: str) -> dict[str, Tensor]:
        """Load the tensors of `<stem>.safetensors`; the caller must check keys and shapes."""
        path = self._listed(f"{stem}.safetensors")
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise InputError.at(path, f"cannot be read ({error})") from error


class SaveStore:
    """Saves of one kind, `<run>/state` or `<run>/best`, named by step, of which the last `keep` are kept. A writer must
    hold the run's lock; readers need no lock. InputError: the folder is a link, so its saves would be elsewhere."""

    def __init__(self, folder: Path, *, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep must be ≥ 1, got {keep}")
        self.folder = subfolder(Path(folder).parent, Path(folder).name)
        self.keep = keep

    def names(self) -> list[str]:
        """List the steps of the saves, oldest first: "90" before "100"."""
        return sorted(filter(_STEP.fullmatch, atomic.folder_names(self.folder)), key=int)

    def tidy(self) -> None:
        """Remove what a killed writer left (atomic.WriteError: the folder is not writable)."""
        try:
            atomic.clean(self.folder)
        except OSError as error:
            problem = f"contains files of a killed writer that cannot be removed ({error.strerror})"
            raise atomic.WriteError.at(self.folder, problem) from error

    def write(
        self, name: str, tensors: Mapping[str, Mapping[str, Tensor]], documents: Mapping[str, Any]
    ) -> Path:
        """Write the save of a step, file stem → named tensors or anything JSON can hold, then prune.

        A save of the same name is replaced. Saves of later steps are removed: the run was continued from before them.
        Folders not named by a step are left alone. atomic.WriteError: disk full, folder not writable, or the run was
        moved; earlier saves are intact.
        """
        if not _STEP.fullmatch(name) or not all(map(_STEM.fullmatch, (*tensors, *documents))):
            raise ValueError(f"a save is named by its step, its files by letters and digits, got {name!r}")
        if not self.folder.parent.is_dir():
            fix = "if it was moved, put it back and continue with --resume: its saves moved with it"
            raise atomic.WriteError.at(self.folder.parent, "was moved or removed during training", fix=fix)
        files: dict[str, sealed.Content] = {f"{stem}.safetensors": part for stem, part in tensors.items()}
        files |= {f"{stem}.json": json.dumps(value, ensure_ascii=False) for stem, value in documents.items()}
        path = sealed.write_sealed(self.folder / name, files, replace=True)
        names = self.names()
        position = names.index(name)
        for other in names[: max(0, position + 1 - self.keep)] + names[position + 1 :]:
            atomic.remove(self.folder / other)
        return path

    def newest(self) -> Save | None:
        """Return the newest intact save, or None without saves. InputError: no existing save is intact, or a newer one
        was written by another version."""
        while present := self._identities():
            skipped: list[Fault] = []
            for name in reversed(present):
                try:
                    return Save(self.folder / name, list(skipped))
                except sealed.NewerFormatError:
                    raise
                except InputError as error:
                    skipped.extend(error.faults)
            if self._identities() == present:  # none was written or pruned meanwhile
                raise InputError(skipped)
        return None

    def _identities(self) -> dict[str, tuple[Path, int, int] | None]:
        return {name: atomic.identity(self.folder / name) for name in self.names()}
