"""The pictures of a split as arrays for an image tower, decoded in worker processes ahead of their use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL.Image import Image
from torch import Tensor

from coder_core.console.faults import Fault
from coder_core.data.augmentation import Change, change_picture
from coder_core.data.captioned.decoding import prepare_pictures, prepared_blocks
from coder_core.data.captioned.reading import CaptionedSplit
from coder_core.data.rows import UnreadableRowsError

WHOLE = "whole pictures"


@dataclass(frozen=True)
class Pictures:
    """The pictures of a split, and how an image tower reads them.

    Args:
        split: where they lie.
        prepare: of one upright RGB picture -> an array of one shape, such as (3, H, W), float32; called in worker
            processes.
        local_features: L that the tower gives a picture.
        workers: decoding processes; 0 decodes in this one.
        counts: B prepared pictures -> (B,) how many of the L each has; all when None.
    """

    split: CaptionedSplit
    prepare: Callable[[Image], np.ndarray]
    local_features: int
    workers: int = 0
    counts: Callable[[Tensor], Tensor] | None = None

    def gather(self, images: np.ndarray, changes: Sequence[Change] | None = None) -> tuple[Tensor, Tensor]:
        """B prepared pictures, (B, 3, H, W) float32 for example, and their (B,) lengths, decoded here.

        Args:
            images: (B,) their numbers.
            changes: what is cut off each before it is prepared.

        Raises:
            UnreadableRowsError: pictures are gone or broken; up to 20 are named.
        """

        def prepare(place: int, picture: Image) -> Any:
            return self.prepare(picture if changes is None else change_picture(picture, changes[place]))

        return self._stacked(*prepare_pictures(self.split, images.tolist(), prepare))

    def chunks(self, size: int) -> Iterator[tuple[np.ndarray, Tensor, Tensor]]:
        """All pictures in order, a few at a time: (ids, prepared pictures, (B,) lengths)."""
        every = np.arange(len(self.split.rows))
        blocks = [every[start : start + size] for start in range(0, len(every), size)]
        workers = min(self.workers, len(blocks))
        for block in prepared_blocks(self.split, blocks, range(len(blocks)), self.prepare, workers):
            yield blocks[block.number], *self._stacked(block.prepared, block.broken)

    def _stacked(self, prepared: list[Any], broken: dict[int, str]) -> tuple[Tensor, Tensor]:
        if broken:
            fix = "copy them again, or leave them out with --skip-broken in a new run"
            raise UnreadableRowsError(
                [Fault(reason, "it was read before", WHOLE, fix) for reason in broken.values()]
            )
        pixels = torch.from_numpy(np.stack([np.asarray(one) for one in prepared]))
        every = torch.full((len(prepared),), self.local_features)
        return pixels, every if self.counts is None else self.counts(pixels)
