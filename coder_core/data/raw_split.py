"""One split as a layout on disk (precomp, Karpathy) gives it, before pictures and values are checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TypeVar

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.data.features import FeatureFile

Result = TypeVar("Result")


@dataclass
class RawSplit:
    """n images with features, and m captions.

    Args:
        features: (n, L, D) or (n, D), memory-mapped.
        file: where the features come from.
        rows: the rows of `file` that `features` shows, from and up to.
        stride: of which it shows every stride-th.
        captions: m strings.
        image_of_text: (m,) int64, the row of `features` every caption belongs to.
        image_names: n relative picture paths or ids, or None.
        caption_ids: (m,) int64, the number of every caption in its data set, or None.
        source: what was read from where.
        faults: warnings and notes so far.
    """

    features: np.ndarray
    file: FeatureFile
    rows: tuple[int, int]
    captions: list[str]
    image_of_text: np.ndarray
    stride: int = 1
    image_names: list[str] | None = None
    source: dict[str, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    caption_ids: np.ndarray | None = None

    def first_images(self, count: int) -> RawSplit:
        """The first `count` images and their captions; the features stay a view of the memory map."""
        inside = self.image_of_text < count
        return replace(
            self,
            features=self.features[:count],
            rows=(self.rows[0], self.rows[0] + count * self.stride),
            captions=list(compress(self.captions, inside)),
            image_of_text=self.image_of_text[inside],
            image_names=None if self.image_names is None else self.image_names[:count],
            caption_ids=None if self.caption_ids is None else self.caption_ids[inside],
        )


def id_array(ids: Sequence[int | None]) -> np.ndarray | None:
    """(m,) int64 numbers of captions; None where one has none, or one that needs more than 63 bits."""
    fits = all(number is not None and -(1 << 63) <= number < 1 << 63 for number in ids)
    return np.array(ids, np.int64) if fits else None


def collect(read: Callable[[], Result], faults: list[Fault]) -> Result | None:
    """The result of `read`; or None, with its faults added to `faults`: one bad file does not hide the next."""
    try:
        return read()
    except InputError as error:
        faults.extend(error.faults)
        return None
