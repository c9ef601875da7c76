"""Decode and prepare pictures in worker processes, ahead of the model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL.Image import Image
from torch.utils.data import DataLoader, Dataset

from coder_core.console.faults import InputError
from coder_core.data.captioned import CaptionedSplit
from coder_core.data.pictures import read_picture

AHEAD = 2  # blocks a worker prepares before they are asked for
START = "fork" if sys.platform == "linux" else "spawn"


@dataclass(frozen=True)
class PreparedBlock:
    """The pictures of a block: its number, those that were read, and image → why it could not be read."""

    number: int
    prepared: list[Any]
    broken: dict[int, str]


class _Blocks(Dataset[PreparedBlock]):
    """Block number -> its prepared pictures."""

    def __init__(self, split: CaptionedSplit, blocks: Sequence[np.ndarray], prepare: Callable[[Image], Any]) -> None:
        self.split, self.blocks, self.prepare = split, blocks, prepare

    def __getitem__(self, number: int) -> PreparedBlock:
        prepared, broken = [], {}
        for image in self.blocks[number].tolist():
            try:
                prepared.append(self.prepare(read_picture(self.split.read(image), "the picture")))
            except InputError as error:
                broken[image] = f"{self.split.place(image)}: {error.faults[0].found}"
        return PreparedBlock(number, prepared, broken)


def prepared_blocks(
    split: CaptionedSplit, blocks: Sequence[np.ndarray], numbers: Sequence[int], prepare: Callable[[Image], Any],
    workers: int,
) -> Iterator[PreparedBlock]:  # fmt: skip
    """The blocks of these numbers, in this order.

    Args:
        split: the data.
        blocks: the images of every block.
        numbers: which blocks.
        prepare: of one picture, see `Towers`.
        workers: processes that decode; with 0 it happens here, when a block is asked for.
    """
    more: dict[str, Any] = {"prefetch_factor": AHEAD, "multiprocessing_context": START} if workers else {}
    dataset = _Blocks(split, blocks, prepare)
    yield from DataLoader(dataset, batch_size=None, sampler=list(numbers), num_workers=workers, **more)
