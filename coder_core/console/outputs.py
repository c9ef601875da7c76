"""Check the place of a result before the work that fills it."""

from __future__ import annotations

import os
from pathlib import Path

from coder_core.console.faults import Fault

MISSING_RUN = Fault("RUN", "is missing", "one or more run folders", "for example checkpoints/coder-demo")


def check_file(flag: str, path: Path) -> list[Fault]:
    """Reasons that a file cannot be written: a folder of its name, no folder for it, its permissions or its name."""
    place = f"{flag} {path}"
    try:
        if path.is_dir():
            return [Fault(place, "is a folder", "a file", "name a file in it")]
        if not path.parent.is_dir():
            return [
                Fault(
                    place,
                    f"there is no folder {path.parent}",
                    "a file in a folder that exists",
                    "make it first",
                )
            ]
        return _not_writable(place, path if path.exists() else path.parent)
    except OSError as error:
        return [Fault(place, f"cannot be written: {error.strerror}", "the name of a file", "choose another")]


def check_new_file(flag: str, path: Path, *, overwrite: bool = False) -> list[Fault]:
    """Reasons that a file cannot be written, its existence included unless it may be overwritten."""
    faults = check_file(flag, path)
    if not faults and path.exists() and not overwrite:
        return [Fault(str(path), "exists", fix="choose another file, or add --overwrite")]
    return faults


def check_folder(place: str, folder: Path) -> list[Fault]:
    """Reasons that a folder, created if missing, cannot be written to: a file in its way, permissions or its name."""
    for ancestor in (folder, *folder.absolute().parents):
        try:
            ancestor.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return [
                Fault(place, f"cannot be written: {error.strerror}", "the name of a folder", "choose another")
            ]
        if not ancestor.is_dir():
            return [Fault(place, f"{ancestor} is a file", "a folder", "choose another place")]
        return _not_writable(place, ancestor)
    return []


def _not_writable(place: str, path: Path) -> list[Fault]:
    if os.access(path, os.W_OK):
        return []
    fix = "choose another place, or ask the owner for permission to write"
    return [Fault(place, f"{path} may not be written to", "a place to write to", fix)]
