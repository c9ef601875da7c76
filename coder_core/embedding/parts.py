"""Finished parts of an embedding: sealed folders of some blocks each. A killed process loses what it had not sealed."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from coder_core.console.faults import InputError
from coder_core.files import atomic, sealed

Kind = Literal["images", "texts"]
SECONDS = 20.0  # between two parts
WAITING_BYTES = 1 << 21  # of rows that are not sealed
FOLDER = ".unfinished"  # beside the runs, where none is looked for


@dataclass(frozen=True)
class Block:
    """The result of a block.

    Args:
        rows: (k, D) float32, of the samples that could be embedded.
        broken: image → why its picture could not be read.
        cut: texts that were longer than the model reads.
    """

    rows: np.ndarray
    broken: Mapping[int, str] = field(default_factory=dict)
    cut: int = 0


class Parts:
    """The blocks of one kind that are done.

    Args:
        folder: of all parts.
        kind: "images" or "texts".
    """

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder, self.kind = folder, kind
        self._waiting: dict[int, Block] = {}
        self._bytes = 0
        self._sealed = time.monotonic()

    def read(self) -> Iterator[tuple[int, Block]]:
        """The blocks on disk with their numbers, a part in memory at a time. One whose broken pictures were repaired
        comes twice. A damaged part is removed, and its blocks are to be computed again."""
        for name in atomic.folder_names(self.folder):
            if not name.startswith(f"{self.kind}-"):
                continue
            try:
                part = sealed.SealedFolder(self.folder / name)
                part.check()
                rows, about = part.array("rows"), part.document("blocks")
            except InputError:
                shutil.rmtree(self.folder / name, ignore_errors=True)
                continue
            start = 0
            for number, entry in about.items():
                broken = {int(image): str(reason) for image, reason in entry["broken"].items()}
                yield int(number), Block(rows[start : start + entry["rows"]], broken, entry["cut"])
                start += entry["rows"]

    def add(self, number: int, block: Block) -> None:
        """Take a finished block; those that wait are sealed every twenty seconds, and when they are 2 MiB."""
        self._waiting[number] = block
        self._bytes += block.rows.nbytes
        if time.monotonic() - self._sealed > SECONDS or self._bytes > WAITING_BYTES:
            self.seal()

    def seal(self) -> None:
        """Write the waiting blocks.

        Raises:
            InputError: the disk is full or read-only.
        """
        if self._waiting:
            first, last = min(self._waiting), max(self._waiting)
            about = {
                number: {"rows": len(block.rows), "broken": dict(block.broken), "cut": block.cut}
                for number, block in self._waiting.items()
            }
            width = max(block.rows.shape[1] for block in self._waiting.values())
            full = [block.rows for block in self._waiting.values() if len(block.rows)]
            rows = np.concatenate(full) if full else np.empty((0, width), np.float32)
            files: dict[str, sealed.Content] = {"rows.npy": rows, "blocks.json": json.dumps(about)}
            sealed.write_sealed(self.folder / f"{self.kind}-{first:08d}-{last:08d}", files, replace=True)
            self._waiting, self._bytes = {}, 0
        self._sealed = time.monotonic()


def remove(folder: Path) -> None:
    """Remove the parts of a finished embedding, and their parent once it is empty."""
    shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.parent.rmdir()
