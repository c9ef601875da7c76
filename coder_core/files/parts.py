"""Finished parts of a long computation, kept on disk until the whole is there, so that an interrupted one continues."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from coder_core.console.faults import InputError
from coder_core.files import atomic, sealed

FOLDER = ".unfinished"  # beside the runs; runs are not looked for in it
Arrays = dict[str, np.ndarray]
# A part's name, and what computes its arrays → the arrays, computed or kept
Keep = Callable[[str, Callable[[], Arrays]], Arrays]


def compute(name: str, arrays: Callable[[], Arrays]) -> Arrays:
    """Compute a part without keeping it."""
    return arrays()


def keep_in(folder: Path, kind: str) -> Keep:
    """Return a function that keeps parts as sealed folders in `folder`, which the caller removes at the end. A damaged
    part is computed again."""

    def keep(name: str, arrays: Callable[[], Arrays]) -> Arrays:
        place = folder / name
        with suppress(InputError):
            stored = sealed.SealedFolder(place)
            stored.check()
            return {array: stored.array(array) for array in stored.manifest["arrays"]}
        computed = arrays()
        files = {f"{array}.npy": values for array, values in computed.items()}
        sealed.write_sealed(place, files, about={"kind": kind}, replace=True)
        return computed

    return keep


def remove_parts(folder: Path) -> None:
    """Remove the kept parts of a computation that is finished."""
    if folder.is_dir():
        atomic.remove(folder)
        with suppress(OSError):  # others are kept
            folder.parent.rmdir()
