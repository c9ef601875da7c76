"""The manifest of a sealed folder: sizes and sha256 of its files, and a checksum of itself."""

import hashlib
import json
import re
from difflib import get_close_matches
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from coder_core.console.documents import LARGEST, check_values
from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import read_plain
from coder_core.files.atomic import settled

FORMAT = 1
MANIFEST = "manifest.json"
RUN_FILES = ("config.toml", "history.jsonl", "status.json", "analysis", "unranked")
RUNS_NAMED = 3  # in the error for a folder that is not a run
_digests: dict[Path, tuple[tuple[int, ...], str]] = {}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


class NewerFormatError(InputError):
    """The folder is intact, but another version of this program wrote it."""


def holds_run(path: Path) -> bool:
    """True if a folder looks like a run, or cannot be read."""
    try:
        return any((path / name).exists() for name in RUN_FILES)
    except OSError:
        return True


def check_run(folder: Path) -> None:
    """Raise InputError if a folder is not a run; it names the runs in the folder, or those nearby, likeliest first."""
    if holds_run(folder):
        return
    around = [*folder.parents[:2], *_runs_in(folder.parent), *_runs_in(Path("checkpoints"))]
    nearby = {path.name: path for path in around if holds_run(path)}
    names = get_close_matches(folder.name, nearby, RUNS_NAMED, cutoff=0)
    runs = ", ".join(map(str, _runs_in(folder)[:RUNS_NAMED] or map(nearby.get, names)))
    fix = "python -m coder_core.train makes one, python -m coder_core.embed turns embeddings into one"
    problem = "is not a run" if folder.is_dir() else "there is no such folder"
    raise InputError.at(folder, problem, "the folder of a run", f"name one: {runs}" if runs else fix)


def _runs_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if path.is_dir() and holds_run(path)]


def render_manifest(manifest: dict[str, Any]) -> bytes:
    """Format a manifest in its only valid form: sorted keys, indented by two, `self` = sha256 of everything else."""
    spell = partial(json.dumps, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
    rest = {key: value for key, value in manifest.items() if key != "self"}
    checksum = hashlib.sha256(spell(rest).encode()).hexdigest()
    return f"{spell({**rest, 'self': checksum})}\n".encode()


@lru_cache(maxsize=1024)
def _is_intact(raw: bytes) -> bool:
    """True if these bytes are a manifest with a correct checksum; cached, because listings call it often."""
    manifest = json.loads(raw)
    return isinstance(manifest, dict) and render_manifest(manifest) == raw


def parse_manifest(path: Path) -> dict[str, Any]:
    """Read the manifest in a file. InputError: missing, damaged or forged. NewerFormatError: of another version."""
    try:
        raw = read_plain(path)
        intact = _is_intact(raw)
        manifest = json.loads(raw)
    except OSError as error:
        fix = "restore it; to continue a run, it must have been trained here"
        raise InputError.at(path, f"cannot be read ({error.strerror})", "a manifest", fix) from error
    except InputError:
        raise
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise InputError.at(path, "is damaged: it does not match its own checksum", fix="restore the folder")
    if manifest.get("format") != FORMAT:
        fix = "it was written by another version of this program; use that version, or update this one"
        raise NewerFormatError.at(path, f"has format {manifest.get('format')}", f"format {FORMAT}", fix)
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise InputError.at(path, "lists no files", "file names with their bytes and sha256")
    for name, entry in files.items():  # a forged name must not lead out of the folder
        check_values(entry, {"bytes": int, "sha256": str}, f"{path} key files, {name[:80]}", least=0)
        if not {"bytes", "sha256"} <= set(entry) or not _PLAIN_NAME.fullmatch(name):
            raise InputError.at(path, f"lists {name[:80]!r}", "file names with their bytes and sha256")
    check_values(manifest, {"arrays": dict}, str(path))
    for name, entry in manifest.get("arrays", {}).items():
        place = f"{path} key arrays, {name[:80]}"
        check_values(entry, {"shape": list, "dtype": str}, place)
        sizes = entry.get("shape", [-1])
        if "dtype" not in entry or not all(type(size) is int and 0 <= size < LARGEST for size in sizes):
            raise InputError.at(place, "has no shape and dtype", "sizes, and a numeric dtype")
    return manifest


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remembered_sha256(path: Path) -> str:
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


def damaged(path: Path) -> Fault:
    fix = "restore it from a copy, or write it again: an analysis with coder_core.evaluate"
    return Fault(str(path), "is damaged: its contents do not match the sha256 in manifest.json", fix=fix)
