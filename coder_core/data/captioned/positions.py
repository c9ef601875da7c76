"""Locations of a data set's pictures: files of a folder, members of tar files, rows of parquet files.

Pictures are never copied: what is kept in memory is a name and, for packed ones, three numbers each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from coder_core.console.faults import InputError
from coder_core.data.captioned.parquet import PIXELS, has_pictures, open_parquet
from coder_core.data.lines import shown
from coder_core.data.pictures import find_file

LARGEST_FILE = 1 << 28  # bytes of a picture
WHOLE = "a whole JPEG, PNG or WEBP file"
PARQUET_ROWS = 16  # read at once
STREAMED_BYTES = 1 << 20  # of a parquet file; without a limit Arrow reads a row group's pictures whole


class Positions(Protocol):
    """The content of picture files by number."""

    @property
    def folder(self) -> Path | None:
        """The folder of picture files, which the app can show; None for packed pictures."""

    def read(self, image: int) -> bytes:
        """The file of a picture; an `InputError` when it is missing or cannot be read."""

    def place(self, image: int) -> str:
        """Location, for messages."""

    def missing(self, images: Sequence[int]) -> list[int]:
        """Missing pictures among these, found without reading one."""

    def state(self, image: int) -> tuple[int, int]:
        """Bytes and time of change of the file it lies in: another file has another state."""


def _read_piece(path: Path, offset: int, size: int, place: str) -> bytes:
    if not 0 < size <= LARGEST_FILE:
        raise InputError.at(place, f"has {size:,} bytes", WHOLE, "copy it again")
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(size)
    except OSError as error:
        raise InputError.at(place, f"cannot be read: {error.strerror}", WHOLE, "copy it again") from None
    if len(content) < size:
        raise InputError.at(place, f"has {len(content):,} of its {size:,} bytes", WHOLE, "copy it again")
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
            raise InputError.at(self.place(image), "there is no such picture", "a JPEG, PNG or WEBP file")
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

    Args:
        rows_at_once: rows in memory.
        largest_group: bytes that the pictures of a row group may take unpacked; None allows any.
    """

    files: Sequence[Path]
    names: Sequence[str]
    positions: np.ndarray
    folder: Path | None = None
    rows_at_once: int = PARQUET_ROWS
    largest_group: int | None = None
    _group: tuple[int, int] | None = field(default=None, init=False, repr=False)
    _batches: Iterator[pa.RecordBatch] | None = field(default=None, init=False, repr=False)
    _rows: tuple[int, pa.RecordBatch] | None = field(default=None, init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_group": None, "_batches": None, "_rows": None}

    def read(self, image: int) -> bytes:
        file, group, row = self.positions[image].tolist()
        if self._group != (file, group) or (self._rows is not None and row < self._rows[0]):
            self._batches, self._rows = self._open(file, group, self.place(image)), None
            self._group = (file, group)
        try:
            while self._rows is None or row >= self._rows[0] + len(self._rows[1]):
                start = 0 if self._rows is None else self._rows[0] + len(self._rows[1])
                assert self._batches is not None
                self._rows = start, next(self._batches)
        except (pa.ArrowException, OSError, StopIteration) as error:
            self._group = None
            reason = str(error).split("\n", 1)[0][:200] or "its row group is shorter"
            raise InputError.at(
                self.place(image), f"cannot be read: {reason}", WHOLE, "restore the file"
            ) from None
        content = self._rows[1].column(0).field("bytes")[row - self._rows[0]].as_buffer()
        if content is None or not 0 < content.size <= LARGEST_FILE:
            size = f"{content.size:,}" if content else "no"
            raise InputError.at(self.place(image), f"holds {size} bytes", WHOLE, "write the row again")
        return content.to_pybytes()

    def _open(self, file: int, group: int, place: str) -> Iterator[pa.RecordBatch]:
        content = open_parquet(self.files[file], [], buffer_size=STREAMED_BYTES)
        if not has_pictures(content) or not 0 <= group < content.num_row_groups:
            problem = "the file has no such row group of pictures"
            raise InputError.at(place, problem, "the file as it was", "restore it")
        about = content.metadata.row_group(group)
        columns = [about.column(number) for number in range(about.num_columns)]
        size = max(
            (column.total_uncompressed_size for column in columns if column.path_in_schema == PIXELS),
            default=0,
        )
        if self.largest_group is not None and size > self.largest_group:
            problem = f"the pictures of its row group are {size:,} bytes"
            fix = "write the file with smaller row groups"
            raise InputError.at(place, problem, f"at most {self.largest_group:,}", fix)
        return content.iter_batches(
            self.rows_at_once, row_groups=[group], columns=[PIXELS], use_threads=False
        )

    def place(self, image: int) -> str:
        file, group, row = self.positions[image].tolist()
        return f"{self.files[file]} row group {group} row {row}"

    def missing(self, images: Sequence[int]) -> list[int]:
        return []

    def state(self, image: int) -> tuple[int, int]:
        return _state(self.files[self.positions[image, 0]])
