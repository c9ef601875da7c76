"""Pictures as small JPEGs, ready for a page."""

from __future__ import annotations

import io

from coder_core.data.pictures import open_picture
from coder_core.faults import InputError

QUALITY = 86


def thumbnail(folder: str, name: str, size: int) -> bytes | None:
    """A picture, at most `size` pixels on its longer side, as JPEG bytes; None when it is missing or cannot be read."""
    if not folder:
        return None
    try:
        picture = open_picture(folder, name, size=size)
    except InputError:
        return None
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=QUALITY)
    return buffer.getvalue()
