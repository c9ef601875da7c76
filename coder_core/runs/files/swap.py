"""Putting a finished folder in its place in one step, and tidying what dead writers left."""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
from pathlib import Path

import psutil

TEMPORARY = ".tmp-"
_OWNED = re.compile(r"\.tmp-(?P<name>.+)-(?P<pid>\d+)-[0-9a-f]{8}(?P<old>\.old)?")
_REUSED = 60.0  # seconds a process must be younger than a folder to have only the number of its writer
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


def temporary_beside(place: Path) -> Path:
    """An unused `.tmp-` name beside `place` that says which process writes it."""
    return place.parent / f"{TEMPORARY}{place.name}-{os.getpid()}-{secrets.token_hex(4)}"


def move(temporary: Path, place: Path, *, replace: bool) -> None:
    """Rename `temporary` to `place` and fsync the parent; with `replace` an existing folder goes in the same step."""
    if replace and place.exists():
        if exchange(temporary, place):
            sync_folder(place.parent)
            return  # the old folder now stands under the temporary name, which the caller removes
        old = temporary.with_name(temporary.name + ".old")
        place.rename(old)
        try:
            temporary.rename(place)
        except OSError:
            old.rename(place)
            raise
        sync_folder(place.parent)
        shutil.rmtree(old)
        return
    temporary.rename(place)  # POSIX refuses when `place` is a folder with something in it
    sync_folder(place.parent)


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one step (Linux renameat2). False where the system or the file system cannot."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def remove(folder: Path) -> None:
    """Take a folder away in one step (rename), then delete it: no reader meets half of it."""
    temporary = temporary_beside(folder)
    folder.rename(temporary)
    shutil.rmtree(temporary, ignore_errors=True)


def clean(parent: Path, *, alone: bool = False) -> None:
    """Remove the `.tmp-` folders whose writer is no longer alive; put back one that died between two renames.

    Args:
        parent: where they stand.
        alone: nobody writes here now, this process included, so none of them has a living writer.
    """
    for path in sorted(parent.glob(f"{TEMPORARY}*")):
        owner = _OWNED.fullmatch(path.name)
        if owner is None or not (alone or _orphaned(path, int(owner["pid"]))):
            continue
        if owner["old"] and not (parent / owner["name"]).exists():
            path.rename(parent / owner["name"])
        elif not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def _orphaned(path: Path, pid: int) -> bool:
    """Whether process `pid` is gone, or began so long after the folder's last change that it is another one."""
    try:
        return psutil.Process(pid).create_time() > path.lstat().st_ctime + _REUSED
    except psutil.NoSuchProcess:
        return True
    except (psutil.Error, OSError):  # not ours to look at; or the folder went meanwhile
        return False


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
