"""Arrays computed block by block into mapped files, so that a killed process loses little.

The blocks depend only on the data and their size. So neither the number of workers or processes nor a restart changes
the shapes that the model computes or, on the CPU, any bit of the result.
"""

import hashlib
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from coder_core.console.faults import Fault, InputError, Severity, stop_on_errors
from coder_core.console.output import Progress
from coder_core.console.signals import StoppedBySignalError, StopRequest, StopRequestedError
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.decoding import PreparedBlock, prepared_blocks
from coder_core.data.lines import count_cases

VERSION = 1  # of the method that makes blocks
BLOCK_ON_CPU = 32
SECONDS = 20.0  # between two marks of finished blocks
COPIED_ROWS = 64


@dataclass(frozen=True)
class Plan:
    """Rows of every block of images and of captions, (≤ size,) int64 each; captions are sorted by length, longest
    first. The key changes with the data, the model and the size of the blocks."""

    images: list[np.ndarray]
    texts: list[np.ndarray]
    key: str


def make_plan(split: CaptionedSplit, tower: Mapping[str, Any], device: str, batch_size: int) -> Plan:
    """Plan the blocks of a split: of 32 samples if `device` (a type) is "cpu", otherwise of `batch_size`."""
    size = BLOCK_ON_CPU if device == "cpu" else batch_size
    lengths = np.array([len(caption) for caption in split.captions])
    order = np.argsort(-lengths, kind="stable")
    digest = hashlib.sha256(json.dumps([VERSION, size, tower], sort_keys=True, default=str).encode())
    for image, name in enumerate(split.image_names):
        state = split.positions.state(int(split.rows[image]))
        digest.update(f"{name}\0{state}\n".encode("utf-8", "surrogatepass"))
    digest.update(np.ascontiguousarray(split.image_of_text, dtype="<i8").tobytes())
    for caption in split.captions:
        digest.update(f"{caption}\n".encode("utf-8", "surrogatepass"))
    return Plan(_blocks(np.arange(len(split.rows)), size), _blocks(order, size), digest.hexdigest()[:12])


def _blocks(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


@contextmanager
def only_writer(folder: Path, *, first: bool = True) -> Iterator[None]:
    """Make a folder of unfinished arrays and hold its lock, the latter only in a command's `first` process.
    InputError: another command uses the folder, or the disk is full or read-only."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock", timeout=0) if first else nullcontext():
            yield
    except Timeout:
        fix = "wait for it, or stop it"
        raise InputError.at(folder, "another process is using it", "one at a time", fix) from None
    except OSError as error:
        fix = "make room and start this command again: finished work is kept"
        raise InputError.at(folder.parent, f"cannot be written: {error.strerror}", fix=fix) from error


class BlockArrays:
    """Mapped arrays with one row per sample, and a checksum of every finished block. OSError: the disk is full or
    read-only. `folder`: of the files {name}.npy and done.npy; matching files are continued. `blocks`: the rows of every
    block. `layout`: name → shape of a row and type."""

    def __init__(
        self, folder: Path, blocks: Sequence[np.ndarray], layout: Mapping[str, tuple[tuple[int, ...], str]]
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.rows = sum(map(len, blocks))
        shapes = {name: ((self.rows, *shape), kind) for name, (shape, kind) in layout.items()}
        shapes["done"] = (len(blocks), 2), "<i8"
        self.blocks = blocks
        self.files = {name: folder / f"{name}.npy" for name in shapes}
        maps = self._open(shapes)
        self._done = maps.pop("done")
        self._arrays = maps
        self._fresh: dict[int, int] = {}
        self._marked = time.monotonic()

    def _open(self, shapes: Mapping[str, tuple[tuple[int, ...], str]]) -> dict[str, Any]:
        """Map all existing files or, unless all of them have these shapes and types, new ones."""
        existing = {name: _existing(self.files[name], shape, kind) for name, (shape, kind) in shapes.items()}
        if all(array is not None for array in existing.values()):
            return existing
        return {name: new_array(self.files[name], shape, kind) for name, (shape, kind) in shapes.items()}

    def unfinished(self) -> list[int]:
        """List the numbers of the blocks to compute: new ones, and those whose rows are damaged."""
        numbers = range(len(self.blocks))
        return [number for number in numbers if self._done[number, 0] != self._checksum(number)]

    def finished_rows(self, unfinished: Sequence[int]) -> int:
        """Count the rows of all blocks but these."""
        return self.rows - sum(len(self.blocks[number]) for number in unfinished)

    def put(
        self, number: int, rows: Sequence[int] | np.ndarray, values: Mapping[str, Any], note: int = 0
    ) -> None:
        """Write those rows of a block that could be computed; `values` maps names to arrays of these rows. A block with
        all its rows is marked as finished, with its note, by the next `mark`, within about twenty seconds."""
        if len(rows):
            for name, array in values.items():
                self._arrays[name][rows] = array
        if len(rows) == len(self.blocks[number]):
            self._fresh[number] = note
        if time.monotonic() - self._marked > SECONDS:
            self.mark()

    def mark(self) -> None:
        """Mark the fresh blocks as finished, once their rows are on disk."""
        _flush(*self._arrays.values())
        for number, note in self._fresh.items():
            self._done[number] = self._checksum(number), note
        _flush(self._done)
        self._fresh = {}
        self._marked = time.monotonic()

    def notes(self) -> int:
        """Sum the notes of the finished blocks."""
        return int(self._done[:, 1].sum())

    def _checksum(self, number: int) -> int:
        """Compute the checksum of a block's rows, at least 1, because 0 in the file marks an unfinished block."""
        checksum = 0
        for array in self._arrays.values():
            checksum = zlib.crc32(np.ascontiguousarray(array[self.blocks[number]]).data, checksum)
        return checksum + 1


@dataclass(frozen=True)
class PictureEncoder:
    """A model's two steps from a picture to its rows."""

    prepare: Callable[[Any], Any]  # of one picture, in a worker process
    encode: Callable[
        [PreparedBlock], Mapping[str, Any]
    ]  # block → name → rows of its pictures that could be read
    workers: int  # processes that prepare; 0: this one


def put_pictures(
    arrays: BlockArrays,
    split: CaptionedSplit,
    numbers: Sequence[int],
    encoder: PictureEncoder,
    progress: Callable[[int], None],
) -> dict[int, str]:
    """Compute blocks of pictures and return image → why it could not be read. Blocks with such images stay unfinished,
    so that a repaired picture is read again. `progress` is called with the number of a block's pictures."""
    broken: dict[int, str] = {}
    workers = min(encoder.workers, len(numbers))
    try:
        for block in prepared_blocks(split, arrays.blocks, numbers, encoder.prepare, workers):
            images = arrays.blocks[block.number].tolist()
            readable = [image for image in images if image not in block.broken]
            arrays.put(block.number, readable, encoder.encode(block) if readable else {})
            broken |= block.broken
            progress(len(images))
    finally:
        arrays.mark()
    return broken


def readable_pictures(
    split: CaptionedSplit, broken: Mapping[int, str], *, skip: bool
) -> tuple[np.ndarray, list[Fault]]:
    """Return (n,) bool, True where a picture could be read, and a warning about the others. InputError: pictures are
    broken and `skip` is false, or all are broken."""
    problem = f"of {len(split.rows):,} pictures cannot be read"
    fix = "copy them again and start this command again, or add --skip-broken: finished work is kept"
    fix = "copy them again to have them; they are left out with their captions" if skip else fix
    cases = [broken[image] for image in sorted(broken)]
    severity: Severity = "warning" if skip else "error"
    faults = stop_on_errors(count_cases(split.name, problem, cases, "whole pictures", fix, severity))
    whole = np.ones(len(split.rows), dtype=bool)
    whole[list(broken)] = False
    if not whole.any():
        raise InputError.at(split.name, "no picture can be read", "at least one", "check the folder")
    return whole, faults


def kept_rows(file: Path, whole: np.ndarray) -> Path:
    """Return an array file with the rows where `whole` is true: the file itself, or a copy beside it."""
    if whole.all():
        return file
    source = np.load(file, mmap_mode="r")
    rows = np.flatnonzero(whole)
    copy = file.with_name(f"kept-{file.name}")
    target = new_array(copy, (len(rows), *source.shape[1:]), source.dtype.str)
    for start in range(0, len(rows), COPIED_ROWS):
        target[start : start + COPIED_ROWS] = source[rows[start : start + COPIED_ROWS]]
    _flush(target)
    return copy


def new_array(file: Path, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Map a new file of zeros with reserved disk space: writing to a map on a full disk would kill the process.
    OSError: the disk is full or read-only."""
    array = np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(kind), shape=shape)
    if hasattr(os, "posix_fallocate"):
        with file.open("r+b") as content:
            os.posix_fallocate(content.fileno(), 0, file.stat().st_size)
    return array


def _existing(file: Path, shape: tuple[int, ...], kind: str) -> np.ndarray | None:
    """Map an existing file of this shape and type; None if there is no such file."""
    try:
        array = np.lib.format.open_memmap(file, mode="r+")
    except (ValueError, OSError, EOFError):
        return None
    return array if array.shape == shape and array.dtype == np.dtype(kind) else None


def _flush(*arrays: np.ndarray) -> None:
    for array in arrays:
        array.flush()  # type: ignore[attr-defined]


@contextmanager
def stoppable(progress: Progress) -> Iterator[Progress]:
    """Yield a progress whose first report after SIGTERM, SIGHUP or Ctrl-C ends the block with StoppedBySignalError."""
    at = "before the first block"

    def report(done: float, total: float, phase: str = "") -> None:
        nonlocal at
        at = f"after {done:,} of {total:,} {phase}"
        progress(done, total, phase)

    with StopRequest() as stop:
        try:
            yield stop.watched(report)
        except (StopRequestedError, RuntimeError):  # torch raises the latter if the signal ended a worker
            if not stop.signal:
                raise
            raise StoppedBySignalError(f"stopped {at}, saved. Repeat the command to continue") from None


def counted(progress: Progress, done: int, total: int, phase: str = "") -> Callable[[int], None]:
    """Return a function that adds finished samples to those `done` and reports the progress."""

    def report(samples: int) -> None:
        nonlocal done
        done += samples
        progress(done, total, phase)

    report(0)
    return report
