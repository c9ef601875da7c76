"""Locations of a data set's pictures: files of a folder, members of tar files, rows of parquet files.

Pictures are never copied: only their names, and three numbers per packed picture, are kept in memory. An analysis
records where its packed pictures are, and they are read from there. A run folder may come from a stranger, so this
record is checked before a file is opened: the file must be in the recorded folder, not reached by a link out of it, and
have its recorded size.
"""

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from coder_core.console.faults import Fault, InputError, collect
from coder_core.console.plain_files import check_values
from coder_core.data.lines import plain_file, shown
from coder_core.data.pictures import ACCEPTED, find_file, picture_path

LARGEST_FILE = 1 << 28  # bytes of a picture
# titles of a parquet column of pictures: their files' bytes, or struct{bytes, …}
IMAGES = ("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", "image_bytes", "bytes")
PARQUET_ROWS = 16  # pictures read at once
ROWS_AT_ONCE = 256  # rows of other columns read at once
STREAMED_BYTES = 1 << 20  # of a parquet file; by default Arrow reads all pictures of a row group at once
# errors of Arrow on a damaged parquet file
DAMAGE = (pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError)
VERSION = 1  # of an analysis's record of packed pictures
KINDS = ("tar", "parquet", "tsv")  # of packed pictures; also the endings of their files
URL_SAFE = bytes.maketrans(b"-_", b"+/")  # the other alphabet of base64
LARGEST_GROUP = 1 << 30  # bytes of the pictures of a parquet row group, unpacked


def _unreadable(where: str, problem: str) -> InputError:
    return InputError.at(where, problem, ACCEPTED, "copy it again")


def _read_piece(path: Path, offset: int, size: int, where: str) -> bytes:
    if not 0 < size <= LARGEST_FILE:
        raise _unreadable(where, f"has {size:,} bytes")
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(size)
    except OSError as error:
        raise _unreadable(where, f"cannot be read: {error.strerror}") from None
    if len(content) < size:
        raise _unreadable(where, f"has {len(content):,} of its {size:,} bytes")
    return content


def _state(path: Path) -> tuple[int, int]:
    try:
        information = path.stat()
    except OSError:
        return 0, 0
    return information.st_size, information.st_mtime_ns


@dataclass
class Files:
    """Picture files of a folder, by their names relative to it. All classes here identify a picture by its number.
    `read` returns its file's bytes or raises InputError, `place` its location for messages, `state` the (bytes, time of
    change in ns) of the file that contains it. `missing` finds missing pictures without reading them."""

    folder: Path | None
    names: Sequence[str]

    def _path(self, image: int) -> Path | None:
        return find_file(self.folder, self.names[image]) if self.folder is not None else None

    def read(self, image: int) -> bytes:
        path = self._path(image)
        if path is None:
            raise _unreadable(self.place(image), "there is no such picture")
        return _read_piece(path, 0, path.stat().st_size, self.place(image))

    def place(self, image: int) -> str:
        return f"{self.folder}, {shown(self.names[image])}"

    def missing(self, images: Sequence[int]) -> list[int]:
        return [image for image in images if self._path(image) is None]

    def state(self, image: int) -> tuple[int, int]:
        path = self._path(image)
        return (0, 0) if path is None else _state(path)


@dataclass
class _Packed:
    """Pictures inside files. positions: (n, 3) int64, the number of a file and two more numbers."""

    files: Sequence[Path]
    names: Sequence[str]
    positions: np.ndarray
    folder: Path | None = None

    def missing(self, images: Sequence[int]) -> list[int]:
        return []

    def state(self, image: int) -> tuple[int, int]:
        return _state(self.files[self.positions[image, 0]])


@dataclass
class TarMembers(_Packed):
    """Members of tar files. positions: file, offset, bytes."""

    def read(self, image: int) -> bytes:
        file, offset, size = self.positions[image].tolist()
        return _read_piece(self.files[file], offset, size, self.place(image))

    def place(self, image: int) -> str:
        return f"{self.files[self.positions[image, 0]]}, {shown(self.names[image])}"


@dataclass
class Base64Members(TarMembers):
    """Fields of text files that hold pictures' files in base64, as Chinese-CLIP's. positions: file, offset, bytes."""

    def read(self, image: int) -> bytes:
        content = super().read(image).translate(URL_SAFE)
        try:
            return base64.b64decode(content + b"=" * (-len(content) % 4), validate=True)
        except ValueError as error:
            raise _unreadable(self.place(image), f"is not base64: {error}") from None


@dataclass
class ParquetRows(_Packed):
    """Rows of parquet files. positions: file, row group, row in it. Rows are read a few at a time from the current row
    group, so pictures requested in order are each read once."""

    rows_at_once: int = PARQUET_ROWS  # rows in memory
    largest_group: int | None = None  # bytes of the pictures of a row group, unpacked; None allows any
    _group: tuple[int, int] | None = field(default=None, init=False, repr=False)
    _batches: Iterator[pa.RecordBatch] = field(default=iter(()), init=False, repr=False)
    _first: int = field(default=0, init=False, repr=False)  # first row of the current batch
    _batch: Sequence[Any] | pa.StructArray = field(default=(), init=False, repr=False)

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_group": None, "_batches": iter(()), "_first": 0, "_batch": ()}

    def read(self, image: int) -> bytes:
        file, group, row = self.positions[image].tolist()
        try:
            if self._group != (file, group) or row < self._first:
                self._batches = self._open(file, group, self.place(image))
                self._group = (file, group)
                self._first = 0
                self._batch = ()
            while row >= self._first + len(self._batch):
                self._first += len(self._batch)
                column = next(self._batches).column(0)
                self._batch = column.field("bytes") if pa.types.is_struct(column.type) else column
            content = self._batch[row - self._first].as_buffer()
        except (*DAMAGE, StopIteration) as error:
            self._group = None
            reason = str(error).split("\n", 1)[0][:200] or "its row group has fewer rows"
            raise _unreadable(self.place(image), f"cannot be read: {reason}") from None

        if content is None or not 0 < content.size <= LARGEST_FILE:
            size = "no bytes: a path alone is not read" if content is None else f"{content.size:,} bytes"
            raise _unreadable(self.place(image), f"has {size}")

        return content.to_pybytes()

    def _open(self, file: int, group: int, where: str) -> Iterator[pa.RecordBatch]:
        content = open_parquet(self.files[file], [], buffer_size=STREAMED_BYTES)
        pixels = picture_column(content)
        if not pixels or not 0 <= group < content.num_row_groups:
            problem = "the file has no such row group of pictures"
            raise InputError.at(where, problem, "the file that the run was made with", "restore it")
        metadata = content.metadata.row_group(group)
        columns = [metadata.column(number) for number in range(metadata.num_columns)]
        size = max(column.total_uncompressed_size for column in columns if column.path_in_schema == pixels)
        if self.largest_group is not None and size > self.largest_group:
            problem = f"the pictures of its row group take {size:,} bytes"
            fix = "write the file with smaller row groups"
            raise InputError.at(where, problem, f"at most {self.largest_group:,}", fix)
        part = {"row_groups": [group], "columns": [pixels]}
        return content.iter_batches(self.rows_at_once, **part, use_threads=False)

    def place(self, image: int) -> str:
        file, group, row = self.positions[image].tolist()
        return f"{self.files[file]} row group {group} row {row}"


def open_parquet(file: Path, faults: list[Fault], *, buffer_size: int = 0) -> pq.ParquetFile:
    """Open a parquet file, to be read `buffer_size` bytes at a time; 0 reads whole columns of a row group."""
    plain_file(file, faults)
    try:
        content = pq.ParquetFile(file, memory_map=False, buffer_size=buffer_size, pre_buffer=not buffer_size)
        names = content.schema_arrow.names
    except DAMAGE as error:
        raise _damaged(file, error) from None
    if repeated := [name for name in names if names.count(name) > 1]:
        problem = f"has two columns {shown(repeated[0])}"
        raise InputError.at(file, problem, "every column name once", "rename or remove one of them")
    return content


def parquet_rows(
    content: pq.ParquetFile, file: Path, columns: Sequence[str] | None = None
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield (row group, row in it, column → value) for every row."""
    for group in range(content.num_row_groups):
        row = 0
        try:
            groups = {"row_groups": [group], "use_threads": False}
            for batch in content.iter_batches(ROWS_AT_ONCE, columns=columns, **groups):
                for values in batch.to_pylist():
                    yield group, row, values
                    row += 1
        except DAMAGE as error:
            raise _damaged(file, error) from None


def plain_columns(content: pq.ParquetFile) -> tuple[list[str], dict[str, str]]:
    """Return the columns of texts, numbers, dates and lists of texts, and title → reason of the others; a column split
    is among the first in any case."""
    unread = {}
    for column in content.schema_arrow:
        kind = str(column.type)
        if "struct" in kind or kind.startswith("map"):
            unread[column.name] = "objects within objects"
        elif "binary" in kind:
            unread[column.name] = "bytes"
        elif "list" in kind and ("float" in kind or "double" in kind):
            unread[column.name] = "vectors"
    plain = [name for name in content.schema_arrow.names if name not in unread or name == "split"]
    return plain, unread


def _damaged(file: Path, error: Exception) -> InputError:
    problem = "cannot be read as parquet: " + str(error).split("\n", 1)[0][:200]
    return InputError.at(file, problem, "a whole parquet file", "copy it again")


def picture_column(content: pq.ParquetFile) -> str:
    """Return the path of the picture column in an opened parquet file: "image.bytes" or "image"; "" without one."""
    schema = content.schema_arrow
    for name in IMAGES:
        kind = schema.field(name).type if schema.names.count(name) == 1 else pa.null()
        is_struct = pa.types.is_struct(kind)
        if is_struct:
            kind = kind.field("bytes").type if kind.names.count("bytes") == 1 else pa.null()
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return f"{name}.bytes" if is_struct else name
    return ""


def note_packed(positions: object, rows: np.ndarray) -> tuple[dict[str, Any], np.ndarray] | None:
    """Record the packed pictures of a split, (n,) rows of `positions`, for an analysis: a document for JSON, and (n, 3)
    int64 (file, then offset and bytes in a tar file, or row group and row in a parquet file). None for plain files."""
    if not isinstance(positions, TarMembers | ParquetRows):
        return None
    noted = positions.positions[rows]
    used, noted[:, 0] = np.unique(noted[:, 0], return_inverse=True)
    folder = Path(os.path.commonpath([file.absolute().parent for file in positions.files]))
    files = [positions.files[number].absolute() for number in used.tolist()]
    document = {
        "version": VERSION,
        "kind": KINDS[[TarMembers, ParquetRows, Base64Members].index(type(positions))],
        "folder": str(folder.resolve()),
        "files": [{"name": f.relative_to(folder).as_posix(), "bytes": f.stat().st_size} for f in files],
    }
    return document, noted


def names_digest(names: Sequence[str]) -> str:
    """Return the sha256 (hex) of image names, which shows whether a record of pictures belongs to them."""
    return hashlib.sha256("\n".join(names).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass
class PackedPictures:
    """Packed pictures of an opened analysis. No file is opened until a picture is requested."""

    folder: Path  # that must contain the files
    names: Sequence[str]  # of the files, relative to the folder
    sizes: Sequence[int]  # recorded bytes of each file
    store: TarMembers | ParquetRows  # reads the pictures
    _lock: Lock = field(default_factory=Lock, repr=False)

    def read(self, image: int) -> bytes:
        """Return a picture's file. InputError: its container is missing, outside the folder or of another size, or the
        picture cannot be read."""
        number = int(self.store.positions[image, 0])
        size = self.sizes[number]
        present = self._state(image)[0]
        if present != size:
            problem = f"has {present:,} bytes" if present else "there is no such file"
            fix = "restore it, or embed or evaluate the data again"
            expected = f"{size:,} bytes, as when the run was written"
            raise InputError.at(self.store.files[number], problem, expected, fix)
        with self._lock:  # the store continues where it last read
            return self.store.read(image)

    def place(self, image: int) -> str:
        """Return the location of a picture, for messages."""
        return self.store.place(image)

    def missing(self, images: Sequence[int]) -> list[int]:
        """Return the pictures whose container is missing or outside the folder."""
        return [image for image in images if not self.state(image)[0]]

    def state(self, image: int) -> tuple[int, int]:
        """Return a container's bytes and time of change in ns; (0, 0) if it is missing or outside the folder."""
        return collect(lambda: self._state(image), []) or (0, 0)

    def _state(self, image: int) -> tuple[int, int]:
        number = int(self.store.positions[image, 0])
        is_named = picture_path(self.folder, self.names[number]) == self.store.files[number]
        return self.store.state(image) if is_named else (0, 0)


Positions = Files | TarMembers | ParquetRows | PackedPictures


def open_packed(
    document: Mapping[str, Any], positions: np.ndarray, names: Sequence[str], where: str
) -> PackedPictures:
    """Open the pictures that `note_packed` recorded as `document`, read from the file `where`, and `positions`. The n
    `names` are for messages. InputError: another version, or invalid values."""
    kinds = {"version": int, "kind": str, "folder": str, "files": list}
    check_values(document, kinds, where)
    version = document.get("version")
    kind = document.get("kind")
    if version != VERSION or kind not in KINDS or not kinds.keys() <= document.keys():
        problem = f"records packed pictures of version {version!r:.20}, kind {kind!r:.20}"
        expected = f"version {VERSION}, kind {' or '.join(KINDS)}"
        raise InputError.at(where, problem, expected, "restore the file, or use the version that wrote it")

    folder = Path(document["folder"])
    restore = "restore the file"
    if not folder.is_absolute():
        raise InputError.at(f"{where} key folder", f"is {shown(str(folder))}", "an absolute path", restore)
    for entry in document["files"]:
        check_values(entry, {"name": str, "bytes": int}, f"{where} key files", least=0)
        if not {"name", "bytes"} <= entry.keys() or not entry["name"].endswith(f".{kind}"):
            problem = f"names {shown(str(entry.get('name')))}"
            raise InputError.at(f"{where} key files", problem, f"a .{kind} file and its bytes", restore)

    file_names = [entry["name"] for entry in document["files"]]
    files = [folder / name for name in file_names]
    if len(positions) and (positions.min() < 0 or positions[:, 0].max() >= len(files)):
        expected = "one for every file number in picture_positions.npy"
        raise InputError.at(where, f"names {len(files)} files", expected)

    of_bytes = Base64Members if kind == "tsv" else TarMembers
    store: TarMembers | ParquetRows = of_bytes(files, names, positions)
    if kind == "parquet":
        store = ParquetRows(files, names, positions, rows_at_once=1, largest_group=LARGEST_GROUP)

    return PackedPictures(folder, file_names, [entry["bytes"] for entry in document["files"]], store)
