"""Sealed folders: files beside a manifest with the sha256 of each.

`write_sealed` writes `manifest.json` last and fsyncs every file. The manifest has a checksum of itself, so a flipped
bit anywhere in the folder is detected.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import stat
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import DOCUMENT, plain_fault, read_plain, sync
from coder_core.files import manifest
from coder_core.files.arrays import check_header
from coder_core.files.atomic import appearing, cache_folder, locate
from coder_core.files.manifest import MANIFEST, damaged, file_sha256

if TYPE_CHECKING:
    from torch import Tensor

    Content = bytes | str | np.ndarray | Mapping[str, Tensor]

THREADS = 4  # for comparing files with the manifest
THREADED_BYTES = 1 << 22  # below, reading takes less time than starting threads
MAPPED_BYTES = 1 << 25  # of an array's file; smaller ones are read whole
# of a TOML file, in a line of it: parsing a key of n dots takes n² steps
TOML_BYTES = 1 << 16
DOTS = 200
_ROOM = 1 << 16  # bytes for the manifest and the headers of arrays
_DTYPE = re.compile(r"[<|][biuf][1248]")


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
        _seal(folder, {**({"arrays": shapes} if shapes else {}), **(about or {})})
    return path


class SealedFolder:
    """A sealed folder whose `manifest` is intact: "files" has bytes and sha256 of every file, "arrays" shape and dtype
    of every array."""

    def __init__(self, path: Path) -> None:
        """Read the manifest (InputError: missing or damaged. NewerFormatError: written by a newer version)."""
        self.path = locate(path)
        self.manifest = manifest.parse_manifest(self.path / MANIFEST)

    def check(
        self, names: Iterable[str] | None = None, *, digest: bool = True, remember: bool = False
    ) -> None:
        """Compare files (all if None) with the manifest: sizes, and with `digest` their sha256, in threads if they are
        large. With `remember`, a file that this process has read before is not read again while its size, time of
        change and inode are the same. InputError: names every file that is missing, cut or damaged."""
        sha256 = (manifest.remembered_sha256 if remember else file_sha256) if digest else None
        check = partial(self._check, sha256=sha256)
        files = self.manifest["files"]
        checked = list(files if names is None else names)
        if digest and sum(files[name]["bytes"] for name in checked if name in files) > THREADED_BYTES:
            with ThreadPoolExecutor(THREADS) as threads:
                faults = list(threads.map(check, checked))
        else:
            faults = [check(name) for name in checked]
        if any(faults):
            raise InputError([fault for fault in faults if fault])

    def read(self, name: str, most: int = DOCUMENT) -> bytes:
        """Read and verify one file of at most `most` bytes. InputError: it is larger, missing, cut or damaged."""
        self.check([name], digest=False)
        path = self.path / name
        try:
            content = read_plain(path, most)
        except OSError as error:
            raise InputError.at(path, f"cannot be read ({error.strerror})") from error
        if hashlib.sha256(content).hexdigest() != self.manifest["files"][name]["sha256"]:
            raise InputError(damaged(path))
        return content

    def document(self, name: str) -> Any:
        """Read and verify the value of `<name>.json`."""
        path = self._listed(f"{name}.json")
        with _parsing(path, "JSON"):
            return json.loads(self.read(path.name))

    @property
    def large_arrays(self) -> list[str]:
        """Files of the arrays that `array` itself verifies, on a copy, and maps."""
        files = self.manifest["files"]
        arrays = self.manifest.get("arrays", {})
        names = [f"{name}.npy" for name, entry in arrays.items() if 0 not in entry["shape"]]
        return [name for name in names if name in files and files[name]["bytes"] > MAPPED_BYTES]

    def array(self, name: str) -> np.ndarray:
        """Open `<name>.npy` read-only, with the shape and dtype in the manifest; a large one is mapped (`map_copy`)."""
        path = self._listed(f"{name}.npy")
        entry = self.manifest.get("arrays", {}).get(name)
        if entry is None:
            raise InputError.at(self.path / MANIFEST, f"has no array {name}")
        shape = tuple(entry["shape"])
        dtype = str(entry["dtype"])
        if not _DTYPE.fullmatch(dtype):
            raise InputError.at(path, f"has dtype {dtype}", "plain numbers")
        try:
            if path.name in self.large_arrays:
                array = map_copy(path, self.manifest["files"][path.name]["sha256"])
            else:
                check_header(path, path)
                array = np.load(path, allow_pickle=False)
        except InputError:
            raise
        except (ValueError, OSError, EOFError) as error:  # NumPy's message advises unpickling
            reason = "objects are never unpickled" if "pickle" in str(error) else error
            raise InputError.at(path, f"cannot be read ({reason})") from error
        if array.shape != shape or array.dtype.str != dtype:
            raise InputError.at(path, f"contains {array.dtype.str} {array.shape}", f"{dtype} {shape}")
        array.flags.writeable = False
        return array

    def _listed(self, name: str) -> Path:
        files = self.manifest["files"]
        if name not in files:
            raise InputError.at(self.path, f"has no {name}", f"one of {', '.join(files)}")
        return self.path / name

    def _check(self, name: str, *, sha256: Callable[[Path], str] | None) -> Fault | None:
        path = self.path / name
        entry = self.manifest["files"].get(name)
        if entry is None:
            return Fault(str(path), "is not listed in manifest.json")
        size = f"{entry['bytes']:,} bytes"
        try:
            status = path.lstat()
            if not stat.S_ISREG(status.st_mode):
                return plain_fault(path, status.st_mode)
            if status.st_size != entry["bytes"]:
                return Fault(str(path), f"has {status.st_size:,} bytes", f"{size}: the file was cut")
            return damaged(path) if sha256 is not None and sha256(path) != entry["sha256"] else None
        except OSError as error:
            return Fault(str(path), f"cannot be read ({error.strerror})", f"a file of {size}")


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


def read_toml(path: Path, name: str) -> dict[str, Any]:
    """Read and verify a TOML file of a sealed folder. InputError: as for `SealedFolder.read`, or it is not TOML, larger
    than 64 KiB or nested too deeply."""
    with _parsing(path / name, "TOML"):
        text = SealedFolder(path).read(name, TOML_BYTES).decode()
        if max(line.count(".") for line in text.split("\n")) > DOTS:
            raise RecursionError
        return tomllib.loads(text)


def map_copy(path: Path, sha256: str) -> np.ndarray:
    """Map the array of a `.npy` file read-only from a copy in the cache that nobody else can cut or change. Access to a
    mapped page that its file has lost kills the process (SIGBUS), which Python cannot catch. The copy is compared with
    the sha256, mapped and unlinked, so its disk space is freed with the array. InputError: the file has another sha256
    or is not an array of plain numbers, or the cache has no room for a copy."""
    folder = cache_folder()
    needed = 0
    try:
        needed = path.stat().st_size
        folder.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(folder).free) < needed:
            raise OSError(f"{needed:,} bytes are needed and {free:,} are free")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tmp-", suffix=".npy") as copy:
            shutil.copyfile(path, copy.name)
            if file_sha256(Path(copy.name)) != sha256:
                raise InputError(damaged(path))
            check_header(Path(copy.name), path)
            mapped: np.ndarray = np.load(copy.name, mmap_mode="r", allow_pickle=False)
            return mapped
    except OSError as error:
        problem = f"cannot be copied to {folder}: {error.strerror or error}"
        fix = "set CODER_CACHE to a folder with room"
        raise InputError.at(path, problem, f"room for {needed:,} bytes", fix) from error


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
    listed = {**about, "format": manifest.FORMAT, "files": files}
    (folder / MANIFEST).write_bytes(manifest.render_manifest(listed))
    for path in folder.iterdir():
        path.chmod(folder.stat().st_mode & 0o666)  # safetensors makes files private
        sync(path)
    sync(folder)
