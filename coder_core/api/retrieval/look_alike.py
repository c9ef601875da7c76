"""Find the picture of a split most similar to a new one, by pixels alone: for runs that cannot encode a picture."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from coder_core.api.pictures import has_pictures, sample_picture
from coder_core.api.sides import Array
from coder_core.console.faults import Fault, InputError
from coder_core.data.content.pictures import TINY_SIDE, tiny_image

if TYPE_CHECKING:
    from coder_core.api.run import Run

# A photograph of Flickr8k at a third of its size has at least 0.97 (of 100), another of 1,000 at most 0.94.
ALIKE = 0.95
PICTURES_READ = 1_000  # pictures of a split that are read, at 2 or 3 milliseconds each


@dataclass(frozen=True)
class LookAlike:
    """The nearest picture: its `image` row, the `likeness` (correlation of the tiny images, at most 1), among `of`."""

    image: int
    likeness: float
    of: int


@dataclass(frozen=True)
class TinyPictures:
    """Tiny images of a split.

    Args:
        images: (k,) rows. tiny: (k, 16 · 16 · 3) unit rows.
    """

    images: Array
    tiny: Array

    def nearest(self, picture: Image.Image) -> LookAlike:
        """The picture with the highest correlation."""
        likeness = self.tiny @ tiny_image(picture)
        best = int(likeness.argmax())
        return LookAlike(int(self.images[best]), float(likeness[best]), len(self.images))


def read_tiny_pictures(run: Run, split: str, at_most: int) -> TinyPictures:
    """Read the pictures of a split, or `at_most` of them at random; those that cannot be read are left out.

    Raises:
        InputError: there is none.
    """
    rows = np.arange(run.count(split, "image"))
    if len(rows) > at_most:
        rows = np.sort(np.random.default_rng(0).choice(rows, at_most, replace=False))
    tiny = {}
    for row in rows.tolist() if has_pictures(run, split) else []:
        with suppress(InputError):
            tiny[row] = tiny_image(sample_picture(run, split, row, size=4 * TINY_SIDE))
    if not tiny:
        raise InputError(
            Fault(f"run {run.name}", f"knows no readable picture of split {split!r}", "a picture folder")
        )
    return TinyPictures(np.array(list(tiny)), np.stack(list(tiny.values())))
