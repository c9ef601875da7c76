"""Folders and small files that appear atomically, complete or not at all, and the cache folder.

A folder is filled under a `.tmp-` name beside its final name and renamed, and then its parent is fsynced. A folder that
is being replaced is moved aside between two renames, and readers find it there.
"""

import fcntl
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from coder_core.console.faults import InputError
from coder_core.console.plain_files import replace_plain, sync

LOOKS = 20  # a folder is missed only if it is replaced between every two of them
SETTLED_NS = 2_000_000_000  # a file changed more recently may change again with the same time of change
_UNFINISHED = re.compile(r"\.tmp-.+-\d+-[0-9a-f]{8}")
_ASIDE = re.compile(r"\.tmp-(.+)-old")


class WriteError(InputError):
    """A folder could not be written; what was there before is untouched."""


@contextmanager
def appearing(path: Path, *, replace: bool = False, needed: int = 0) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` at the end of the block, or is removed if the block raises. A folder
    with contents is an error without `replace`. `needed`: bytes to write, first compared with the free space."""
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


def replace_file(path: Path, text: str) -> None:
    """Replace a small file as `replace_plain` does (WriteError: disk full or read-only folder)."""
    try:
        replace_plain(path, text)
    except OSError as error:
        raise WriteError.at(path, f"could not be written ({error.strerror})") from error


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `file` at the end of the block, or is removed if the block raises. Several
    processes may write at once: the last one wins, and no reader sees half a file. Only the owner can read it. OSError:
    disk full or read-only folder."""
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
    shutil.rmtree(temporary, ignore_errors=True)


def clean(parent: Path) -> None:
    """Remove what killed writers left in a folder, and restore what one of them had moved aside. The caller must be the
    only writer."""
    for path in sorted(parent.glob(".tmp-*")):
        if path.is_symlink() or not path.is_dir():
            continue
        aside = _ASIDE.fullmatch(path.name)
        if aside and not (parent / aside[1]).exists():
            path.rename(parent / aside[1])
        elif aside or _UNFINISHED.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)


def locate(path: Path) -> Path:
    """Return the readable path of a folder: its own, or the one aside while it is being replaced. A folder that is
    replaced repeatedly can move between two looks, so a missing one is looked for several times."""
    return next((folder for folder in (path, _aside(path)) * LOOKS if folder.is_dir()), path)


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
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
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


def _move(temporary: Path, path: Path) -> None:
    aside = _aside(path)
    if path.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
    temporary.rename(path)
    sync(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _temporary(path: Path) -> Path:
    return path.with_name(f".tmp-{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _aside(path: Path) -> Path:
    return path.with_name(f".tmp-{path.name}-old")


def _write_error(path: Path, needed: int, reason: str = "") -> WriteError:
    free = shutil.disk_usage(next(folder for folder in path.parents if os.access(folder, os.F_OK))).free
    problem = f"could not be written ({reason}): " if reason else ""
    problem += f"{needed:,} bytes are needed and {free:,} are free"
    return WriteError.at(path, problem, fix="earlier saves are intact; make room or choose another folder")


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
