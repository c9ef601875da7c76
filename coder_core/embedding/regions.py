"""Region features of pictures in the precomp layout, resumable: {split}_ims.npy, _caps.txt, _ids.txt, _boxes.npy, and
tower.json with the tower and the pictures' folder (for packed pictures also {split}_positions.npy); groups.tsv if the
pictures have groups."""

import json
import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import Progress
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.decoding import PreparedBlock
from coder_core.data.captioned.positions import names_digest, note_packed
from coder_core.data.groups import open_groups
from coder_core.data.lines import shown
from coder_core.embedding import resumable
from coder_core.files import atomic
from coder_core.model.towers.regions import RegionTower, boxes

ABOUT = "tower.json"
GROUPS = "groups.tsv"
POSITIONS = "positions.npy"  # of packed pictures
ENDINGS = ("ims.npy", "boxes.npy", "ids.txt", "caps.txt")


class RegionFolder:
    """Folder of a tower's region features, created if missing. InputError: it has features of another tower.
    `batch_size`: pictures computed at once on a GPU; the CPU computes blocks of 32."""

    def __init__(self, folder: Path, tower: RegionTower, *, batch_size: int = 256) -> None:
        self.folder = folder
        self.tower = tower
        self.batch_size = batch_size
        self._about = _read_about(folder / ABOUT)
        if self._about is None:
            for file in sorted(folder.glob("*_ims.npy")):
                fix = "choose another --out"
                raise InputError.at(file, "already exists and was not written by this command", fix=fix)
        elif self._about.get("tower") != tower.about:
            fix = "choose another --out, or remove that folder"
            problem = "was written with a different tower, grid or precision"
            raise InputError.at(folder / ABOUT, problem, "the current ones", fix)

    def _plan(self, split: CaptionedSplit) -> resumable.Plan:
        return resumable.make_plan(split, self.tower.about, self.tower.device.type, self.batch_size)

    def is_done(self, split: CaptionedSplit) -> bool:
        """True if the features of exactly these pictures exist. InputError: they are of other pictures or captions."""
        recorded = (self._about or {}).get("splits", {}).get(split.name)
        if recorded is None:
            return False
        if recorded != self._plan(split).key:
            fix = "choose another --out, or remove these files"
            file = self.folder / f"{split.name}_ims.npy"
            raise InputError.at(file, "was made from different pictures or captions", "the same ones", fix)
        return all((self.folder / f"{split.name}_{ending}").is_file() for ending in ENDINGS)

    def sizes(self, splits: Sequence[CaptionedSplit]) -> tuple[int, int, int]:
        """Return the number of pictures of these splits, the bytes still to be written, and those free on that disk."""
        picture_bytes = self.tower.regions * (self.tower.size * 2 + 16)
        left = sum(len(split.rows) for split in splits if not self.is_done(split))
        folders = (self.folder, *self.folder.absolute().parents)
        free = shutil.disk_usage(next(folder for folder in folders if folder.exists())).free
        return sum(len(split.rows) for split in splits), left * picture_bytes, free

    def extract(
        self,
        split: CaptionedSplit,
        *,
        workers: int,
        skip_broken: bool,
        progress: Progress,
        tell: Callable[[str], None],
    ) -> list[Fault]:
        """Write the files of a split, continuing where an earlier call stopped; return warnings on pictures left out.

        skip_broken: leave out pictures that cannot be read, with their captions. tell: called with a sentence about the
        work that is continued. Finished work is kept after StoppedBySignalError (SIGTERM, SIGHUP or Ctrl-C) and
        InputError (broken pictures without `skip_broken`, or a full disk).
        """
        _check_names(split)
        plan = self._plan(split)
        unfinished = self.folder / f".unfinished-{split.name}-{plan.key}"
        cells = self.tower.regions
        layout = {"ims": ((cells, self.tower.size), "<f2"), "boxes": ((cells, 4), "<f4")}
        with resumable.only_writer(unfinished):
            self._note({})
            arrays = resumable.BlockArrays(unfinished, plan.images, layout)
            left = arrays.unfinished()
            total = len(split.rows)
            finished = arrays.finished_rows(left)
            if finished:
                tell(f"continuing {unfinished}: {finished:,} of {total:,} pictures are finished")
            with resumable.stoppable(progress) as watched:
                report = resumable.counted(watched, finished, total, f"{split.name} pictures")
                encoder = resumable.PictureEncoder(self.tower.prepare, self._encode, workers)
                broken = resumable.put_pictures(arrays, split, left, encoder, report)
            whole, faults = resumable.readable_pictures(split, broken, skip=skip_broken)
            self._finish(split, unfinished, whole, plan.key)

        shutil.rmtree(unfinished, ignore_errors=True)
        return faults

    def _encode(self, block: PreparedBlock) -> dict[str, Any]:
        cells = [boxes(picture.view, self.tower.rows, self.tower.columns) for picture in block.prepared]
        return {"ims": self.tower.encode(block.prepared), "boxes": cells}

    def _finish(self, split: CaptionedSplit, unfinished: Path, whole: np.ndarray, key: str) -> None:
        """Move the files of a split to their final names, the captions last, because readers look for them."""
        readable = split.keep(whole)
        files = {name: resumable.kept_rows(unfinished / name, whole) for name in ("ims.npy", "boxes.npy")}
        order = np.argsort(readable.image_of_text, kind="stable")
        lines = {
            "ids.txt": [readable.image_names[readable.image_of_text[text]] for text in order],
            "caps.txt": [readable.captions[text] for text in order],
        }
        for name, values in lines.items():
            (unfinished / name).write_text("".join(f"{value}\n" for value in values), encoding="utf-8")

        names = names_digest(readable.image_names)
        pictures: dict[str, Any]
        packed = note_packed(readable.positions, readable.rows)
        if packed is None:
            folder = readable.positions.folder
            pictures = {"names": names, "folder": str(folder.resolve()) if folder else ""}
        else:
            note, positions = packed
            pictures = {"names": names, "packed": note}
            np.save(unfinished / POSITIONS, positions)

        for name in (*([] if packed is None else [POSITIONS]), *ENDINGS):
            file = files.get(name, unfinished / name)
            with file.open("rb") as content:
                os.fsync(content.fileno())
            os.replace(file, self.folder / f"{split.name}_{name}")

        self._note({split.name: key}, {split.name: pictures})

    def note_groups(self, splits: Sequence[CaptionedSplit]) -> Path | None:
        """Write the groups of the pictures of these splits, beside those of earlier ones, as --groups reads them; return
        the file, or None without groups."""
        file = self.folder / GROUPS
        known = {name: group for name, (group, _) in open_groups(file).lines.items()} if file.exists() else {}
        for split in splits:
            if split.image_groups is not None:
                named = zip(split.image_names, split.image_groups.tolist(), strict=True)
                known |= {name: str(group) for name, group in named if group >= 0}
        if not known:
            return None
        atomic.replace_file(file, "".join(f"{name}\t{group}\n" for name, group in known.items()))
        return file

    def _note(self, splits: dict[str, str], pictures: dict[str, Any] | None = None) -> None:
        """Record the tower, the finished splits, and the folder of their pictures beside the features."""
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
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
        value = json.loads(file.read_text("utf-8"))
        parts = (value["tower"], value["splits"], value.get("pictures", {}))
        if all(isinstance(part, dict) for part in parts):
            return dict(value)
    raise InputError.at(file, "is damaged", "a file that this command wrote", "remove that folder")


def _check_names(split: CaptionedSplit) -> None:
    """Raise InputError for a name that does not fit on a line of an ids file."""
    for name in split.image_names:
        if name != " ".join(name.split("\n")).strip():
            problem = f"the name {shown(name)} begins or ends with a space, or contains a line feed"
            raise InputError.at(split.name, problem, "a name that fits on one line", "rename the picture")
