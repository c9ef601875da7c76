"""Open and replace plain files in untrusted folders without following links. Check that a result can be written."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from coder_core.console.faults import MOST_FAULTS_SHOWN, Fault, InputError

SMALL = 1 << 24  # bytes of a configuration, a status, a manifest, a job
DOCUMENT = 1 << 28  # of captions, vocabularies, histories
MISSING_RUN = Fault("RUN", "is missing", "one or more run folders", "for example checkpoints/coder-demo")
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def check_plain(folder: Path, in_place: Iterable[str] = ()) -> None:
    """Check, before the first write, that a folder has only plain files and folders, at any depth.

    Data written through a link or a pipe would end up elsewhere. A missing folder is not a fault; the folder itself may
    be a link, because the caller named it. InputError: names up to 20 links, pipes, sockets, devices and hard links,
    and folders that cannot be read.

    Args:
        folder: the folder.
        in_place: names of its files that are changed in place, so they must not be hard links. All others are
            replaced.
    """
    faults = [fault for fault, _ in zip(_faults(Path(folder)), range(MOST_FAULTS_SHOWN), strict=False)]
    for path in (Path(folder) / name for name in in_place):
        with suppress(OSError):
            if _has_other_names(path.lstat()):
                faults.append(_hard_link_fault(path))
    if faults:
        raise InputError(faults)


def open_plain(path: Path, flags: int) -> int:
    """Open a regular file without following a link or waiting for a pipe, and return its descriptor.

    A file with more than one name (a hard link) can be read but not written.

    Args:
        path: the file.
        flags: of `os.open`; with O_CREAT a missing file is created.

    Raises:
        InputError: it is a link, a pipe, a socket, a device or a folder, or a hard link for writing.
        OSError: missing, or not permitted.
    """
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    try:
        status = path.lstat()
    except FileNotFoundError:
        status = None
    if status is not None and not stat.S_ISREG(status.st_mode):  # opening a device may have effects
        raise InputError(plain_fault(path, status.st_mode))
    descriptor = os.open(path, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    status = os.fstat(descriptor)
    fault = None if stat.S_ISREG(status.st_mode) else plain_fault(path, status.st_mode)
    if fault is None and writes and _has_other_names(status):
        fault = _hard_link_fault(path)
    if fault is not None:
        os.close(descriptor)
        raise InputError(fault)
    if flags & os.O_TRUNC:
        os.ftruncate(descriptor, 0)
    return descriptor


def read_plain(path: Path, most: int = SMALL) -> bytes:
    """Read a regular file of at most `most` bytes.

    Raises:
        InputError: not a regular file, or larger.
        OSError: missing, or not permitted.
    """
    with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise InputError.at(path, f"has {size:,} bytes", f"at most {most:,}", "restore the file")
        return file.read(size)  # allocates no more than that


def replace_plain(path: Path, text: str) -> None:
    """Replace a small file atomically. It must have one writer at a time, which overwrites what a killed one left.

    Raises:
        InputError: the temporary file beside it is a link, a pipe, a device or a hard link.
        OSError: disk full or read-only folder.
    """
    temporary = path.with_name(f".tmp-{path.name}")
    descriptor = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Make the contents of a file, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _faults(folder: Path) -> Iterator[Fault]:
    folders = [folder]
    while folders:
        folder = folders.pop()
        try:
            for path in sorted(folder.iterdir()):
                with suppress(FileNotFoundError):  # its writer has replaced it
                    mode = path.lstat().st_mode
                    if stat.S_ISDIR(mode):
                        folders.append(path)
                    elif not stat.S_ISREG(mode):
                        yield plain_fault(path, mode)
        except FileNotFoundError:
            continue
        except OSError as error:
            fix = "change its owner or its permissions"
            yield Fault(str(folder), f"cannot be read ({error.strerror})", "a folder", fix)


def _has_other_names(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink > 1


def _hard_link_fault(path: Path) -> Fault:
    problem = "has a second name (a hard link), so writing here would change that file too"
    fix = f"copy it (cp {path.name} copy), then mv copy {path.name}"
    return Fault(str(path), problem, "a file of its own", fix)


def plain_fault(path: Path, mode: int) -> Fault:
    """Return the fault of a path that is not a plain file; `mode` is its st_mode."""
    kind = "a folder" if stat.S_ISDIR(mode) else _KINDS.get(stat.S_IFMT(mode), "not a file")
    if stat.S_ISLNK(mode):
        kind += f" to {os.readlink(path)}"
    fix = "remove it, or replace it with what it refers to"
    return Fault(str(path), f"is {kind}", "a plain file", fix)


def check_file(flag: str, path: Path) -> list[Fault]:
    """Return why a file cannot be written: a folder has its name, its folder is missing, permissions, or its name."""
    place = f"{flag} {path}"
    try:
        if path.is_dir():
            return [Fault(place, "is a folder", "a file", "add a file name")]
        if not path.parent.is_dir():
            found = f"there is no folder {path.parent}"
            return [Fault(place, found, "a file in an existing folder", "create it first")]
        return _not_writable(place, path if path.exists() else path.parent)
    except OSError as error:
        return [Fault(place, f"cannot be written: {error.strerror}", "a valid file name", "choose another")]


def check_new_file(flag: str, path: Path, *, overwrite: bool = False) -> list[Fault]:
    """Return why a new file cannot be written: as for `check_file`, or it exists and may not be overwritten."""
    faults = check_file(flag, path)
    if not faults and path.exists() and not overwrite:
        return [Fault(str(path), "already exists", fix="choose another file, or add --overwrite")]
    return faults


def check_folder(place: str, folder: Path) -> list[Fault]:
    """Return why a folder, created if missing, cannot be written to: a file is in its way, permissions, or its name."""
    for ancestor in (folder, *folder.absolute().parents):
        try:
            ancestor.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            found = f"cannot be written: {error.strerror}"
            return [Fault(place, found, "a valid folder name", "choose another")]
        if not ancestor.is_dir():
            return [Fault(place, f"{ancestor} is a file", "a folder", "choose another place")]
        return _not_writable(place, ancestor)
    return []


def _not_writable(place: str, path: Path) -> list[Fault]:
    if os.access(path, os.W_OK):
        return []
    fix = "choose another place, or ask the owner for permission to write"
    return [Fault(place, f"{path} is not writable", "a writable place", fix)]
