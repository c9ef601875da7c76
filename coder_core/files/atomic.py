"""Write folders and files so that a reader finds them whole or not at all, and never loses what was there before.

A folder is filled under a `.tmp-` name beside its final name and renamed, and then its parent is fsynced. A folder that
is being replaced is moved aside between two renames, and readers find it there. Files are written beside their final
names and renamed in the same way.
"""

import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import check_file, open_plain, replace_plain, sync

SETTLED_NS = 2_000_000_000  # a file changed more recently may change again with the same time of change
MOST_ENTRIES = 2_000  # of a folder that are listed; no run has more
_UNFINISHED = re.compile(r"\.tmp-.+-\d+-[0-9a-f]{8}")
_ASIDE = re.compile(r"\.tmp-(.+)-old")


class WriteError(InputError):
    """A file or folder could not be written; what was there before is untouched."""


@contextmanager
def appearing(path: Path, *, replace: bool = False, needed: int = 0) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end of the block, or is removed if the block raises.

    Args:
        path: the folder; its parents are created.
        replace: replace an existing folder with contents, which is an InputError otherwise.
        needed: bytes to write, compared with the free space before the block.

    Raises:
        WriteError: disk full, or not permitted.
    """
    temporary = _temporary(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _only_writer(path.parent):
            if not replace and path.exists() and (not path.is_dir() or any(path.iterdir())):
                fix = "choose another name, or continue the existing run"
                raise InputError.at(path, "exists and is not empty", "a new name", fix)
            if needed > shutil.disk_usage(path.parent).free:
                raise _write_error(path, needed)
            temporary.mkdir()
            yield temporary
            _move(temporary, path)
    except OSError as error:
        raise _write_error(path, needed, error.strerror or str(error)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def writing(*files: Path, needed: int = 0) -> Iterator[list[Path]]:
    """Yield a temporary path for every file; at the end of the block they become the files, old ones are replaced.

    Several files belong together, such as an index and its names. They are never mixed with those of another command:
    companions, all but the first file, are removed before the first is replaced and appear after it. A kill in between
    leaves the first alone, which `existing_outputs` recognises. If the block raises, nothing has changed.

    Args:
        files: one or more files in existing folders.
        needed: bytes to write, compared with the free space before the block.

    Raises:
        InputError: another process is writing the same file, or its temporary file is a link.
        WriteError: disk full, or not permitted.
    """
    temporaries = [_draft(file) for file in files]
    with ExitStack() as stack:
        try:
            for file, temporary in zip(files, temporaries, strict=True):
                stack.callback(os.close, _reserve(file, temporary))
                stack.callback(temporary.unlink, missing_ok=True)
            if needed > shutil.disk_usage(files[0].parent).free:
                raise _write_error(files[0], needed)
            yield temporaries
            for temporary in temporaries:
                sync(temporary)
            for companion in files[1:]:
                companion.unlink(missing_ok=True)
            for file, temporary in zip(files, temporaries, strict=True):
                temporary.replace(file)
            sync(files[0].parent)
        except OSError as error:
            raise _write_error(files[0], needed, error.strerror or str(error)) from error


def write_output(path: Path, text: str) -> None:
    """Write a result as UTF-8 text, as in `writing`."""
    with writing(path) as (temporary,):
        temporary.write_text(text, "utf-8")


def existing_outputs(*files: Path) -> list[Path]:
    """Return those of `writing`'s files that exist, but not what a killed command left of several files."""
    if any(_draft(companion).exists() for companion in files[1:]) and not _draft(files[0]).exists():
        return []
    return [file for file in files if file.exists()]


def check_new_files(flag: str, *files: Path, overwrite: bool = False) -> list[Fault]:
    """Return why files that belong together cannot be written: as for `check_file`, or they exist (no `overwrite`)."""
    faults = [fault for file in files for fault in check_file(flag, file)]
    if faults or overwrite:
        return faults
    fix = "choose another file, or add --overwrite"
    return [Fault(str(file), "already exists", fix=fix) for file in existing_outputs(*files)]


def replace_file(path: Path, text: str) -> None:
    """Replace a small file as `replace_plain` does (WriteError: disk full or read-only folder)."""
    try:
        replace_plain(path, text)
    except OSError as error:
        raise WriteError.at(path, f"could not be written ({error.strerror})") from error


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `file`, part of a cache, at the end of the block, or is removed if the block
    raises. Several processes may write at once: the last one wins. Only the owner can read the file. OSError: disk full
    or read-only folder."""
    handle, name = tempfile.mkstemp(prefix=".tmp-", suffix=file.suffix, dir=file.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def remove(path: Path) -> None:
    """Rename a folder, then delete it, so that no reader sees half of it."""
    temporary = _temporary(path)
    path.rename(temporary)
    _delete(temporary)


def clean(parent: Path) -> None:
    """Remove what killed writers left in a folder, and restore what one of them had moved aside. The caller must be the
    only writer."""
    for path in sorted(parent.glob(".tmp-*")):
        if not _is_folder(path):
            continue
        aside = _ASIDE.fullmatch(path.name)
        if aside and not (parent / aside[1]).exists():
            path.rename(parent / aside[1])
        elif aside or _UNFINISHED.fullmatch(path.name):
            _delete(path)


def locate(path: Path) -> Path:
    """Return the readable path of a folder: its own, or the one aside while it is being replaced."""
    if not path.is_dir() and _is_folder(aside := _aside(path)):
        return aside
    return path  # also if it has reappeared meanwhile


def identity(path: Path) -> tuple[Path, int, int] | None:
    """Return a value that changes if a folder moves or is replaced, so that failed readers retry; None without one."""
    folder = locate(path)
    with suppress(OSError):
        information = folder.stat()
        return folder, information.st_ino, information.st_mtime_ns
    return None


def folder_names(parent: Path) -> list[str]:
    """List the folders in `parent` that `locate` finds, sorted, without links. A folder renamed during a reading can be
    missed, so the names are read until two readings agree."""
    before = None
    names = _folder_names(parent)
    while names != before:
        before = names
        names = _folder_names(parent)
    return names


def _folder_names(parent: Path) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            first = islice(entries, MOST_ENTRIES)
            names = [entry.name for entry in first if entry.is_dir(follow_symlinks=False)]
    except OSError:
        if parent.is_dir():
            raise
        return []
    return sorted({aside[1] if (aside := _ASIDE.fullmatch(name)) else name for name in names})


@contextmanager
def _only_writer(parent: Path) -> Iterator[None]:
    """Hold the folder's lock, which the kernel releases when the process dies, and remove what killed writers left. A
    file system without such locks makes no writer wait, and leftovers stay."""
    descriptor = os.open(parent, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            clean(parent)
        yield
    finally:
        os.close(descriptor)


def _reserve(file: Path, temporary: Path) -> int:
    """Create a temporary file, locked as long as the returned descriptor is open."""
    descriptor = open_plain(temporary, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError.at(file, "is being written by another process", fix="wait for it") from None
    except OSError:  # a file system without locks
        pass
    os.ftruncate(descriptor, 0)
    return descriptor


def _move(temporary: Path, path: Path) -> None:
    aside = _aside(path)
    if path.is_dir():
        _delete(aside)
        path.rename(aside)
    temporary.rename(path)
    sync(path.parent)
    _delete(aside)


def _delete(path: Path) -> None:
    """Delete a folder as far as possible, or a link or a pipe instead of what it leads to."""
    if _is_folder(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _temporary(path: Path) -> Path:
    return path.with_name(f".tmp-{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _aside(path: Path) -> Path:
    return path.with_name(f".tmp-{path.name}-old")


def _draft(file: Path) -> Path:
    return file.with_name(f".tmp-{file.name}")


def _write_error(path: Path, needed: int, reason: str = "") -> WriteError:
    existing = next(folder for folder in path.absolute().parents if folder.exists())
    free = f"{shutil.disk_usage(existing).free:,}"
    room = f"{needed:,} bytes are needed and {free} are free" if needed else f"{free} bytes are free"
    problem = f"could not be written ({reason}): {room}" if reason else room
    return WriteError.at(
        path, problem, fix="what was there before is intact; make room or choose another folder"
    )


def settled(changed_ns: int) -> bool:
    """True if any later change of a file is sure to get a time different from this one."""
    return time.time_ns() - changed_ns > SETTLED_NS


def cache_folder() -> Path:
    """Return $CODER_CACHE, or coder-lab in the user's cache folder."""
    custom = os.environ.get("CODER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(custom) if custom else Path(base) / "coder-lab"


def write_cached(file: Path, content: str) -> None:
    """Write ASCII text atomically. Failures are ignored: the content is then computed again next time."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_text(content, "ascii")
