"""A folder that appears whole or not at all, and that knows its own contents.

Written under a name that starts with `.tmp-` beside its place, every file fsynced, `manifest.json` (sizes and sha256)
last, then renamed, then the parent fsynced. The manifest carries a checksum of itself, so a flipped bit anywhere in the
folder is noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from coder_core.console.faults import Fault, InputError
from coder_core.runs.files import swap

FORMAT = 1
MANIFEST = "manifest.json"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class WriteError(InputError):
    """A folder could not be written; what was there before is untouched."""


def write_sealed(
    place: Path,
    fill: Callable[[Path], None],
    *,
    about: dict[str, Any] | None = None,
    needed: int = 0,
    replace: bool = False,
) -> Path:
    """Let `fill` write files into a temporary folder, seal it and move it to `place`.

    Args:
        place: where the folder will stand; its parent is made when missing.
        fill: writes plain files straight into the folder it is given.
        about: further keys of the manifest.
        needed: bytes `fill` is going to write, compared with the free space beforehand.
        replace: swap an existing folder out; otherwise an existing non-empty `place` is an error.

    Raises:
        WriteError: disk full, read-only folder, file-size limit; one sentence with bytes needed and free.
    """
    temporary: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        swap.clean(place.parent)
        _refuse_when_full(place, needed)
        temporary = swap.temporary_beside(place)
        temporary.mkdir()
        fill(temporary)
        _seal(temporary, about or {})
        swap.move(temporary, place, replace=replace)
    except OSError as error:
        raise _write_error(place, needed, error) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)
    return place


def write_file(path: Path, content: bytes) -> None:
    """Write and fsync one file."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a sealed folder.

    Raises:
        InputError: missing, damaged, or written by a newer version.
    """
    path = folder / MANIFEST
    try:
        raw = read_plain(path)
        manifest = json.loads(raw)
        intact = isinstance(manifest, dict) and render_manifest(manifest) == raw
    except OSError as error:
        raise InputError(Fault(str(path), f"cannot be read ({error.strerror})", "the manifest of a save")) from error
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise InputError(Fault(str(path), "is damaged: it does not match its own checksum", fix="restore the folder"))
    if manifest.get("format") != FORMAT:
        fault = Fault(
            str(path),
            f"has format {manifest.get('format')}",
            f"format {FORMAT}",
            "it was written by another version of this program; use that version, or update this one",
        )
        raise NewerFormatError(fault)
    _check_entries(path, manifest.get("files"))
    return manifest


class NewerFormatError(InputError):
    """The folder is intact, but a newer version of this program wrote it."""


def render_manifest(manifest: dict[str, Any]) -> bytes:
    """The only spelling of a manifest: sorted keys, two spaces, `self` = sha256 of everything else."""
    rest = {key: value for key, value in manifest.items() if key != "self"}
    plain = json.dumps(rest, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    rest["self"] = hashlib.sha256(plain.encode()).hexdigest()
    return (json.dumps(rest, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n").encode()


def check_files(
    folder: Path, manifest: dict[str, Any], names: Iterable[str] | None = None, *, digest: bool = True
) -> list[Fault]:
    """Compare the files with their manifest: sizes, and with `digest` their sha256."""
    faults = []
    for name in manifest["files"] if names is None else names:
        entry = manifest["files"].get(name)
        fault = _check_file(folder / name, entry, digest) if entry else _not_listed(folder / name)
        if fault:
            faults.append(fault)
    return faults


def read_checked(folder: Path, name: str) -> bytes:
    """The bytes of one file of a sealed folder, verified against its manifest."""
    entry = read_manifest(folder)["files"].get(name)
    if entry is None:
        raise InputError(_not_listed(folder / name))
    fault = _check_file(folder / name, entry, digest=False)
    content = b"" if fault else read_plain(folder / name)
    if not fault and hashlib.sha256(content).hexdigest() != entry["sha256"]:
        fault = _damaged(folder / name)
    if fault:
        raise InputError(fault)
    return content


def read_plain(path: Path) -> bytes:
    """The bytes of a regular file; a link, a device or a pipe is refused."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(Fault(str(path), "is not a plain file"))
        return file.read()


def _check_entries(path: Path, files: Any) -> None:
    """A manifest that somebody made up must not lead out of its folder."""
    entries = files.items() if isinstance(files, dict) else [("", None)]
    for name, entry in entries:
        sound = isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and isinstance(entry.get("sha256"), str)
        if not sound or not _PLAIN_NAME.fullmatch(name):
            raise InputError(Fault(str(path), f"lists {name!r}", "file names with their bytes and sha256"))


def _seal(folder: Path, about: dict[str, Any]) -> None:
    files = {}
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        files[path.name] = {"bytes": path.stat().st_size, "sha256": digest}
    write_file(folder / MANIFEST, render_manifest({**about, "format": FORMAT, "files": files}))
    swap.sync_folder(folder)


def _check_file(path: Path, entry: dict[str, Any], digest: bool) -> Fault | None:
    try:
        information = path.lstat()
    except OSError as error:
        return Fault(str(path), f"cannot be read ({error.strerror})", f"a file of {entry['bytes']:,} bytes")
    if not stat.S_ISREG(information.st_mode):
        return Fault(str(path), "is not a plain file")
    if information.st_size != entry["bytes"]:
        return Fault(str(path), f"has {information.st_size:,} bytes", f"{entry['bytes']:,} bytes; the file is cut")
    if digest:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != entry["sha256"]:
                return _damaged(path)
    return None


def _damaged(path: Path) -> Fault:
    return Fault(str(path), "is damaged: its contents do not match the sha256 in manifest.json")


def _not_listed(path: Path) -> Fault:
    return Fault(str(path), "is not listed in manifest.json")


def _refuse_when_full(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place.parent).free
    if needed > free:
        raise WriteError(Fault(str(place), *_full(needed, free)))


def _write_error(place: Path, needed: int, error: OSError) -> WriteError:
    existing = next(folder for folder in place.parents if folder.exists())
    free = shutil.disk_usage(existing).free
    found, expected, fix = _full(needed, free)
    reason = error.strerror or str(error)
    return WriteError(Fault(str(place), f"could not be written ({reason}): {found}", expected, fix))


def _full(needed: int, free: int) -> tuple[str, str, str]:
    return (
        f"{needed:,} bytes are needed and {free:,} are free",
        "",
        "earlier saves are intact; make room or choose another folder",
    )
