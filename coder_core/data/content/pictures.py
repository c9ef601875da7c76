"""Look at every picture once: whether it can be decoded, its size, whether it shows anything, its perceptual hash."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from PIL import Image

from coder_core.console.faults import InputError
from coder_core.console.progress import Progress
from coder_core.data.captioned.reading import CaptionedSplit, each_picture
from coder_core.data.pictures import FORMATS, read_picture

HASH_BITS = 64
DECODED_SIZE = 256  # pixels of the longer side, from which everything is measured
TINY_SIDE = 16
SMALLEST_SIDE = 64  # pixels of the shorter side; encoders of pictures read 224 or more
BLANK_DEVIATION = 3.0  # of brightness, from 0 to 255


@dataclass(frozen=True)
class PictureFacts:
    """Facts about n pictures.

    Args:
        problems: picture → what is wrong with it.
        hashes: (n, 8) uint8, the 64 bits of a perceptual hash (pHash).
        tiny: (n, 768) float16, see `tiny_image`; zero for a picture that is broken or blank.
    """

    problems: dict[int, str]
    hashes: np.ndarray
    tiny: np.ndarray


def tiny_image(picture: Image.Image) -> np.ndarray:
    """(768,) colours of the picture made 16 × 16, mean 0, length 1. Torralba et al. 2008, section 3."""
    small = picture.convert("RGB").resize((TINY_SIDE, TINY_SIDE), Image.Resampling.BOX)
    values = np.asarray(small, dtype=np.float32).ravel()
    values = values - values.mean()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-6))


def look_at_pictures(split: CaptionedSplit, progress: Progress) -> PictureFacts:
    """Decode all pictures of a split, in threads."""
    count = len(split.rows)
    hashes = np.zeros((count, HASH_BITS // 8), np.uint8)
    facts = PictureFacts({}, hashes, np.zeros((count, 3 * TINY_SIDE**2), np.float16))
    for image, (problem, bits, small) in enumerate(each_picture(split, _look, progress)):
        if problem:
            facts.problems[image] = problem
        if bits is not None and small is not None:
            facts.hashes[image], facts.tiny[image] = bits, small
    return facts


def _look(content: bytes | str) -> tuple[str, np.ndarray | None, np.ndarray | None]:
    """Fault of a picture, the bytes of its hash, and its tiny image."""
    from imagehash import phash  # SciPy and PyWavelets, for this only

    if isinstance(content, str):
        return f"broken: {content}", None, None
    try:
        picture = read_picture(content, "the picture", size=DECODED_SIZE)
    except InputError as error:
        return f"broken: {error.faults[0].found}", None, None
    with Image.open(io.BytesIO(content), formats=FORMATS) as opened:  # decoded above; this reads the header
        width, height = opened.size
    deviation = float(np.asarray(picture.convert("L").reduce(max(1, min(picture.size) // 32))).std())
    if deviation < BLANK_DEVIATION:
        return f"blank: brightness varies by {deviation:.1f} of 255", None, None
    problem = f"tiny: {width} × {height} pixels" if min(width, height) < SMALLEST_SIDE else ""
    return problem, np.packbits(phash(picture).hash.ravel()), tiny_image(picture)
