"""Decode and prepare pictures in worker processes, ahead of the model."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch.utils.data import DataLoader, Dataset

from coder_core.console.faults import InputError
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.pictures import read_picture

AHEAD = 2  # blocks a worker prepares before they are asked for
MOST_WORKERS = 16
START = "fork" if sys.platform == "linux" else "spawn"


def usual_workers(device: str) -> int:
    """Decoding processes: on a GPU all processors but one, on the CPU few beside the model."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(MOST_WORKERS, processors - 1 if device == "cuda" else processors // 4))


@dataclass(frozen=True)
class PreparedBlock:
    """The pictures of a block: its number, those that were read, and image → why it could not be read."""

    number: int
    prepared: list[Any]
    broken: dict[int, str]


def prepare_pictures(
    split: CaptionedSplit, images: Sequence[int], prepare: Callable[[int, Image], Any]
) -> tuple[list[Any], dict[int, str]]:
    """Prepared pictures, and image → the reason it could not be read.

    Args:
        split: the data.
        images: numbers of pictures.
        prepare: called with a place in `images` and its picture.
    """
    prepared, broken = [], {}
    for place, image in enumerate(images):
        try:
            prepared.append(prepare(place, read_picture(split.read(image), "the picture")))
        except InputError as error:
            broken[image] = f"{split.place(image)}: {error.faults[0].found}"
    return prepared, broken


class _Blocks(Dataset[PreparedBlock]):
    """Block number -> its prepared pictures."""

    def __init__(
        self, split: CaptionedSplit, blocks: Sequence[np.ndarray], prepare: Callable[[Image], Any]
    ) -> None:
        self.split, self.blocks, self.prepare = split, blocks, prepare

    def __getitem__(self, number: int) -> PreparedBlock:
        images = self.blocks[number].tolist()
        return PreparedBlock(
            number, *prepare_pictures(self.split, images, lambda _, picture: self.prepare(picture))
        )


def prepared_blocks(
    split: CaptionedSplit,
    blocks: Sequence[np.ndarray],
    numbers: Sequence[int],
    prepare: Callable[[Image], Any],
    workers: int,
) -> Iterator[PreparedBlock]:
    """The blocks of these numbers, in this order.

    Args:
        split: the data.
        blocks: the images of every block.
        numbers: which blocks.
        prepare: of one picture, see `Towers`.
        workers: processes that decode; with 0 it happens here, when a block is asked for.
    """
    yield from in_workers(_Blocks(split, blocks, prepare), numbers, workers)


def in_workers(dataset: Dataset[Any], numbers: Sequence[int], workers: int) -> Iterator[Any]:
    """The elements of these numbers, in this order, made in `workers` processes ahead of their use; here with 0."""
    more: dict[str, Any] = {"prefetch_factor": AHEAD, "multiprocessing_context": START} if workers else {}
    yield from DataLoader(
        dataset,
        batch_size=None,
        sampler=list(numbers),
        num_workers=workers,
        worker_init_fn=_leave_signals,
        generator=torch.Generator(),
        **more,
    )


def _leave_signals(worker: int) -> None:
    """Ctrl-C and a closed terminal reach every process of the group; the command answers them for all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
