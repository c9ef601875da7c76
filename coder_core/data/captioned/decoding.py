"""Decode and prepare pictures for an image tower in worker processes, ahead of the model."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor
from torch.utils.data import DataLoader

from coder_core.console.faults import Fault, InputError
from coder_core.console.processes import processors
from coder_core.data.augmentation import Change, change_picture
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.features import UnreadableRowsError
from coder_core.data.pictures import read_picture

AHEAD = 2  # blocks a worker prepares in advance
MOST_WORKERS = 16
SECONDS_BETWEEN_LOOKS = 0.5  # between a worker's checks that its parent is alive
START = "fork" if sys.platform == "linux" else "spawn"


def usual_workers(device: str) -> int:
    """Return the default number of decoding processes: all processors but one with a GPU, else a quarter of them."""
    return max(1, min(MOST_WORKERS, processors() - 1 if device == "cuda" else processors() // 4))


@dataclass(frozen=True)
class PreparedBlock:
    """A block of pictures: its number, its prepared pictures, and image → why it could not be read."""

    number: int
    prepared: list[Any]
    broken: dict[int, str]


def _prepare(
    split: CaptionedSplit, images: Sequence[int], prepare: Callable[[int, Image], Any]
) -> tuple[list[Any], dict[int, str]]:
    """Call `prepare` with index in `images` and picture. Return the results, and image → why it could not be read."""
    prepared = []
    broken = {}
    for index, image in enumerate(images):
        try:
            prepared.append(prepare(index, read_picture(split.read(image), "the picture")))
        except InputError as error:
            broken[image] = f"{split.place(image)}: {error.faults[0].found}"
    return prepared, broken


def _prepare_block(
    split: CaptionedSplit, blocks: Sequence[np.ndarray], prepare: Callable[[Image], Any], number: int
) -> PreparedBlock:
    images = blocks[number].tolist()
    return PreparedBlock(number, *_prepare(split, images, lambda _, picture: prepare(picture)))


def prepared_blocks(
    split: CaptionedSplit,
    blocks: Sequence[np.ndarray],
    numbers: Sequence[int],
    prepare: Callable[[Image], Any],
    workers: int,
) -> Iterator[PreparedBlock]:
    """Yield the blocks `numbers` in this order, decoded ahead by `workers` processes, or with 0 on demand in this one.
    blocks: the images of every block. prepare: called with every picture, see `Towers`."""
    yield from in_workers(partial(_prepare_block, split, blocks, prepare), numbers, workers)


def in_workers(make: Callable[[Any], Any], numbers: Sequence[int], workers: int) -> Iterator[Any]:
    """Yield make(number) for all numbers in order, computed ahead in `workers` processes, or with 0 in this one."""
    begin = partial(_begin_worker, os.getpid())
    loader = DataLoader[Any](
        cast(Any, list(numbers)),
        batch_size=None,
        collate_fn=make,
        num_workers=workers,
        worker_init_fn=begin,
        generator=torch.Generator(),
        prefetch_factor=AHEAD if workers else None,
        multiprocessing_context=START if workers else None,
    )
    return iter(loader)


def _begin_worker(parent: int, worker: int) -> None:
    """Make a worker exit with the command: if that is killed, the worker would wait forever for its results to be
    taken. Ignore Ctrl-C and a closed terminal, which reach every process of the group: the command handles them."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    os._exit(1)


class CachedPictures(Protocol):
    """Decoded pictures of a split, see `picture_cache`."""

    def prepared(self, images: Sequence[int], changes: Sequence[Change] | None) -> list[np.ndarray]:
        """Return the prepared pixels of these images, each changed first. UnreadableRowsError: the cache was damaged."""
        ...


@dataclass(frozen=True)
class Pictures:
    """Pictures of a split, decoded and prepared for an image tower."""

    split: CaptionedSplit  # the picture files
    # one upright RGB picture -> an array of one shape, such as (3, H, W), float32; called in workers
    prepare: Callable[[Image], np.ndarray]
    local_features: int  # L, the most local features of a picture
    workers: int = 0  # decoding processes; 0 decodes in this one
    counts: Callable[[Tensor], Tensor] | None = None  # pictures -> (B,) local features of each; None: L
    cache: CachedPictures | None = None  # decoded pictures; None reads the files

    def gather(self, images: np.ndarray, changes: Sequence[Change] | None = None) -> tuple[Tensor, Tensor]:
        """Decode and prepare B pictures: (B, 3, H, W) float32 for example, and their (B,) lengths. images: (B,) numbers
        in the split. changes: the crop and flip of each, applied before `prepare`. UnreadableRowsError: pictures are
        missing or broken; it names up to 20."""
        if self.cache is not None:
            return self._stacked(self.cache.prepared(images.tolist(), changes), {})

        def prepare(index: int, picture: Image) -> Any:
            return self.prepare(picture if changes is None else change_picture(picture, changes[index]))

        return self._stacked(*_prepare(self.split, images.tolist(), prepare))

    def chunks(self, size: int) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
        """Yield all pictures in order, `size` at a time: (ids, prepared pictures, (B,) lengths)."""
        ids = np.arange(len(self.split.rows))
        blocks = [ids[start : start + size] for start in range(0, len(ids), size)]
        if self.cache is not None:
            for images in blocks:
                yield images, *self.gather(images)
            return
        workers = min(self.workers, len(blocks))
        for block in prepared_blocks(self.split, blocks, range(len(blocks)), self.prepare, workers):
            yield blocks[block.number], *self._stacked(block.prepared, block.broken)

    def _stacked(self, prepared: list[Any], broken: dict[int, str]) -> tuple[Tensor, Tensor]:
        if broken:
            fix = "copy them again, or train another run without them (train --skip-broken)"
            where = broken.values()
            raise UnreadableRowsError([Fault(w, "can no longer be read", "a picture", fix) for w in where])
        pixels = torch.from_numpy(np.stack([np.asarray(one) for one in prepared]))
        whole = torch.full((len(prepared),), self.local_features)
        return pixels, whole if self.counts is None else self.counts(pixels)
