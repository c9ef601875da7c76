"""Batches of pictures from the cache of decoded pictures ÷ from their JPEG files, cropped, mirrored and prepared for CLIP.

The files are photographs of 500 × 375 pixels, as in Flickr8k, Flickr30K and MS-COCO. Everything runs in one process.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.synthetic import write_pictures
from benchmarks.timing import Line, at_most, in_turn, no_bar
from coder_core.data.augmentation import draw_changes
from coder_core.data.captioned.checking import decode_pictures
from coder_core.data.captioned.collection import CaptionedSplit
from coder_core.data.captioned.decoding import Pictures
from coder_core.data.captioned.picture_cache import PictureCache, cached_pictures
from coder_core.data.captioned.reading import read_captioned
from coder_core.data.pictures import read_picture
from coder_core.model.towers.pretrained import Preparation
from coder_core.model.towers.quick_preparation import quick_preparation

BAR = 0.25
PICTURES = 128
SIZE = (500, 375)
SIDE = 224
CACHED = 258  # 1.15 times the side


def open_both(folder: Path) -> tuple[Pictures, Pictures, CaptionedSplit]:
    """Return pictures that are read from their files, the same from a cache in the folder, and their split."""
    from transformers import CLIPImageProcessorPil

    data = write_pictures(folder / "jpeg", PICTURES, SIZE)
    split = read_captioned(data).split("train")
    contents, _ = decode_pictures(split)
    crop = {"height": SIDE, "width": SIDE}
    preparation = Preparation(CLIPImageProcessorPil(size={"shortest_edge": SIDE}, crop_size=crop))
    quick = quick_preparation(preparation)
    if quick is None:
        raise RuntimeError("the preparation of CLIP has no quick form")
    with patch.dict(os.environ, {"CODER_CACHE": str(folder / "cache")}):
        cache, _ = cached_pictures(split, contents, CACHED, quick, workers=0)
    files = Pictures(split, partial(_pixels, preparation), 1)
    return files, replace(files, cache=cache), split


def _pixels(preparation: Preparation, picture: object) -> np.ndarray:
    return preparation(picture)["pixel_values"]  # type: ignore[arg-type]


def lines(folder: Path, rounds: int) -> list[Line]:
    """Measure a batch, and reading alone."""
    files, cached, split = open_both(folder / "pictures")
    images = np.arange(PICTURES)
    contents = [split.read(image) for image in range(PICTURES)]
    cache = cached.cache
    assert isinstance(cache, PictureCache)

    def batch(pictures: Pictures, turn: int) -> None:
        changes = draw_changes("crop-flip", split.captions, np.random.default_rng(turn))
        pictures.gather(images, changes)

    def decode(turn: int) -> None:
        for content in contents:
            read_picture(content, "the picture")

    def read(turn: int) -> None:
        for image in range(PICTURES):
            cache.read(image)

    programs: dict[str, Callable[[int], object]] = {
        "files": partial(batch, files),
        "cached": partial(batch, cached),
        "decode": decode,
        "read": read,
    }
    taken = in_turn(programs, max(3, rounds // 2), warm_up=1)
    name = f"a batch of {PICTURES} pictures from the cache ÷ from JPEG files of {SIZE[0]} × {SIZE[1]}"
    return [
        at_most(name, BAR, taken["cached"], taken["files"], "from files"),
        no_bar("reading cached pixels ÷ decoding the JPEG files", taken["read"], taken["decode"]),
    ]
