"""One split as a layout on disk (precomp, Karpathy) gives it, before pictures and values are checked."""

from __future__ import annotations

from collections.abc import Callable
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
        )


def collect(read: Callable[[], Result], faults: list[Fault]) -> Result | None:
    """The result of `read`; or None, with its faults added to `faults`: one bad file does not hide the next."""
    try:
        return read()
    except InputError as error:
        faults.extend(error.faults)
        return None
