"""Which regions of a picture each word reads; the model behind the answers is loaded once."""

from __future__ import annotations

import io

import streamlit as st
from PIL import Image

from app.backend.models import load_model
from app.backend.runs import BY_STAMP, RunSummary, open_summary, thumbnail
from coder_core.api import decode, jpeg
from coder_core.api.heat_maps import HeatMap, Laid, heat_map, heat_map_ways, lay_over

__all__ = ["HeatMap", "Laid", "lay_over", "picture_of", "ways", "word_regions"]

PICTURE = 480  # pixels of the longer side


def ways(run: RunSummary, split: str) -> tuple[str, ...]:
    """`heat_map_ways`."""
    return heat_map_ways(open_summary(run), split)


@st.cache_data(max_entries=256, show_spinner=False, hash_funcs=BY_STAMP)
def word_regions(run: RunSummary, split: str, text: str, image: int | bytes, way: str) -> HeatMap:
    """`heat_map` of a text and an image of the split, or an uploaded picture."""
    load_model(run, split, pictures=isinstance(image, bytes))
    picture = decode(image, "the picture") if isinstance(image, bytes) else image
    return heat_map(open_summary(run), split, text, picture, way)  # type: ignore[arg-type]


@st.cache_data(max_entries=64, show_spinner=False, hash_funcs=BY_STAMP)
def picture_of(run: RunSummary, split: str, image: int | bytes) -> tuple[bytes, float] | None:
    """An image of the split, or an uploaded picture, as JPEG bytes with height ÷ width; None where there is none."""
    if isinstance(image, bytes):
        content: bytes | None = jpeg(decode(image, "the picture", size=PICTURE))
    else:
        content = thumbnail(run, split, image, PICTURE)
    if content is None:
        return None
    with Image.open(io.BytesIO(content), formats=["JPEG"]) as picture:
        return content, picture.height / picture.width
