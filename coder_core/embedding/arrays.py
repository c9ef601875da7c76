"""Arrays in files of their own, mapped: they may be larger than memory, and take none but while they are read."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

COPIED_ROWS = 64


def new_array(file: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A map of a new file that has its place on the disk: writing to a map of a full disk would end the process.

    Raises:
        OSError: the disk is full or read-only.
    """
    array = np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(dtype), shape=shape)
    if hasattr(os, "posix_fallocate"):
        with file.open("r+b") as content:
            os.posix_fallocate(content.fileno(), 0, file.stat().st_size)
    return array


def keep_rows(file: Path, rows: np.ndarray) -> None:
    """Write these rows of an array file, in pieces, in place of all."""
    source = np.load(file, mmap_mode="r")
    smaller = file.with_name(f"smaller-{file.name}")
    target = new_array(smaller, (len(rows), *source.shape[1:]), source.dtype.str)
    for start in range(0, len(rows), COPIED_ROWS):
        target[start : start + COPIED_ROWS] = source[rows[start : start + COPIED_ROWS]]
    target.flush()  # type: ignore[attr-defined]
    os.replace(smaller, file)
