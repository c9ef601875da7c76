"""Pictures that visitors bring, and pictures as small JPEGs for a page."""

from __future__ import annotations

import io

from PIL.Image import Image

from coder_core.console.faults import InputError
from coder_core.data.pictures import read_picture

QUALITY = 86
MOST_BYTES = 10_000_000  # of a picture that a visitor brings


def decode(content: bytes, name: str, *, size: int | None = None) -> Image:
    """A picture that a visitor brings, upright, RGB. InputError: too large, or not a JPEG, PNG or WEBP."""
    if len(content) > MOST_BYTES:
        found, expected = f"has {len(content):,} bytes", f"at most {MOST_BYTES:,}"
        raise InputError.at("the picture", found, expected, "make it smaller")
    return read_picture(content, name, size=size)


def jpeg(picture: Image) -> bytes:
    """The picture as JPEG bytes."""
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
