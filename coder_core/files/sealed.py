"""Sealed folders: files beside a manifest with the size and sha256 of each, so that damage is detected and named.

`write_sealed` writes `manifest.json` last and fsyncs every file. The manifest has a checksum of itself, so a flipped
bit anywhere in the folder is detected. Sizes are compared before anything is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import (
    DOCUMENT,
    LARGEST,
    check_values,
    excerpt,
    parse_document,
    plain_fault,
    read_plain,
    sync,
)
from coder_core.files.atomic import appearing, locate, settled

if TYPE_CHECKING:
    from torch import Tensor

    Content = bytes | str | np.ndarray | Mapping[str, Tensor]

FORMAT = 1
MANIFEST = "manifest.json"
MANIFEST_BYTES = 1 << 16  # at most; a listing reads the manifests of all runs
THREADS = 4  # for comparing files with the manifest
THREADED_BYTES = 1 << 22  # below, reading takes less time than starting threads
MAPPED_BYTES = 1 << 25  # of an array's file; smaller ones are read whole
LONGEST_HEADER = 1 << 12  # bytes of the header of a .npy file that this program writes
TOML_BYTES = 1 << 15
# in a line, and lines that begin a table, of a TOML file: parsing n of them takes n² steps
DOTS = 100
TABLES = 1000
BAD_SYNTAX = (ValueError, TypeError, SyntaxError, TokenError, LookupError)
HEADER_ERRORS = (*BAD_SYNTAX, EOFError, RecursionError, MemoryError, OverflowError)
_ROOM = 1 << 16  # bytes for the manifest and the headers of arrays
_DTYPE = re.compile(r"[<|][biuf][1248]")
_TABLE = re.compile(
    r"\s*\[.*\]\s*(#.*)?"
)  # a line that begins a table, not an array's line, which ends in a comma
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_SELF = re.compile(
    rb',\n  "self": "([0-9a-f]{64})"'
)  # the line of a manifest with the checksum of all other bytes
_digests: dict[Path, tuple[tuple[int, ...], str]] = {}


class NewerFormatError(InputError):
    """The folder is intact, but another version of this program wrote it."""


def write_sealed(
    path: Path, files: Mapping[str, Content], *, about: Mapping[str, Any] | None = None, replace: bool = False
) -> Path:
    """Write and seal a folder of files: name → bytes, text, an array (`.npy`) or named tensors (`.safetensors`).

    `about`: further keys of the manifest, which also has the shape and dtype of every array. InputError: the folder
    exists and is not empty, and `replace` is false. WriteError: disk full, read-only folder or file-size limit; names
    the bytes needed and free.
    """
    contents = {name: file.encode() if isinstance(file, str) else file for name, file in files.items()}
    with appearing(path, replace=replace, needed=_ROOM + sum(map(_size, contents.values()))) as folder:
        shapes = {}
        for name, content in contents.items():
            _write(folder / name, content)
            if isinstance(content, np.ndarray):
                shapes[name[:-4]] = {"shape": list(content.shape), "dtype": content.dtype.str}
        arrays = {"arrays": shapes} if shapes else {}
        _seal(folder, {**arrays, **(about or {})})
    return path


class SealedFolder:
    """A sealed folder whose `manifest` is intact: "files" has bytes and sha256 of every file, "arrays" shape and dtype
    of every array. `manifest_sha256` changes with any byte of any file."""

    def __init__(self, path: Path) -> None:
        """Read the manifest (InputError: missing or damaged. NewerFormatError: written by a newer version)."""
        self.path = locate(path)
        self.manifest, self.manifest_sha256 = _read_manifest(self.path / MANIFEST)

    def check(
        self, names: Iterable[str] | None = None, *, digest: bool = True, remember: bool = False
    ) -> None:
        """Compare files with the manifest: first the sizes of all, then their sha256.

        Args:
            names: the files; None for all.
            digest: also compare their sha256, in threads if they are large.
            remember: do not read a file again that this process has read, while its size, time of change and inode are
                the same.

        Raises:
            InputError: names every file that is missing, cut or damaged.
        """
        checked = list(self.manifest["files"] if names is None else names)
        _raise([self._size_fault(name) for name in checked])
        if not digest:
            return

        def fault(name: str) -> Fault | None:
            return self._digest_fault(name, _remembered_sha256 if remember else file_sha256)

        total = sum(self.manifest["files"][name]["bytes"] for name in checked)
        if total <= THREADED_BYTES:
            _raise(map(fault, checked))
            return
        with ThreadPoolExecutor(THREADS) as threads:
            _raise(threads.map(fault, checked))

    def read(self, name: str, most: int = DOCUMENT) -> bytes:
        """Read and verify one file of at most `most` bytes. InputError: it is larger, missing, cut or damaged."""
        self.check([name], digest=False)
        path = self.path / name
        try:
            content = read_plain(path, most)
        except OSError as error:
            raise InputError.at(path, f"cannot be read ({error.strerror})") from error
        if hashlib.sha256(content).hexdigest() != self.manifest["files"][name]["sha256"]:
            raise InputError(_damaged(path))
        return content

    def document(self, name: str, most: int = DOCUMENT) -> Any:
        """Read and verify the value of `<name>.json`, a file of at most `most` bytes."""
        path = self._listed(f"{name}.json")
        with _parsing(path, "JSON"):
            return parse_document(self.read(path.name, most))

    def array(self, name: str) -> np.ndarray:
        """Open `<name>.npy` read-only, with the shape and dtype in the manifest; a large one is mapped. Its contents
        are not verified: `check` does that."""
        path = self._listed(f"{name}.npy")
        entry = self.manifest.get("arrays", {}).get(name)
        if entry is None:
            raise InputError.at(self.path / MANIFEST, f"has no array {name}")

        shape = tuple(entry["shape"])
        dtype = str(entry["dtype"])
        if not _DTYPE.fullmatch(dtype):
            raise InputError.at(path, f"has dtype {dtype}", "plain numbers")

        check_header(path)
        large = self.manifest["files"][path.name]["bytes"] > MAPPED_BYTES and 0 not in shape
        try:
            array: np.ndarray = np.load(path, mmap_mode="r" if large else None, allow_pickle=False)
        except FileNotFoundError:
            raise InputError.at(path, "is missing") from None
        if array.shape != shape or array.dtype.str != dtype:
            raise InputError.at(path, f"contains {array.dtype.str} {array.shape}", f"{dtype} {shape}")

        array.flags.writeable = False
        return array

    def _listed(self, name: str) -> Path:
        files = self.manifest["files"]
        if name not in files:
            raise InputError.at(self.path, f"has no {name}", f"one of {', '.join(files)}")
        return self.path / name

    def _size_fault(self, name: str) -> Fault | None:
        path = self.path / name
        entry = self.manifest["files"].get(name)
        if entry is None:
            return Fault(str(path), "is not listed in manifest.json")

        size = f"{entry['bytes']:,} bytes"
        try:
            status = path.lstat()
        except OSError as error:
            return Fault(str(path), f"cannot be read ({error.strerror})", f"a file of {size}")
        if not stat.S_ISREG(status.st_mode):
            return plain_fault(path, status.st_mode)
        if status.st_size != entry["bytes"]:
            return Fault(str(path), f"has {status.st_size:,} bytes", f"{size}: the file was cut")
        if path.suffix in (".json", ".toml") and status.st_size > DOCUMENT:
            return Fault(str(path), f"has {size}", f"at most {DOCUMENT:,}")

        return None

    def _digest_fault(self, name: str, sha256: Callable[[Path], str]) -> Fault | None:
        path = self.path / name
        entry = self.manifest["files"][name]
        try:
            return None if sha256(path) == entry["sha256"] else _damaged(path)
        except OSError as error:
            return Fault(
                str(path), f"cannot be read ({error.strerror})", f"a file of {entry['bytes']:,} bytes"
            )


def read_toml(path: Path, name: str) -> dict[str, Any]:
    """Read and verify a TOML file of a sealed folder. InputError: as for `SealedFolder.read`, or it is not TOML, larger
    than 32 KiB or nested too deeply."""
    with _parsing(path / name, "TOML"):
        text = SealedFolder(path).read(name, TOML_BYTES).decode()
        lines = text.split("\n")
        tables = sum(_TABLE.fullmatch(line) is not None for line in lines)
        if tables > TABLES or max(line.count(".") for line in lines) > DOTS:
            raise RecursionError
        return tomllib.loads(text)


def render_manifest(manifest: Mapping[str, Any]) -> bytes:
    """Format a manifest as indented JSON. `self` becomes the sha256 of the text without the line of `self`."""
    rest = {key: value for key, value in manifest.items() if key != "self"}
    checksum = hashlib.sha256(_format(rest).encode()).hexdigest()
    return f"{_format({**rest, 'self': checksum})}\n".encode()


def _format(manifest: Mapping[str, Any]) -> str:
    return json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)


def _read_manifest(path: Path) -> tuple[dict[str, Any], str]:
    """Read a manifest and the sha256 of its file. InputError: missing, damaged or forged. NewerFormatError: of another
    version."""
    try:
        content = read_plain(path, MANIFEST_BYTES)
    except OSError as error:
        fix = "restore it; to continue a run, it must have been trained here"
        raise InputError.at(path, f"cannot be read ({error.strerror})", "a manifest", fix) from error
    own = _SELF.search(content)
    rest = _SELF.sub(b"", content, count=1).removesuffix(b"\n")
    if own is None or hashlib.sha256(rest).hexdigest().encode() != own[1]:
        raise InputError.at(path, "is damaged: it does not match its own checksum", fix="restore the folder")
    with _parsing(path, "a manifest"):
        manifest = parse_document(content)
        _check_manifest(manifest, path)
    return manifest, hashlib.sha256(content).hexdigest()


def _check_manifest(manifest: Any, path: Path) -> None:
    """Check what a manifest lists. A forged name must not lead out of the folder, a forged size not take time."""
    check_values(manifest, {}, str(path))
    if manifest.get("format") != FORMAT:
        fix = "it was written by another version of this program; use that version, or update this one"
        raise NewerFormatError.at(path, f"has format {manifest.get('format')!r:.80}", f"format {FORMAT}", fix)

    files = manifest.get("files")
    if not isinstance(files, dict):
        raise InputError.at(path, "lists no files", "file names with their bytes and sha256")
    for name, entry in files.items():
        check_values(entry, {"bytes": int, "sha256": str}, f"{path} key files, {name[:80]}", least=0)
        if not {"bytes", "sha256"} <= set(entry) or not _PLAIN_NAME.fullmatch(name):
            raise InputError.at(path, f"lists {name[:80]!r}", "file names with their bytes and sha256")

    check_values(manifest, {"arrays": dict}, str(path))
    for name, entry in manifest.get("arrays", {}).items():
        place = f"{path} key arrays, {name[:80]}"
        check_values(entry, {"shape": list, "dtype": str}, place)
        shape = entry.get("shape", [-1])
        if "dtype" not in entry or not all(type(size) is int and 0 <= size < LARGEST for size in shape):
            raise InputError.at(place, "has no shape and dtype", "sizes, and a numeric dtype")
        if _DTYPE.fullmatch(entry["dtype"]) and (file := files.get(f"{name}.npy")):
            content = math.prod(shape) * int(entry["dtype"][-1])
            if not content < file["bytes"] <= content + LONGEST_HEADER:
                problem = f"has shape {excerpt(shape)} and {file['bytes']:,} bytes"
                raise InputError.at(path.with_name(f"{name}.npy"), problem, f"{content:,} bytes and a header")


@contextmanager
def _parsing(path: Path, form: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except RecursionError:
        raise InputError.at(path, "is nested too deeply", form) from None
    except ValueError as error:
        raise InputError.at(path, f"cannot be read: {error}", form) from None


def read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the shape, True for Fortran order, and the dtype of an open `.npy` file; raises any of `HEADER_ERRORS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # headers written by Python 2 are legal
        version = npy.read_magic(file)
        read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        return read(file)


def check_header(path: Path) -> None:
    """Check that a `.npy` file holds as many plain numbers as its header declares, before anything is allocated.
    InputError: it does not, its header cannot be read, or it is a pickle or an archive."""
    try:
        with path.open("rb") as file:
            shape, _, dtype = read_header(file)
            expected = file.tell() + math.prod(shape) * dtype.itemsize
        size = path.stat().st_size
    except (*HEADER_ERRORS, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise InputError.at(path, f"cannot be read ({reason})", "an array in a .npy file") from None
    if dtype.hasobject:
        raise InputError.at(path, "cannot be read (objects are never unpickled)")
    if size != expected:
        problem = f"has {size:,} bytes, but its header declares {dtype!s:.80} {excerpt(shape)}"
        raise InputError.at(path, problem, "a file as long as its header declares", "write the array again")


def file_sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remembered_sha256(path: Path) -> str:
    """Return `file_sha256`, from memory if the file has not changed since. A file changed in the last two seconds is
    not remembered, because another change might get the same time."""
    status = path.stat()
    signature = status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
    if (remembered := _digests.get(path)) and remembered[0] == signature:
        return remembered[1]
    digest = file_sha256(path)
    if settled(status.st_mtime_ns):
        _digests[path] = signature, digest
    return digest


def _damaged(path: Path) -> Fault:
    fix = "restore it from a copy, or write it again: an analysis with coder-lab evaluate"
    return Fault(str(path), "is damaged: its contents do not match the sha256 in manifest.json", fix=fix)


def _raise(faults: Iterable[Fault | None]) -> None:
    found = [fault for fault in faults if fault is not None]
    if found:
        raise InputError(found)


def _size(content: Any) -> int:
    if isinstance(content, Mapping):
        return sum(tensor.nbytes for tensor in content.values())
    return len(content) if isinstance(content, bytes) else int(content.nbytes)


def _write(path: Path, content: Any) -> None:
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif isinstance(content, np.ndarray):
        np.save(path, np.ascontiguousarray(content), allow_pickle=False)
    else:
        _write_tensors(path, content)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors; those that share memory (tied weights, views) are each written in full."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

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


def _seal(folder: Path, about: Mapping[str, Any]) -> None:
    """List every file in the manifest, give all files the folder's permissions, and fsync them."""
    paths = sorted(folder.iterdir())
    files = {path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)} for path in paths}
    (folder / MANIFEST).write_bytes(render_manifest({**about, "format": FORMAT, "files": files}))
    for path in folder.iterdir():
        path.chmod(folder.stat().st_mode & 0o666)  # safetensors makes files private
        sync(path)
    sync(folder)
