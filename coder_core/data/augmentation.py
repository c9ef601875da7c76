"""Picture augmentation that keeps captions true: a crop of most of it, a flip where the caption names no side."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from coder_core.data.words import tokenise

Augment = Literal["none", "crop", "crop-flip"]
SMALLEST_SHARE = 0.9  # of the picture's area that stays, as open_clip's training has it
SIDED = frozenset(
    {
        "left",
        "right",
        "lefts",
        "rights",
        "leftmost",
        "rightmost",
        "lefthand",
        "righthand",
        "lefthanded",
        "righthanded",
        "leftward",
        "rightward",
        "leftwards",
        "rightwards",
        "lefty",
        "righty",
        "clockwise",
        "counterclockwise",
        "anticlockwise",
    }
)
"""Words that a mirrored picture makes false."""


class Change(NamedTuple):
    """A crop as shares of the picture's sides, and whether it is mirrored."""

    side: float
    """Share of width and height."""
    left: float
    """Offset, as a share of the available room."""
    top: float
    flip: bool


def draw_changes(kind: Augment, captions: list[str], random: np.random.Generator) -> list[Change]:
    """A change for each of B pictures; none of a caption that names a side is mirrored.

    Args:
        kind: "crop" or "crop-flip".
        captions: of the pictures, in order.
        random: where the numbers come from; as many are drawn whatever the captions are.
    """
    draws = random.random((len(captions), 4))
    sides = np.sqrt(SMALLEST_SHARE + (1 - SMALLEST_SHARE) * draws[:, 0])
    return [
        Change(
            float(side),
            float(left),
            float(top),
            kind == "crop-flip" and flip < 0.5 and not names_side(caption),
        )
        for side, (_, left, top, flip), caption in zip(sides, draws, captions, strict=True)
    ]


def names_side(caption: str) -> bool:
    """True if a caption contains a word such as left, rightmost or clockwise."""
    return not SIDED.isdisjoint(tokenise(caption))


def change_picture(picture: Image.Image, change: Change) -> Image.Image:
    """Crop, then mirror."""
    width, height = (max(1, round(change.side * side)) for side in picture.size)
    left, top = round(change.left * (picture.width - width)), round(change.top * (picture.height - height))
    picture = picture.crop((left, top, left + width, top + height))
    return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if change.flip else picture
