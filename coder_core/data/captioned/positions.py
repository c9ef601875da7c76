"""Where the pictures of a data set lie: files of a folder, members of tar files, rows of parquet files.

Pictures are never copied: what is kept in memory is a name and, for packed ones, three numbers each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from coder_core.console.faults import Fault, InputError
from coder_core.data.captioned.parquet import IMAGE, open_parquet
from coder_core.data.lines import shown
from coder_core.data.pictures import find_file

LARGEST_FILE = 1 << 28  # bytes of a picture
WHOLE = "a whole JPEG, PNG or WEBP file"
PARQUET_ROWS = 16  # read at once


class Positions(Protocol):
    """The content of picture files by number."""

    folder: Path | None
    """The folder of picture files, which the app can show; None for packed pictures."""

    def read(self, image: int) -> bytes:
        """The file of a picture; an `InputError` when it is missing or cannot be read."""

    def place(self, image: int) -> str:
        """Where it lies, for messages."""

    def missing(self, images: Sequence[int]) -> list[int]:
        """Those of these pictures that are not there, found without reading one."""

    def state(self, image: int) -> tuple[int, int]:
        """Bytes and time of change of the file it lies in: another file has another state."""


def _read_piece(path: Path, offset: int, size: int, place: str) -> bytes:
    if not 0 < size <= LARGEST_FILE:
        raise InputError(Fault(place, f"has {size:,} bytes", WHOLE, "copy it again"))
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(size)
    except OSError as error:
        raise InputError(Fault(place, f"cannot be read: {error.strerror}", WHOLE, "copy it again")) from None
    if len(content) < size:
        raise InputError(Fault(place, f"has {len(content):,} of its {size:,} bytes", WHOLE, "copy it again"))
    return content


def _state(path: Path) -> tuple[int, int]:
    try:
        information = path.stat()
    except OSError:
        return 0, 0
    return information.st_size, information.st_mtime_ns


@dataclass
class Files:
    """Picture files of a folder, by their names relative to it."""

    folder: Path | None
    names: Sequence[str]

    def _path(self, image: int) -> Path | None:
        return find_file(self.folder, self.names[image]) if self.folder is not None else None

    def read(self, image: int) -> bytes:
        path = self._path(image)
        if path is None:
            raise InputError(Fault(self.place(image), "there is no such picture", "a JPEG, PNG or WEBP file"))
        return _read_piece(path, 0, path.stat().st_size, self.place(image))

    def place(self, image: int) -> str:
        return f"{self.folder}, {shown(self.names[image])}"

    def missing(self, images: Sequence[int]) -> list[int]:
        return [image for image in images if self._path(image) is None]

    def state(self, image: int) -> tuple[int, int]:
        path = self._path(image)
        return (0, 0) if path is None else _state(path)


@dataclass
class TarMembers:
    """Members of tar files: (n, 3) int64 of file, offset and bytes."""

    files: Sequence[Path]
    names: Sequence[str]
    positions: np.ndarray
    folder: Path | None = None

    def read(self, image: int) -> bytes:
        file, offset, size = self.positions[image].tolist()
        return _read_piece(self.files[file], offset, size, self.place(image))

    def place(self, image: int) -> str:
        return f"{self.files[self.positions[image, 0]]}, {shown(self.names[image])}"

    def missing(self, images: Sequence[int]) -> list[int]:
        return []

    def state(self, image: int) -> tuple[int, int]:
        return _state(self.files[self.positions[image, 0]])


@dataclass
class ParquetRows:
    """Rows of parquet files: (n, 3) int64 of file, row group and row in it.

    Rows are read a few at a time from the row group in use, so pictures asked for in order are read once each.
    """

    files: Sequence[Path]
    names: Sequence[str]
    positions: np.ndarray
    folder: Path | None = None
    _group: tuple[int, int] | None = field(default=None, init=False, repr=False)
    _batches: Iterator[pa.RecordBatch] | None = field(default=None, init=False, repr=False)
    _rows: tuple[int, pa.RecordBatch] | None = field(default=None, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_group": None, "_batches": None, "_rows": None}

    def read(self, image: int) -> bytes:
        file, group, row = self.positions[image].tolist()
        if self._group != (file, group) or (self._rows is not None and row < self._rows[0]):
            content = open_parquet(self.files[file], [])
            columns = [f"{IMAGE}.bytes"]
            self._batches = content.iter_batches(PARQUET_ROWS, row_groups=[group], columns=columns, use_threads=False)
            self._group, self._rows = (file, group), None
        try:
            while self._rows is None or row >= self._rows[0] + len(self._rows[1]):
                start = 0 if self._rows is None else self._rows[0] + len(self._rows[1])
                assert self._batches is not None
                self._rows = start, next(self._batches)
        except (pa.ArrowException, OSError, StopIteration) as error:
            self._group = None
            raise InputError(
                Fault(self.place(image), f"cannot be read: {error}", WHOLE, "copy the file again")
            ) from None
        content = self._rows[1].column(0).field("bytes")[row - self._rows[0]].as_py()
        if not content:
            raise InputError(Fault(self.place(image), "holds no bytes", WHOLE, "write the row again"))
        return bytes(content)

    def place(self, image: int) -> str:
        file, group, row = self.positions[image].tolist()
        return f"{self.files[file]} row group {group} row {row}"

    def missing(self, images: Sequence[int]) -> list[int]:
        return []

    def state(self, image: int) -> tuple[int, int]:
        return _state(self.files[self.positions[image, 0]])
