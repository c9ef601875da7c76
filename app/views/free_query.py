"""Queries that are not of the split: a free text, a picture."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards, links
from app.ui.state import Choice, bound
from app.views.query import RESULTS, side_by_side

KINDS = ["jpg", "jpeg", "png", "webp"]
MOST_MEGABYTES = 10
SHOWN = 280


def ask_freely(choice: Choice) -> None:
    """A sentence, ranked against the split's pictures by every run."""
    text = st.text_input(
        "Your words", **bound("text"), max_chars=500, placeholder="a dog runs through shallow water",
        icon=":material/search:",
    )  # fmt: skip
    words = str(text or "").strip()
    if not words:
        cards.empty(
            "Nothing asked yet.", "Write a sentence and press Enter; every run then ranks the pictures of the split."
        )
        return
    side_by_side(choice, "text", lambda run: backend.search(run, words, choice.split, "text", RESULTS))


def ask_with_picture(choice: Choice) -> None:
    """A picture: encoded where a run can, otherwise the sample that looks most like it asks instead."""
    given = st.file_uploader("A picture", type=KINDS, key="picture", max_upload_size=MOST_MEGABYTES)
    cards.note("The picture stays on this machine and is not part of a copied link.")
    if given is None:
        cards.empty(
            "No picture yet.",
            f"Choose a JPEG, PNG or WEBP file of at most {MOST_MEGABYTES} MB; every run then ranks the captions.",
        )
        return
    content = given.getvalue()
    try:
        shown = backend.jpeg(backend.decode(content, given.name, size=SHOWN))
    except backend.InputError as error:
        cards.empty("This file cannot be used.", str(error))
        return
    cards.sample(shown, [], given.name)
    side_by_side(choice, "image", lambda run: _captions_of(choice, run, content))


def _captions_of(choice: Choice, run: RunSummary, content: bytes) -> pd.DataFrame:
    if backend.open_summary(run).reads_pictures(choice.split):
        cards.note("Encoded by this run from its pixels.")
        return backend.search_picture(run, content, choice.split, RESULTS)
    like = backend.look_alike(run, content, choice.split)
    why = (
        "This run’s region features come from files, so a new picture cannot be encoded."
        if backend.has_embeddings(run, choice.split)
        else "This run scores pairs and keeps no captions to score a new picture with."
    )
    cards.note(
        f"{why} Instead image "
        f"{like.image} asks: of {like.of:,} pictures of the split the one that looks most like it (likeness of the "
        f"pixels {like.likeness:.2f}, at most 1)."
    )
    cards.sample(
        backend.thumbnail(run, choice.split, like.image), [], f"Image {like.image} asks instead",
        links=links.of_sample(choice, "image", like.image),
    )  # fmt: skip
    return backend.search(run, like.image, choice.split, "image", RESULTS)
