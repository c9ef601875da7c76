"""Pictures as small JPEGs, ready for a page."""

from __future__ import annotations

import io

from PIL.Image import Image

from coder_core.console.faults import Fault, InputError
from coder_core.data.pictures import open_picture, read_picture

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


def thumbnail(folder: str, name: str, size: int) -> bytes | None:
    """A picture, at most `size` pixels on its longer side, as JPEG bytes; None when it is missing or cannot be read."""
    if not folder:
        return None
    try:
        picture = open_picture(folder, name, size=size)
    except InputError:
        return None
    return jpeg(picture)


def jpeg(picture: Image) -> bytes:
    """The picture as JPEG bytes."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
