"""Make region features of a new picture, as those of the built-in data set."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from coder_core.console.faults import InputError
from coder_core.demo.features import WIDTH, Array, cell_features, region_features, standardise
from coder_core.demo.making import CARD, STANDARD
from coder_core.demo.scenes import SIDE


def makes_features(picture_folder: str) -> bool:
    """True for the picture folder of the built-in data set, whose features are made from pixels."""
    root = Path(picture_folder).parent
    return bool(picture_folder) and (root / CARD).is_file() and (root / STANDARD).is_file()


def features_of(picture_folder: str, picture: Image.Image) -> Array:
    """(REGIONS, WIDTH) standardised features of an RGB picture, cut to its middle square.

    Raises:
        InputError: the data set's features are not made from pixels, or the file that tells how is damaged.
    """
    if not makes_features(picture_folder):
        problem = "region features come from files, so a new picture cannot be encoded"
        raise InputError.at("a new picture", problem, "a run on the built-in data set")
    path = Path(picture_folder).parent / STANDARD
    try:
        standard = json.loads(path.read_text(encoding="utf-8"))
        mean, deviation = (np.asarray(standard[key], dtype=np.float32) for key in ("mean", "deviation"))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError.at(path, f"cannot be read ({error})", fix="make the demo data anew") from None
    if mean.shape != (WIDTH,) or deviation.shape != (WIDTH,) or not np.isfinite([mean, deviation]).all():
        raise InputError.at(path, f"holds {mean.size} means", f"{WIDTH} finite ones", "make it anew")
    if picture.size != (SIDE, SIDE):
        picture = ImageOps.fit(picture, (SIDE, SIDE), Image.Resampling.BILINEAR)
    cells = cell_features(np.asarray(picture.convert("RGB")))
    return standardise(region_features(cells[None])[0], mean, deviation)
