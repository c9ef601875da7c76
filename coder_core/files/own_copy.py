"""Map a large array from a copy of its file that nobody else can cut or change.

Touching a mapped page that its file has lost ends the process (SIGBUS), which Python cannot catch. So the file is
copied into the cache, the copy is compared with the sha256, loses its name and is mapped: what was verified is what is
used, whatever becomes of the file. The disk space is free again when the array goes or the process ends.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.files.cache import cache_folder
from coder_core.files.manifest import damaged, file_sha256


def map_copy(path: Path, sha256: str) -> np.ndarray:
    """The array of a `.npy` file, mapped read-only from a copy in the cache.

    Raises:
        InputError: the file has another sha256, or the cache has no room for a copy.
        ValueError: it is no array of plain numbers.
    """
    folder, needed = cache_folder(), 0
    try:
        needed = path.stat().st_size
        folder.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(folder).free) < needed:
            raise OSError(f"{needed:,} bytes are needed and {free:,} are free")
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".tmp-", suffix=".npy") as copy:
            shutil.copyfile(path, copy.name)
            if file_sha256(Path(copy.name)) != sha256:
                raise InputError(damaged(path))
            mapped: np.ndarray = np.load(copy.name, mmap_mode="r", allow_pickle=False)
            return mapped
    except OSError as error:
        problem = f"cannot be copied to {folder}: {error.strerror or error}"
        fix = "set CODER_CACHE to a folder with room"
        raise InputError(Fault(str(path), problem, f"room for {needed:,} bytes", fix)) from error
