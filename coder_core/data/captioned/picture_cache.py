"""A cache of decoded pictures: each picture of a split once, scaled down, as uint8 pixels in sealed shards.

The cache lies in $CODER_CACHE/decoded/SIZE. A shard holds `SHARD` pictures that follow one another in the split and is
named after the sha256 of their files. So runs on the same data share the shards, whatever their folder is called, and a
picture with another content gives its shard another name. Shards are written one by one: after a kill, those that are
whole are used, and the next run makes the rest. Nothing outside the cache is written.

A picture is read with one `pread`, not through a map, which would keep a file open for each shard, and would end the
process (SIGBUS) where a shard that was cut should be named.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress, silent
from coder_core.console.processes import processors
from coder_core.data.augmentation import Change, change_pixels
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.decoding import MOST_WORKERS, in_workers
from coder_core.data.features import UnreadableRowsError
from coder_core.data.pictures import read_scaled
from coder_core.files.atomic import cache_folder, settled, write_cached
from coder_core.files.sealed import SealedFolder, write_sealed

VERSION = 1  # of the shards; part of their names
SHARD = 256  # pictures
SAMPLE = 64  # pictures that are decoded to estimate the space needed
SPARE = 1.02  # of the estimate that must be free
CHANNELS = 3
PIXELS = "pixels.bin"
VERIFIED = "verified.json"  # state of each shard whose sha256 was compared: name → size, times, inode
State = tuple[int, ...]


@dataclass(frozen=True)
class PictureCache:
    """Decoded pictures of a split of n pictures."""

    files: list[Path]  # of the shards
    shard_of_image: np.ndarray  # (n,) int32, index in `files`
    offsets: np.ndarray  # (n,) int64, bytes before the picture in its file
    shapes: np.ndarray  # (n, 2) int32, height and width
    prepare: Callable[[np.ndarray], np.ndarray]  # (height, width, 3) uint8 → the input of the image tower

    def prepared(self, images: Sequence[int], changes: Sequence[Change] | None) -> list[np.ndarray]:
        """Read and prepare pictures, each changed first. UnreadableRowsError: as for `read`."""
        pixels = [self.read(image) for image in images]
        if changes is not None:
            pixels = [change_pixels(each, change) for each, change in zip(pixels, changes, strict=True)]
        return [self.prepare(each) for each in pixels]

    def read(self, image: int) -> np.ndarray:
        """Return a picture's (height, width, 3) uint8 pixels. UnreadableRowsError: its shard can no longer be read."""
        file = self.files[self.shard_of_image[image]]
        height, width = self.shapes[image].tolist()
        size = height * width * CHANNELS
        try:
            content = _read_piece(file, int(self.offsets[image]), size)
        except OSError as error:
            raise _lost(file, f"can no longer be read ({error.strerror})") from None
        if len(content) < size:
            raise _lost(file, "was cut")
        return np.frombuffer(content, np.uint8).reshape(height, width, CHANNELS)


def _read_piece(file: Path, offset: int, size: int) -> bytes:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, size, offset)
    finally:
        os.close(descriptor)


def _lost(file: Path, problem: str) -> UnreadableRowsError:
    return UnreadableRowsError([Fault(str(file), problem, "a shard of decoded pictures", "start again")])


@dataclass(frozen=True)
class _Plan:
    """The shards of a split."""

    split: CaptionedSplit
    contents: Sequence[str]  # sha256 (hex) of each picture's file
    size: int  # pixels of the shorter side
    root: Path  # of all shards of this size
    names: list[str]  # of the split's shards

    def images(self, number: int) -> range:
        """Return the images of a shard."""
        return range(number * SHARD, min((number + 1) * SHARD, len(self.contents)))

    def folder(self, number: int) -> Path:
        """Return the folder of a shard."""
        name = self.names[number]
        return self.root / name[:2] / name


def cached_pictures(
    split: CaptionedSplit,
    contents: Sequence[str],
    size: int,
    prepare: Callable[[np.ndarray], np.ndarray],
    *,
    workers: int,
    progress: Progress = silent,
) -> tuple[PictureCache, list[Fault]]:
    """Open the decoded pictures of a split, after making the shards that are missing or damaged. While another process
    makes shards of this size, wait for it.

    Args:
        contents: the sha256 (hex) of each picture's file.
        size: pixels of the shorter side; smaller pictures stay as they are.
        prepare: (height, width, 3) uint8 pixels → the input of the image tower.
        workers: 0 decodes in this process, any other number in one process per processor.
        progress: in pictures that were decoded.

    Returns:
        The cache, and notes: what was decoded where, and a warning for each damaged shard, which was made again.

    Raises:
        InputError: the disk has less space than the missing shards are estimated to need, the folder cannot be written,
            or a picture can no longer be read or has changed since `contents` was computed.
    """
    root = cache_folder() / "decoded" / str(size)
    starts = range(0, len(contents), SHARD)
    names = [_shard_name(contents[start : start + SHARD], size) for start in starts]
    plan = _Plan(split, contents, size, root, names)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _one_at_a_time(root):
            faults, verified = _check_shards(plan)
            missing = [number for number in range(len(names)) if names[number] not in verified]
            if missing:
                faults.append(_check_space(plan, missing))
                _make_shards(plan, missing, workers, progress)
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
        raise InputError.at(root, problem, fix="set CODER_CACHE to a writable folder") from None

    return _open_shards(plan, prepare), faults


def _shard_name(contents: Sequence[str], size: int) -> str:
    content = "\n".join([str(VERSION), str(size), *contents])
    return hashlib.sha256(content.encode("ascii")).hexdigest()[:32]


@contextmanager
def _one_at_a_time(root: Path) -> Iterator[None]:
    """Hold the cache's lock, which the kernel releases when the process dies. A file system without locks makes nobody
    wait; two processes then make the same shards."""
    descriptor = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _check_shards(plan: _Plan) -> tuple[list[Fault], set[str]]:
    """Return a warning for each damaged shard, and the names of the whole ones. A shard's sha256 is compared once, and
    again after its size, its times or its inode have changed."""
    record = plan.root / VERIFIED
    known = _read_record(record)
    whole = dict[str, State]()
    faults = list[Fault]()
    for number, name in enumerate(plan.names):
        folder = plan.folder(number)
        if not folder.is_dir():
            continue
        try:
            state = _state(folder)
            if known.get(name) != state:
                SealedFolder(folder).check()
            whole[name] = state
        except (InputError, OSError) as error:
            found = error.faults[0].found if isinstance(error, InputError) else str(error.strerror)
            fix = "its pictures are decoded again"
            faults.append(
                Fault(str(folder), f"shard of decoded pictures: {found}", fix=fix, severity="warning")
            )

    verified = {name: state for name, state in whole.items() if settled(max(state[2:4]))}
    if any(known.get(name) != state for name, state in verified.items()):
        write_cached(record, json.dumps(known | verified))

    return faults, set(whole)


def _read_record(record: Path) -> dict[str, State]:
    with suppress(OSError, ValueError, TypeError, AttributeError):
        document = json.loads(record.read_text("ascii"))
        return {name: tuple(map(int, state)) for name, state in document.items()}
    return {}


def _state(folder: Path) -> State:
    status = (folder / PIXELS).stat()
    manifest = (folder / "manifest.json").stat()
    times = max(status.st_mtime_ns, manifest.st_mtime_ns), max(status.st_ctime_ns, manifest.st_ctime_ns)
    return status.st_size, manifest.st_size, *times, status.st_ino, status.st_dev


def _check_space(plan: _Plan, missing: Sequence[int]) -> Fault:
    """Return a note on the space that the missing shards need. InputError: the disk has less."""
    images = [image for number in missing for image in plan.images(number)]
    sample = images[:: max(1, len(images) // SAMPLE)]
    sizes = [_decoded(plan, image).nbytes for image in sample]
    needed = int(sum(sizes) / len(sizes) * len(images))
    free = shutil.disk_usage(plan.root).free
    fact = f"{len(images):,} pictures of {plan.size} pixels (shorter side) need about {_gigabytes(needed)} GB"
    if needed * SPARE > free:
        expected = f"that much free space; {_gigabytes(free)} GB are free"
        fix = "set CODER_CACHE to a folder on a larger disk, or give a smaller --cache-pictures SIZE"
        raise InputError.at(plan.root, fact, expected, fix)
    fix = "delete that folder when no run needs it any more"
    return Fault(str(plan.root), f"{fact}; they are decoded once", fix=fix, severity="note")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.3g}"


def _decoded(plan: _Plan, image: int) -> np.ndarray:
    """Decode a picture: (height, width, 3) uint8. InputError: it cannot be read, or its file has changed."""
    content = plan.split.read(image)
    place = plan.split.place(image)
    if hashlib.sha256(content).hexdigest() != plan.contents[image]:
        raise InputError.at(place, "has changed since this command began", fix="start again")
    return np.asarray(read_scaled(content, place, plan.size))


def _make_shards(plan: _Plan, missing: Sequence[int], workers: int, progress: Progress) -> None:
    count = min(MOST_WORKERS, processors(), len(missing)) if workers else 0
    total = sum(len(plan.images(number)) for number in missing)
    done = 0
    for number, faults in zip(missing, in_workers(partial(_make_shard, plan), missing, count), strict=True):
        if faults:
            raise InputError(faults)
        done += len(plan.images(number))
        progress(done, total)


def _make_shard(plan: _Plan, number: int) -> tuple[Fault, ...]:
    """Decode and write a shard. Faults are returned, because an exception would lose them between processes."""
    try:
        pictures = [_decoded(plan, image) for image in plan.images(number)]
        shapes = np.array([picture.shape[:2] for picture in pictures], np.int32)
        content = b"".join(picture.tobytes() for picture in pictures)
        write_sealed(plan.folder(number), {PIXELS: content, "shapes.npy": shapes}, replace=True)
    except InputError as error:
        return error.faults
    return ()


def _open_shards(plan: _Plan, prepare: Callable[[np.ndarray], np.ndarray]) -> PictureCache:
    """Read where the pictures lie. InputError: a shard disappeared or was damaged meanwhile."""
    shapes = [SealedFolder(plan.folder(number)).array("shapes") for number in range(len(plan.names))]
    offsets = list[np.ndarray]()
    for of_shard in shapes:
        sizes = of_shard.astype(np.int64).prod(axis=1) * CHANNELS
        offsets.append(np.cumsum(sizes) - sizes)
    return PictureCache(
        files=[plan.folder(number) / PIXELS for number in range(len(plan.names))],
        shard_of_image=np.arange(len(plan.contents), dtype=np.int32) // SHARD,
        offsets=np.concatenate(offsets),
        shapes=np.concatenate(shapes),
        prepare=prepare,
    )
