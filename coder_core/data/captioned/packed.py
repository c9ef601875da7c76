"""Pictures inside tar and parquet files, as an analysis notes where they lie, and read again from there.

A run folder may come from a stranger, so what it notes is checked before a file is opened: the files lie in the noted
folder, no link leads out of it, and they have the size they had.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from coder_core.console.documents import check_values
from coder_core.console.faults import InputError
from coder_core.data.captioned.positions import ParquetRows, Positions, TarMembers
from coder_core.data.lines import shown
from coder_core.data.pictures import picture_path

VERSION = 1
STORES = {"tar": TarMembers, "parquet": ParquetRows}  # kind → how it is read; also the ending of its files
LARGEST_GROUP = 1 << 30  # bytes of the pictures of a parquet row group, unpacked


def note_packed(positions: Positions, rows: np.ndarray) -> tuple[dict[str, Any], np.ndarray] | None:
    """Record of packed pictures in an analysis: a document, and (n, 3) int64 with the number of a file in the first
    column, then offset and bytes in a tar file, row group and row in a parquet file. None for picture files.

    Args:
        positions: of all pictures. rows: (n,) the pictures of the split.
    """
    if not isinstance(positions, TarMembers | ParquetRows):
        return None
    chosen = positions.positions[rows]
    used, chosen[:, 0] = np.unique(chosen[:, 0], return_inverse=True)
    folder = Path(os.path.commonpath([file.absolute().parent for file in positions.files]))
    files = [positions.files[number].absolute() for number in used.tolist()]
    document = {
        "version": VERSION,
        "kind": next(kind for kind, store in STORES.items() if isinstance(positions, store)),
        "folder": str(folder.resolve()),
        "files": [
            {"name": file.relative_to(folder).as_posix(), "bytes": file.stat().st_size} for file in files
        ],
    }
    return document, chosen


def names_digest(names: Sequence[str]) -> str:
    """The sha256 (hex) of image names: whether what was noted of pictures is still of these."""
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class PackedPictures:
    """Packed pictures of an opened analysis. Nothing is opened before a picture is asked for.

    Args:
        folder: which the files may not leave.
        names, sizes: of each file, relative to it, and its bytes when it was embedded or evaluated.
        store: reads them.
    """

    folder: Path
    names: Sequence[str]
    sizes: Sequence[int]
    store: TarMembers | ParquetRows
    _lock: Lock = field(default_factory=Lock, repr=False)

    def read(self, image: int) -> bytes:
        """The file of a picture.

        Raises:
            InputError: its container is missing, changed, or not in the folder; the picture is cut.
        """
        number = int(self.store.positions[image, 0])
        path, size = self.store.files[number], self.sizes[number]
        now = self.store.state(image)[0] if picture_path(self.folder, self.names[number]) == path else 0
        if now != size:
            problem = f"has {now:,} bytes" if now else "there is no such file"
            fix = "restore it, or embed or evaluate the data again"
            raise InputError.at(path, problem, f"{size:,} bytes, as when the run was written", fix)
        with self._lock:  # the store goes on where it read last
            return self.store.read(image)

    def place(self, image: int) -> str:
        """Location of a picture, for messages."""
        return self.store.place(image)

    def missing(self, images: Sequence[int]) -> list[int]:
        """Pictures among these whose container is missing."""
        return [image for image in images if not self.state(image)[0]]

    def state(self, image: int) -> tuple[int, int]:
        """Bytes and time of change of its container; (0, 0) where that is missing or outside the folder."""
        number = int(self.store.positions[image, 0])
        try:
            inside = picture_path(self.folder, self.names[number]) == self.store.files[number]
        except InputError:
            return 0, 0
        return self.store.state(image) if inside else (0, 0)


def open_packed(
    document: Mapping[str, Any], positions: np.ndarray, names: Sequence[str], place: str
) -> PackedPictures:
    """The pictures that `note_packed` noted.

    Args:
        document, positions: what it gave.
        names: n names, for messages.
        place: the file the document stands in.

    Raises:
        InputError: a newer version, or values that no version writes.
    """
    kinds = {"version": int, "kind": str, "folder": str, "files": list}
    check_values(document, kinds, place)
    if (
        document.get("version") != VERSION
        or document.get("kind") not in STORES
        or not kinds.keys() <= document.keys()
    ):
        problem = f"notes packed pictures of version {document.get('version')!r:.20}, kind {document.get('kind')!r:.20}"
        raise InputError.at(
            place, problem, f"version {VERSION}, kind {' or '.join(STORES)}", "use a newer program"
        )
    folder, kind = Path(document["folder"]), document["kind"]
    if not folder.is_absolute():
        raise InputError.at(
            f"{place} key folder", f"is {shown(str(folder))}", "an absolute path", "restore the file"
        )
    for entry in document["files"]:
        check_values(entry, {"name": str, "bytes": int}, f"{place} key files", least=0)
        if not {"name", "bytes"} <= entry.keys() or not entry["name"].endswith(f".{kind}"):
            problem = f"names {shown(str(entry.get('name')))}"
            raise InputError.at(
                f"{place} key files", problem, f"a .{kind} file and its bytes", "restore the file"
            )
    own_names = [entry["name"] for entry in document["files"]]
    files = [folder / name for name in own_names]
    if len(positions) and (positions.min() < 0 or positions[:, 0].max() >= len(files)):
        raise InputError.at(
            place, f"names {len(files)} files", "one for every number of picture_positions.npy"
        )
    store: TarMembers | ParquetRows = (
        TarMembers(files, names, positions)
        if kind == "tar"
        else ParquetRows(files, names, positions, rows_at_once=1, largest_group=LARGEST_GROUP)
    )
    return PackedPictures(folder, own_names, [entry["bytes"] for entry in document["files"]], store)
