"""Checksums of all features and captions of a split, by which a run recognises its data."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np

from coder_core.console.progress import Progress, silent
from coder_core.data.dataset import Split
from coder_core.data.rows import FeatureRows
from coder_core.files.cache import cache_folder, settled, write_cached

VERSION = 1  # of how a checksum is made
PIECE_BYTES = 8 * 2**20
THREADS = 2
HEX = re.compile("[0-9a-f]{64}")


class Captioned(Protocol):
    """Captions, and (m,) int64 the image each belongs to."""

    @property
    def captions(self) -> list[str]: ...

    @property
    def image_of_text(self) -> np.ndarray: ...


def split_checksums(split: Split, progress: Progress = silent) -> dict[str, str]:
    """The sha256 (hex) of a split's "features" and of its "captions" with the image each belongs to.

    The layout on disk takes no part. The features' is kept in $CODER_CACHE under the file's place, size, times and
    inode, so that an unchanged file is read once.
    """
    return {"features": _features(split, progress), "captions": captions_checksum(split)}


def captions_checksum(split: Captioned) -> str:
    """The sha256 (hex) of a split's captions and the image each belongs to."""
    digest = hashlib.sha256(np.ascontiguousarray(split.image_of_text, dtype="<i8").tobytes())
    for caption in split.captions:
        digest.update(caption.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


def _features(split: Split, progress: Progress) -> str:
    path = Path(split.source["features"]) if "features" in split.source else None
    identity = _identity(path, split) if path is not None else ""
    cached = cache_folder() / "checksums" / hashlib.sha256(identity.encode()).hexdigest()
    with suppress(OSError, UnicodeDecodeError):
        if identity and HEX.fullmatch(checksum := cached.read_text("ascii")):
            return checksum
    checksum = _hash(split.features, progress)
    if path is not None and identity and identity == _identity(path, split):
        write_cached(cached, checksum)
    return checksum


def _identity(path: Path, split: Split) -> str:
    """Key of this state of a file and the rows a split shows; empty just after a change."""
    state = path.stat()
    if not settled(max(state.st_mtime_ns, state.st_ctime_ns)):
        return ""
    times = state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino, state.st_dev
    return repr(
        (VERSION, str(path.resolve()), *times, split.features.shape, split.features.dtype.str, split.rows)
    )


def _hash(features: np.ndarray, progress: Progress) -> str:
    """The sha256 of the shape, the type and the sha256 of every piece of rows; pieces are read at the same time."""
    rows, reader = max(1, PIECE_BYTES // (features[0].size * features.itemsize)), FeatureRows(features)
    digest = hashlib.sha256(repr((features.shape, features.dtype.str)).encode())

    def piece(start: int) -> bytes:
        return hashlib.sha256(reader.of_images(start, min(start + rows, len(features))).data).digest()

    with ThreadPoolExecutor(THREADS) as pool:
        starts = range(0, len(features), rows)
        for start, part in zip(starts, pool.map(piece, starts), strict=True):
            digest.update(part)
            progress(min(start + rows, len(features)), len(features))
    return digest.hexdigest()
