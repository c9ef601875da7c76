"""Region features of pictures in the precomp layout, resumable: {split}_ims.npy, _caps.txt, _ids.txt, _boxes.npy, and
tower.json with the tower and where the pictures lie (of packed ones also {split}_positions.npy)."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from coder_core.console.faults import Fault, InputError
from coder_core.console.progress import Progress, silent
from coder_core.data.captioned.decoding import prepared_blocks
from coder_core.data.captioned.positions import names_digest, note_packed
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.captioned.records import Tally
from coder_core.data.lines import shown
from coder_core.embedding.arrays import keep_rows
from coder_core.embedding.plan import BLOCK_ON_CPU, make_plan
from coder_core.files import atomic
from coder_core.model.towers.regions import RegionTower, boxes

ABOUT = "tower.json"
SECONDS = 20.0  # between two marks of what is done
POSITIONS = "positions.npy"  # of packed pictures
ENDINGS = ("ims.npy", "boxes.npy", "ids.txt", "caps.txt")


@dataclass(frozen=True)
class Sizes:
    """Disk space of the features of some splits.

    Args:
        images: pictures of all splits. needed: bytes of what is still to be written. free: on that disk.
    """

    images: int
    needed: int
    free: int


class RegionFolder:
    """The folder of region features.

    Args:
        folder: made when missing.
        tower: that gives the features.
        batch_size: pictures computed at once on a GPU; the CPU computes blocks of 32.

    Raises:
        InputError: it holds features of another tower.
    """

    def __init__(self, folder: Path, tower: RegionTower, *, batch_size: int = 256) -> None:
        self.folder, self.tower = folder, tower
        self.block = BLOCK_ON_CPU if tower.device.type == "cpu" else batch_size
        self._about = _read_about(folder / ABOUT)
        if self._about is not None and self._about.get("tower") != tower.about:
            fix = "choose another --out, or remove that folder"
            raise InputError(
                Fault(str(folder / ABOUT), "tells of another tower, grid or precision", "this one", fix)
            )
        taken = [] if self._about is not None else sorted(path.name for path in folder.glob("*_ims.npy"))
        if taken:
            fix = "choose another --out"
            raise InputError(
                Fault(str(folder / taken[0]), "is there already and is not of this command", "", fix)
            )

    def key(self, split: CaptionedSplit) -> str:
        """Changes with the pictures, the captions and the tower."""
        return make_plan(split, self.tower.about, self.block).key

    def is_done(self, split: CaptionedSplit) -> bool:
        """True if the features of exactly these pictures exist.

        Raises:
            InputError: those of others are.
        """
        recorded = (self._about or {}).get("splits", {}).get(split.name)
        if recorded is None:
            return False
        if recorded != self.key(split):
            place, fix = (
                str(self.folder / f"{split.name}_ims.npy"),
                "choose another --out, or remove these files",
            )
            raise InputError(Fault(place, "is of other pictures or captions", "of these", fix))
        return all((self.folder / f"{split.name}_{ending}").is_file() for ending in ENDINGS)

    def sizes(self, splits: Sequence[CaptionedSplit]) -> Sizes:
        """The bytes that these splits take, and that are free."""
        each = self.tower.regions * (self.tower.size * 2 + 16)
        left = sum(len(split.rows) for split in splits if not self.is_done(split))
        existing = next(
            folder for folder in (self.folder, *self.folder.absolute().parents) if folder.exists()
        )
        return Sizes(sum(len(split.rows) for split in splits), left * each, shutil.disk_usage(existing).free)

    def extract(
        self,
        split: CaptionedSplit,
        *,
        workers: int = 1,
        skip_broken: bool = False,
        progress: Progress = silent,
    ) -> list[Fault]:
        """Write the files of a split; what an earlier call did of them is kept.

        Args:
            split: the pictures.
            workers: decoding processes.
            skip_broken: leave out pictures that cannot be read, with their captions.
            progress: of the pictures.

        Returns:
            Warnings on pictures that were left out.

        Raises:
            InputError: broken pictures without `skip_broken` (what is done stays), or a disk that is full.
        """
        _check_names(split)
        key = self.key(split)
        unfinished = self.folder / f".unfinished-{split.name}-{key}"
        try:
            unfinished.mkdir(parents=True, exist_ok=True)
            with _only_one(unfinished):
                self._note({})
                broken = self._compute(split, unfinished, workers, progress)
                faults = _broken_faults(split, broken, skip=skip_broken)
                whole = np.ones(len(split.rows), dtype=bool)
                whole[list(broken)] = False
                if not whole.any():
                    raise InputError(
                        Fault(split.name, "no picture can be read", "pictures", "check the folder")
                    )
                self._finish(split, unfinished, whole, key)
            shutil.rmtree(unfinished, ignore_errors=True)
        except OSError as error:
            fix = "make room and start this command again: what is done is kept"
            raise InputError(
                Fault(str(self.folder), f"cannot be written: {error.strerror}", "", fix)
            ) from error
        return faults

    def _compute(
        self, split: CaptionedSplit, place: Path, workers: int, progress: Progress
    ) -> dict[int, str]:
        """Fill the arrays in `place`; returns image → why it could not be read."""
        plan = make_plan(split, self.tower.about, self.block)
        n, cells = len(split.rows), self.tower.regions
        features = _open(place / "ims.npy", (n, cells, self.tower.size), "<f2")
        places = _open(place / "boxes.npy", (n, cells, 4), "<f4")
        done = _open(place / "done.npy", (len(plan.images),), "|u1")
        left = np.flatnonzero(done == 0).tolist()
        fresh: list[int] = []
        broken: dict[int, str] = {}
        finished = n - sum(len(plan.images[number]) for number in left)
        marked = time.monotonic()
        progress(finished, n)
        workers = min(workers, len(left))
        try:
            for block in prepared_blocks(split, plan.images, left, self.tower.prepare, workers):
                rows = [image for image in plan.images[block.number].tolist() if image not in block.broken]
                if rows:
                    features[rows] = self.tower.encode(block.prepared)
                    places[rows] = [
                        boxes(one.view, self.tower.rows, self.tower.columns) for one in block.prepared
                    ]
                broken |= block.broken
                fresh += [] if block.broken else [block.number]  # a repaired picture is read again
                finished += len(plan.images[block.number])
                progress(finished, n)
                if time.monotonic() - marked > SECONDS:
                    fresh, marked = _mark(features, places, done, fresh), time.monotonic()
        finally:
            _mark(features, places, done, fresh)
        return broken

    def _finish(self, split: CaptionedSplit, place: Path, whole: np.ndarray, key: str) -> None:
        """Put the files of a split in their places, the captions last: readers look for them."""
        readable = split.keep(whole)
        if not whole.all():
            for name in ("ims.npy", "boxes.npy"):
                keep_rows(place / name, np.flatnonzero(whole))
        order = np.argsort(readable.image_of_text, kind="stable")
        lines = {
            "ids.txt": [readable.image_names[readable.image_of_text[text]] for text in order],
            "caps.txt": [readable.captions[text] for text in order],
        }
        for name, values in lines.items():
            (place / name).write_text("".join(f"{value}\n" for value in values), encoding="utf-8")
        pictures: dict[str, Any] = {"names": names_digest(readable.image_names)}
        packed = note_packed(readable.positions, readable.rows)
        if packed is None:
            pictures["folder"] = str(readable.positions.folder.resolve()) if readable.positions.folder else ""
        else:
            pictures["packed"], positions = packed
            np.save(place / POSITIONS, positions)
        for name in (*([] if packed is None else [POSITIONS]), *ENDINGS):
            _sync(place / name)
            os.replace(place / name, self.folder / f"{split.name}_{name}")
        self._note({split.name: key}, {split.name: pictures})

    def _note(self, splits: dict[str, str], pictures: dict[str, Any] | None = None) -> None:
        """Write beside the features the tower, the splits that are done, and where their pictures lie."""
        before = self._about or {}
        self._about = {
            "tower": self.tower.about,
            "splits": before.get("splits", {}) | splits,
            "pictures": before.get("pictures", {}) | (pictures or {}),
        }
        atomic.replace_file(self.folder / ABOUT, json.dumps(self._about, ensure_ascii=False, indent=1))


def _read_about(file: Path) -> dict[str, Any] | None:
    if not file.exists():
        return None
    try:
        value = json.loads(file.read_text("utf-8"))
        if all(
            isinstance(part, dict) for part in (value["tower"], value["splits"], value.get("pictures", {}))
        ):
            return dict(value)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        pass
    raise InputError(Fault(str(file), "is damaged", "what this command wrote", "remove that folder"))


def _only_one(place: Path) -> AbstractContextManager[object]:
    try:
        return FileLock(place / "lock", timeout=0).acquire()
    except Timeout:
        raise InputError(
            Fault(str(place), "another process works there", "one at a time", "wait for it")
        ) from None


def _check_names(split: CaptionedSplit) -> None:
    """Refuse names that no line of an ids file can hold."""
    for name in split.image_names:
        if name != " ".join(name.split("\n")).strip():
            problem = f"the name {shown(name)} begins or ends with a blank, or holds a line feed"
            raise InputError(Fault(split.name, problem, "a name on a line", "rename the picture"))


def _open(file: Path, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """A memory map of the file; made of zeros when it is not there in this shape."""
    if file.exists():
        try:
            array = np.lib.format.open_memmap(file, mode="r+")
            if array.shape == shape and array.dtype == np.dtype(dtype):
                return array
        except (ValueError, OSError, EOFError):
            pass
    (file.parent / "done.npy").unlink(missing_ok=True)  # nothing of it counts
    return np.lib.format.open_memmap(file, mode="w+", dtype=np.dtype(dtype), shape=shape)


def _mark(features: np.ndarray, places: np.ndarray, done: np.ndarray, fresh: list[int]) -> list[int]:
    """Note blocks as done once their rows are on disk."""
    for array in (features, places):
        array.flush()  # type: ignore[attr-defined]
    done[fresh] = 1
    done.flush()  # type: ignore[attr-defined]
    return []


def _sync(file: Path) -> None:
    with file.open("rb") as content:
        os.fsync(content.fileno())


def _broken_faults(split: CaptionedSplit, broken: dict[int, str], *, skip: bool) -> list[Fault]:
    tally = Tally(
        split.name,
        f"of {len(split.rows):,} pictures cannot be read",
        "whole pictures",
        "copy them again and start this command again, or add --skip-broken: what is done is kept",
        "warning" if skip else "error",
    )
    for image in sorted(broken):
        tally.add(broken[image])
    faults = tally.faults()
    if faults and not skip:
        raise InputError(faults)
    return faults
