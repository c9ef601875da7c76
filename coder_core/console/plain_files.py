"""Plain files and JSON in folders that may come from a stranger: open, read, check, replace. Check early that a result can
be written.

Nothing here follows a link or waits for a pipe, so a received folder cannot redirect what is read or written. JSON with
two meanings is refused, and the types of its values are checked before they are used.
"""

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coder_core.console.faults import Fault, InputError

SMALL = 1 << 20  # bytes of a status, a manifest, a job
BEFORE = 20  # characters shown around a damaged one
DOCUMENT = 1 << 28  # of captions, vocabularies, histories
MISSING_RUN = Fault("RUN", "is missing", "one or more run folders", "for example checkpoints/coder-demo")
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NUMBER = (int, float)
LARGEST = 2**63
JSON_NAMES = {type(None): "null", dict: "object", list: "array"}


def subfolder(folder: Path, *names: str) -> Path:
    """Return the path of a folder, which need not exist, inside one that may come from a stranger.

    `folder` itself may be a link, because the caller named it. InputError: a name below it is a link, a pipe or a file,
    so that reading or writing there would end up elsewhere.
    """
    path = Path(folder)
    for name in names:
        path = path / name
        with suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode):
                raise InputError(plain_fault(path, mode, "a folder"))
    return path


def open_plain(path: Path, flags: int) -> int:
    """Open a regular file without following a link or waiting for a pipe, and return its descriptor.

    A file with more than one name (a hard link) can be read but not written, because another file would change.

    Args:
        path: the file.
        flags: of `os.open`; with O_CREAT a missing file is created.

    Raises:
        InputError: it is a link, a pipe, a socket, a device or a folder, or a hard link for writing.
        OSError: missing, or not permitted.
    """
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):  # opening a device may have effects
            raise InputError(plain_fault(path, mode))
    descriptor = os.open(path, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    writes = flags & (os.O_WRONLY | os.O_RDWR)
    if writes and os.fstat(descriptor).st_nlink > 1:
        os.close(descriptor)
        problem = "has a second name (a hard link), so writing here would change that file too"
        fix = f"copy it (cp {path.name} copy), then mv copy {path.name}"
        raise InputError.at(path, problem, "a file of its own", fix)
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


def plain_fault(path: Path, mode: int, expected: str = "a plain file") -> Fault:
    """Return the fault of a path that is something else; `mode` is its st_mode."""
    kind = _KINDS.get(stat.S_IFMT(mode), "a file")
    if stat.S_ISLNK(mode):
        kind += f" to {os.readlink(path)}"
    return Fault(str(path), f"is {kind}", expected, "remove it, or replace it with what it refers to")


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


def parse_document(text: str | bytes) -> Any:
    """Parse a JSON document. ValueError: not JSON, not UTF-8, a key given twice in one object, NaN or an infinity, or
    half a character (a lone surrogate), which cannot be printed. RecursionError: nested too deeply."""
    content = text.decode() if isinstance(text, bytes) else text
    value = json.loads(content, object_pairs_hook=_with_unique_keys, parse_constant=_refuse_constant)
    if "\\ud" in content.lower():
        _refuse_half_characters(value)
    return value


def _refuse_half_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        text = ascii(error.object[max(0, error.start - BEFORE) : error.end + BEFORE])
        raise ValueError(f"half a character (a lone surrogate) in … {text} …") from None


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {excerpt(twice)} is given twice")
    return record


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def check_values(
    record: Any, kinds: Mapping[str, type | tuple[type, ...]], place: str, *, least: float = -1
) -> None:
    """Check the types of a JSON object's values. Missing keys are skipped.

    Numbers must be finite, at least `least` and below 2⁶³; true is not a number; `type(None)` allows null. InputError:
    not an object, or values of other types; names all their keys.
    """
    if not isinstance(record, dict):
        raise InputError.at(place, f"contains {excerpt(record)}", "an object", "restore the file")
    faults = []
    for key, kind in kinds.items():
        if key in record and not _fits(record[key], kind, least):
            kinds_of_key = kind if isinstance(kind, tuple) else (kind,)
            expected = " or ".join(JSON_NAMES.get(each, each.__name__) for each in kinds_of_key)
            found = f"is {excerpt(record[key])}"
            faults.append(Fault(f"{place} key {key}", found, expected, "restore the file"))
    if faults:
        raise InputError(faults)


@contextmanager
def trusting(place: str) -> Iterator[None]:
    """Turn the block's error about a value of an unexpected type into an InputError at `place`."""
    try:
        yield
    except InputError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        found = f"contains a value that no version of this program writes ({error})"
        raise InputError.at(place, found, fix="restore the file") from error


def _fits(value: Any, kind: type | tuple[type, ...], least: float) -> bool:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        return False
    return not isinstance(value, int | float) or least <= value < LARGEST  # exact even for huge integers


def excerpt(value: Any) -> str:
    """Return a value's repr, cut to 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of over 4,300 digits, or tables nested too deeply
        return f"{type(value).__name__} too long to show"
    return text if len(text) <= 60 else f"{text[:59]}…"
