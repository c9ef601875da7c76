"""Copy scattered rows of a features file to a file of their own in the cache, so that they can be memory-mapped."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from coder_core.console.faults import Fault, InputError
from coder_core.data.features import FeatureFile
from coder_core.data.rows import FeatureRows
from coder_core.files.atomic import replacing
from coder_core.files.cache import cache_folder

PIECE_IMAGES = 256


def gather_rows(file: FeatureFile, rows: np.ndarray, faults: list[Fault]) -> FeatureFile:
    """Copy `rows` of a features file, piece by piece, into the cache; an earlier copy is used again.

    Raises:
        InputError: the cache's disk is too small, or cannot be written.
    """
    shape = (len(rows), *file.shape[1:])
    target = cache_folder() / "splits" / f"{_key(file, rows)}.npy"
    needed = len(rows) * file.row_bytes
    if not target.exists():
        _copy(file, rows, shape, target, needed)
    text = f"the split's rows are scattered; they are read from a copy of {needed:,} bytes, {target}"
    faults.append(Fault(str(file.path), text, fix="remove it when it is no longer needed", severity="note"))
    return FeatureFile(target, shape, file.dtype, fortran=False, offset=target.stat().st_size - needed)


def _key(file: FeatureFile, rows: np.ndarray) -> str:
    state = file.path.stat()
    identity = repr((str(file.path.resolve()), state.st_size, state.st_mtime_ns, file.shape, file.dtype.str))
    return hashlib.sha256(identity.encode() + rows.astype("<i8").tobytes()).hexdigest()[:32]


def _copy(file: FeatureFile, rows: np.ndarray, shape: tuple[int, ...], target: Path, needed: int) -> None:
    """Write beside the target, then rename: a copy that exists is complete."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(target.parent).free
        if free < needed:
            raise OSError(f"{needed:,} bytes needed, {free:,} free")
        source = FeatureRows(file.map())
        with replacing(target) as temporary, temporary.open("wb") as copy:
            npy.write_array_header_1_0(
                copy, {"shape": shape, "fortran_order": False, "descr": file.dtype.str}
            )
            for start in range(0, len(rows), PIECE_IMAGES):
                images = rows[start : start + PIECE_IMAGES]
                every = np.tile(np.arange(source.regions), len(images))
                copy.write(source.gather(np.repeat(images, source.regions), every).data)
    except OSError as error:
        fix = "set CODER_CACHE to a folder with room, or save one {split}_ims.npy a split"
        problem = f"the split's rows are scattered and cannot be copied to {target.parent}: {error}"
        raise InputError(Fault(str(file.path), problem, "room for the copy", fix)) from None
