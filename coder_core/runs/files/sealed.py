"""Folders that appear complete or not at all, and that know their own contents.

A folder is filled under a `.tmp-` name beside its place, every file fsynced, `manifest.json` (sizes and sha256) written
last, then renamed, then the parent fsynced. A folder that is replaced stands aside between two renames, where readers
find it. The manifest carries a checksum of itself, so a flipped bit anywhere in the folder is noticed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coder_core.console.documents import check_values
from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import DOCUMENT, open_plain, plain_fault, read_plain

if TYPE_CHECKING:
    from torch import Tensor

    Content = bytes | str | np.ndarray | Mapping[str, Tensor]

FORMAT = 1
MANIFEST = "manifest.json"
THREADS = 4  # that read files to compare them with the manifest
SETTLED = 2_000_000_000  # nanoseconds after which a change leaves a file another time than the one before
_digests: dict[Path, tuple[tuple[int, ...], str]] = {}
_ROOM = 1 << 16  # bytes for the manifest and the headers of arrays
_UNFINISHED = re.compile(r"\.tmp-.+-\d+-[0-9a-f]{8}")
_ASIDE = re.compile(r"\.tmp-(.+)-old")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_DTYPE = re.compile(r"[<|][biuf][1248]")


class WriteError(InputError):
    """A folder could not be written; what was there before is untouched."""


class NewerFormatError(InputError):
    """The folder is intact, but a newer version of this program wrote it."""


def write_sealed(
    place: Path, files: Mapping[str, Content], *, about: Mapping[str, Any] | None = None, replace: bool = False
) -> Path:
    """Write a folder with these files and seal it.

    Args:
        place: where the folder will stand; its parent is made when missing.
        files: name → bytes, text, an array (`.npy`) or named tensors (`.safetensors`).
        about: further keys of the manifest. Shape and dtype of every array are added to them.
        replace: an existing folder is replaced; otherwise it is an error.

    Raises:
        InputError: a folder with something in it stands there.
        WriteError: disk full, read-only folder, file-size limit; one sentence with bytes needed and free.
    """
    contents = {name: file.encode() if isinstance(file, str) else file for name, file in files.items()}
    with appearing(place, replace=replace, needed=_ROOM + sum(map(_size, contents.values()))) as folder:
        for name, content in contents.items():
            _write(folder / name, content)
        arrays = {name[:-4]: array for name, array in contents.items() if isinstance(array, np.ndarray)}
        shapes = {name: {"shape": list(array.shape), "dtype": array.dtype.str} for name, array in arrays.items()}
        _seal(folder, {**({"arrays": shapes} if arrays else {}), **(about or {})})
    return place


@contextmanager
def appearing(place: Path, *, replace: bool = False, needed: int = 0) -> Iterator[Path]:
    """A temporary folder that becomes `place` at the end of the block, or goes when the block raises.

    Args:
        place: where the folder will stand.
        replace: an existing folder is replaced; otherwise it is an error.
        needed: bytes that will be written, compared with the free space beforehand.

    Raises:
        InputError, WriteError: as for `write_sealed`.
    """
    temporary = _temporary(place)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(place.parent):
            if not replace and place.exists() and (not place.is_dir() or any(place.iterdir())):
                fix = "choose another name, or continue the run that is there"
                raise InputError(Fault(str(place), "exists and is not empty", "a free place", fix))
            if needed > shutil.disk_usage(place.parent).free:
                raise _write_error(place, needed)
            temporary.mkdir()
            yield temporary
            _move(temporary, place)
    except OSError as error:
        raise _write_error(place, needed, error.strerror or str(error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def replace_file(path: Path, text: str) -> None:
    """Replace a small file in one step. It has one writer at a time, who overwrites what a killed one left.

    Raises:
        WriteError: disk full or read-only folder.
    """
    temporary = path.with_name(f".tmp-{path.name}")
    try:
        with os.fdopen(open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise WriteError(Fault(str(path), f"could not be written ({error.strerror})")) from error


def remove(place: Path) -> None:
    """Remove a folder in one step (rename), then delete it: no reader meets half of it."""
    temporary = _temporary(place)
    place.rename(temporary)
    shutil.rmtree(temporary, ignore_errors=True)


def clean(parent: Path) -> None:
    """Remove what killed writers left in a folder, and put back what one of them had set aside.

    The caller is the only one that writes there.
    """
    for path in sorted(parent.glob(".tmp-*")):
        if path.is_symlink() or not path.is_dir():
            continue
        aside = _ASIDE.fullmatch(path.name)
        if aside and not (parent / aside[1]).exists():
            path.rename(parent / aside[1])
        elif aside or _UNFINISHED.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def locate(place: Path) -> Path:
    """Where the folder of this name can be read: at its place, or aside while it is being replaced."""
    return next((folder for folder in (place, _aside(place), place) if folder.is_dir()), place)


def identity(place: Path) -> tuple[Path, int, int] | None:
    """Changes when a folder moves or is replaced; None without one. A reader that fails meanwhile reads again."""
    folder = locate(place)
    with suppress(OSError):
        information = folder.stat()
        return folder, information.st_ino, information.st_mtime_ns
    return None


def folder_names(parent: Path) -> list[str]:
    """The folders in `parent` that `locate` finds, sorted. A link is none.

    A folder renamed while the names are read can be missed, so they are read until two readings agree.
    """
    before, names = None, _folder_names(parent)
    while names != before:
        before, names = names, _folder_names(parent)
    return names


def _folder_names(parent: Path) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        if parent.is_dir():
            raise
        return []
    return sorted({aside[1] if (aside := _ASIDE.fullmatch(name)) else name for name in names})


class SealedFolder:
    """A sealed folder whose manifest is intact.

    Attributes:
        path: where it stands.
        manifest: its manifest; "files" has bytes and sha256 of every file, "arrays" shape and dtype of every array.
    """

    def __init__(self, place: Path) -> None:
        """Read the manifest.

        Raises:
            InputError: missing or damaged.
            NewerFormatError: written by a newer version.
        """
        self.path = locate(place)
        self.manifest = _read_manifest(self.path / MANIFEST)

    def check(self, names: Iterable[str] | None = None, *, digest: bool = True, remember: bool = False) -> None:
        """Compare files with the manifest: sizes, and with `digest` their sha256.

        Args:
            names: of the files; all when None.
            digest: compare sha256 too. Files are read in threads.
            remember: a file that this process has read before, and whose size, time of change and inode are the same
                since, is not read again.

        Raises:
            InputError: names every file that is missing, cut or damaged.
        """
        check = partial(self._check, sha256=(_remembered_sha256 if remember else _sha256) if digest else None)
        with ThreadPoolExecutor(THREADS) as threads:
            faults = list(threads.map(check, self.manifest["files"] if names is None else names))
        if any(faults):
            raise InputError([fault for fault in faults if fault])

    def read(self, name: str) -> bytes:
        """The bytes of one file, verified."""
        self.check([name], digest=False)
        try:
            content = read_plain(self.path / name, DOCUMENT)
        except OSError as error:
            raise InputError(Fault(str(self.path / name), f"cannot be read ({error.strerror})")) from error
        if hashlib.sha256(content).hexdigest() != self.manifest["files"][name]["sha256"]:
            raise InputError(_damaged(self.path / name))
        return content

    def document(self, name: str) -> Any:
        """The value of `<name>.json`, verified."""
        path = self._listed(f"{name}.json")
        content = self.read(path.name)
        try:
            return json.loads(content)
        except RecursionError:
            raise InputError(Fault(str(path), "is nested too deeply")) from None
        except ValueError as error:
            raise InputError(Fault(str(path), f"cannot be read: {error}", "JSON")) from None

    def array(self, name: str) -> np.ndarray:
        """`<name>.npy`, memory-mapped, read-only, of the shape and dtype in the manifest."""
        path, entry = self._listed(f"{name}.npy"), self.manifest.get("arrays", {}).get(name)
        if entry is None:
            raise InputError(Fault(str(self.path / MANIFEST), f"has no array {name}"))
        shape, dtype = tuple(entry["shape"]), str(entry["dtype"])
        if not _DTYPE.fullmatch(dtype):
            raise InputError(Fault(str(path), f"has dtype {dtype}", "plain numbers"))
        try:
            array: np.ndarray = np.load(path, mmap_mode="r" if 0 not in shape else None, allow_pickle=False)
        except (ValueError, OSError, EOFError) as error:
            raise InputError(Fault(str(path), f"cannot be read ({error})")) from error
        if array.shape != shape or array.dtype.str != dtype:
            raise InputError(Fault(str(path), f"holds {array.dtype.str} {array.shape}", f"{dtype} {shape}"))
        return array

    def _listed(self, name: str) -> Path:
        if name not in self.manifest["files"]:
            raise InputError(Fault(str(self.path), f"holds no {name}", f"one of {', '.join(self.manifest['files'])}"))
        return self.path / name

    def _check(self, name: str, *, sha256: Callable[[Path], str] | None) -> Fault | None:
        path, entry = self.path / name, self.manifest["files"].get(name)
        if entry is None:
            return Fault(str(path), "is not listed in manifest.json")
        try:
            information = path.lstat()
            if not stat.S_ISREG(information.st_mode):
                return plain_fault(path, information.st_mode)
            if information.st_size != entry["bytes"]:
                expected = f"{entry['bytes']:,} bytes; the file is cut"
                return Fault(str(path), f"has {information.st_size:,} bytes", expected)
            return _damaged(path) if sha256 is not None and sha256(path) != entry["sha256"] else None
        except OSError as error:
            return Fault(str(path), f"cannot be read ({error.strerror})", f"a file of {entry['bytes']:,} bytes")


def read_manifest(place: Path) -> dict[str, Any]:
    """The manifest of a sealed folder; errors as for `SealedFolder`."""
    return SealedFolder(place).manifest


def read_checked(place: Path, name: str) -> bytes:
    """The bytes of one file of a sealed folder, verified.

    Raises:
        InputError: not there, cut or damaged, with the file named.
    """
    return SealedFolder(place).read(name)


def read_toml(place: Path, name: str) -> dict[str, Any]:
    """The tables of a TOML file of a sealed folder, verified; errors as for `read_checked`, or it is not TOML."""
    try:
        return tomllib.loads(read_checked(place, name).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(Fault(str(place / name), f"cannot be read: {error}", "TOML")) from None
    except RecursionError:
        raise InputError(Fault(str(place / name), "is nested too deeply", "TOML")) from None


def render_manifest(manifest: dict[str, Any]) -> bytes:
    """The only spelling of a manifest: sorted keys, two spaces, `self` = sha256 of everything else."""
    spell = partial(json.dumps, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    rest = {key: value for key, value in manifest.items() if key != "self"}
    checksum = hashlib.sha256(spell(rest).encode()).hexdigest()
    return f"{spell({**rest, 'self': checksum})}\n".encode()


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        raw = read_plain(path)
        manifest = json.loads(raw)
        intact = isinstance(manifest, dict) and render_manifest(manifest) == raw
    except OSError as error:
        raise InputError(Fault(str(path), f"cannot be read ({error.strerror})", "the manifest of a save")) from error
    except InputError:
        raise
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise InputError(Fault(str(path), "is damaged: it does not match its own checksum", fix="restore the folder"))
    if manifest.get("format") != FORMAT:
        fix = "it was written by another version of this program; use that version, or update this one"
        raise NewerFormatError(Fault(str(path), f"has format {manifest.get('format')}", f"format {FORMAT}", fix))
    files = manifest.get("files")
    for name, entry in files.items() if isinstance(files, dict) else [("", None)]:  # a made-up one must not lead out
        check_values(entry, {"bytes": int, "sha256": str}, f"{path} key files, {name[:80]}", least=0)
        if not isinstance(entry, dict) or not {"bytes", "sha256"} <= set(entry) or not _PLAIN_NAME.fullmatch(name):
            raise InputError(Fault(str(path), f"lists {name[:80]!r}", "file names with their bytes and sha256"))
    check_values(manifest, {"arrays": dict}, str(path))
    for name, entry in manifest.get("arrays", {}).items():
        check_values(entry, {"shape": list, "dtype": str}, f"{path} key arrays, {name[:80]}")
        shape = entry.get("shape")
        if "dtype" not in entry or not _is_shape(shape):
            place = f"{path} key arrays, {name[:80]}"
            raise InputError(Fault(place, "has no shape and dtype", "sizes, and a type of number"))
    return manifest


def _is_shape(shape: Any) -> bool:
    """Whether this is a list of sizes."""
    if not isinstance(shape, list):
        return False
    return all(isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape)


@contextmanager
def _only_writer(parent: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel drops when its process dies.

    Whoever holds it removes what killed writers left. On a file system without such locks nobody waits, and it stays.
    """
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            clean(parent)
        yield
    finally:
        os.close(descriptor)


def _move(temporary: Path, place: Path) -> None:
    aside = _aside(place)
    if place.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
        place.rename(aside)
    temporary.rename(place)
    _sync(place.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _temporary(place: Path) -> Path:
    return place.with_name(f".tmp-{place.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _aside(place: Path) -> Path:
    return place.with_name(f".tmp-{place.name}-old")


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
    """Tensors that share memory (tied weights, views) are written out each on its own."""
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
    """Make every file durable and readable as the folder is, and list them in the manifest."""
    files = {path.name: {"bytes": path.stat().st_size, "sha256": _sha256(path)} for path in sorted(folder.iterdir())}
    (folder / MANIFEST).write_bytes(render_manifest({**about, "format": FORMAT, "files": files}))
    for path in folder.iterdir():
        path.chmod(folder.stat().st_mode & 0o666)  # safetensors makes files private
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Make the contents of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remembered_sha256(path: Path) -> str:
    """`_sha256`, from memory when the file has not changed since. One changed in the last two seconds is not
    remembered: another change might leave it the same time."""
    status = path.stat()
    signature = status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
    if (known := _digests.get(path)) and known[0] == signature:
        return known[1]
    digest = _sha256(path)
    if time.time_ns() - status.st_mtime_ns > SETTLED:
        _digests[path] = signature, digest
    return digest


def _damaged(path: Path) -> Fault:
    found = "is damaged: its contents do not match the sha256 in manifest.json"
    return Fault(
        str(path), found, fix="restore it from a copy, or write it again: an analysis with coder_core.evaluate"
    )


def _write_error(place: Path, needed: int, reason: str = "") -> WriteError:
    free = shutil.disk_usage(next(folder for folder in place.parents if os.access(folder, os.F_OK))).free
    found = f"{needed:,} bytes are needed and {free:,} are free"
    fix = "earlier saves are intact; make room or choose another folder"
    return WriteError(Fault(str(place), f"could not be written ({reason}): {found}" if reason else found, fix=fix))
