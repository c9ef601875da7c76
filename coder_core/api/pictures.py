"""Pictures as small JPEGs, ready for a page."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from PIL.Image import Image

from coder_core.console.faults import Fault, InputError
from coder_core.data.pictures import open_picture, read_picture

if TYPE_CHECKING:
    from coder_core.api.stored_run import StoredRun

QUALITY = 86
MOST_BYTES = 10_000_000  # of a picture somebody hands over


def decode(content: bytes, name: str, *, size: int | None = None) -> Image:
    """A picture somebody hands over, upright, RGB.

    Raises:
        InputError: too large, or no JPEG, PNG or WEBP.
    """
    if len(content) > MOST_BYTES:
        raise InputError(
            Fault("the picture", f"has {len(content):,} bytes", f"at most {MOST_BYTES:,}", "make it smaller")
        )
    return read_picture(content, name, size=size)


def sample_picture(run: StoredRun, split: str, image: int, *, size: int | None = None) -> Image:
    """The picture of an image of a split: a file of the run's picture folder, or inside its tar or parquet files.

    Args:
        run, split, image: which.
        size: longest side in pixels of the result, when the picture is larger.

    Raises:
        InputError: the run does not say where it lies, or it is missing there, outside the folder, or broken.
    """
    analysis = run.analysis(split)
    packed = analysis.packed_pictures
    if packed is not None:
        content = packed.read(image)
        try:
            return read_picture(content, "", size=size)
        except InputError as error:
            raise InputError(replace(error.faults[0], place=packed.place(image))) from None
    if not analysis.picture_folder:
        fix = "evaluate or embed it again with its pictures"
        raise InputError(
            Fault(f"run {run.name}", f"does not say where the pictures of {split} lie", "pictures", fix)
        )
    return open_picture(analysis.picture_folder, run.image_names(split)[image], size=size)


def has_pictures(run: StoredRun, split: str) -> bool:
    """True if the run records where the pictures of a split are."""
    analysis = run.analysis(split)
    return bool(analysis.picture_folder) or analysis.packed_pictures is not None


def thumbnail(run: StoredRun, split: str, image: int, size: int) -> bytes | None:
    """A picture, at most `size` pixels on its longer side, as JPEG bytes; None when it is missing or cannot be read."""
    if not has_pictures(run, split):
        return None
    try:
        return jpeg(sample_picture(run, split, image, size=size))
    except InputError:
        return None


def jpeg(picture: Image) -> bytes:
    """The picture as JPEG bytes."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
