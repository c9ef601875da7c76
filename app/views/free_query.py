"""Queries that are not samples of the split: a free text, a picture."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import questions
from app.ask import InputError, Run, RunSummary, ask, decode, has_embeddings, heat_maps, jpeg, retrieval
from app.choice import Choice, bound, put
from app.ui import cards, links
from app.ui.selection import matching
from app.ui.table import Column, rows_table
from app.views.heat_maps import Pairs, candidate_pairs, show_heat_maps
from app.views.query import RESULTS, side_by_side
from app.views.samples import search_words

FORMATS = ["jpg", "jpeg", "png", "webp"]
MOST_MEGABYTES = 10
PICTURE_SIZE = 280


def query_with_text(choice: Choice) -> None:
    """Rank the split's pictures by a sentence; imported runs answer the sentences saved with them."""
    text = st.text_input(
        "Text query",
        **bound("text"),
        placeholder="a dog runs through shallow water",
        icon=":material/search:",
    )
    query = str(text or "").strip()
    saved = list(dict.fromkeys(q for run in choice.runs for q in ask(Run.saved_queries, run, choice.split)))
    if saved:
        _saved_queries(saved, query)
    if not query:
        cards.empty(
            "No query yet.",
            "Type a sentence and press Enter. Every run then ranks the pictures of the split.",
        )
        return
    side_by_side(choice, "text", lambda run: _pictures_of(choice, run, query))

    def pairs(run: RunSummary) -> Pairs:
        candidates = ask(Run.search, run, query, split=choice.split, modality="text", top=RESULTS)[
            "candidate"
        ].tolist()
        return candidate_pairs(choice, run, "text", query, candidates)

    show_heat_maps(choice, "Result", pairs)


def _saved_queries(saved: list[str], query: str) -> None:
    """The texts whose embeddings were imported; a click on a row asks one."""
    cards.heading(
        "Saved queries", "Their embeddings were imported with the run. Click on a row to ask with it."
    )
    words = search_words("query-words", "of the queries")
    rows = matching(saved, words)
    if not len(rows):
        cards.empty("No saved query contains all of these words.", "Use fewer words, or clear the field.")
        return
    table = pd.DataFrame({"query": [saved[row] for row in rows]})
    current = saved.index(query) if query in saved else -1
    rows_table(
        table,
        {"query": Column("query")},
        rows,
        "saved-queries",
        "saved queries",
        current,
        lambda row: put("text", saved[row]),
        height=240,
    )


def _pictures_of(choice: Choice, run: RunSummary, query: str) -> pd.DataFrame:
    """The pictures nearest to a text, after naming the words that the run does not know."""
    if query not in ask(Run.saved_queries, run, choice.split):
        ask(heat_maps.load_encoders, run, choice.split)
    candidates = ask(Run.search, run, query, split=choice.split, modality="text", top=RESULTS)
    unknown = [] if query in ask(Run.saved_queries, run, choice.split) else ask(Run.unknown_words, run, query)
    if unknown:
        words = ", ".join(unknown)
        cards.note(f"Words this run does not know: {words}. The ranking cannot depend on their meaning.")
    return candidates


def query_with_picture(choice: Choice) -> None:
    """Rank captions by a picture, encoded where a run can; else by a nearly equal picture of the split, if any."""
    upload = st.file_uploader("Picture", type=FORMATS, key="picture", max_upload_size=MOST_MEGABYTES)
    cards.note("The picture stays on this machine and is not part of a copied link.")
    if upload is None:
        cards.empty(
            "No picture yet.",
            f"Choose a JPEG, PNG or WEBP file of at most {MOST_MEGABYTES} MB. Every run then ranks the captions.",
        )
        return
    content = upload.getvalue()
    try:
        picture = jpeg(decode(content, upload.name, size=PICTURE_SIZE))
    except InputError as error:
        cards.empty("This file cannot be used.", str(error))
        return
    cards.sample(picture, [], upload.name)
    side_by_side(choice, "image", lambda run: _captions_of(choice, run, content))

    def pairs(run: RunSummary) -> Pairs:
        candidates = ask(questions.search_picture, run, choice.split, content, RESULTS)["candidate"].tolist()
        return candidate_pairs(choice, run, "image", content, candidates)

    show_heat_maps(choice, "Result", pairs)


def _captions_of(choice: Choice, run: RunSummary, content: bytes) -> pd.DataFrame | None:
    """The captions nearest to a picture; where a run cannot encode one, those nearest to a nearly equal picture of the
    split, which match that picture and not the user's. None where there is no such picture."""
    if ask(Run.reads_pictures, run, choice.split):
        cards.note("This run encodes the picture from its pixels.")
        ask(heat_maps.load_encoders, run, choice.split, pictures=True)
        return ask(questions.search_picture, run, choice.split, content, RESULTS)
    if run.imported:
        reason = "It holds imported embeddings and no model, so it cannot encode a new picture."
    elif has_embeddings(run, choice.split):
        reason = "It reads region features from files, so it cannot encode a new picture."
    else:
        reason = "It scores pairs and stores no captions to score a new picture with."
    similar = ask(questions.look_alike, run, choice.split, content)
    nearest = (
        f"of {similar.of:,} pictures of the split, image {similar.image} is the most similar (likeness "
        f"{similar.likeness:.2f}; {retrieval.ALIKE} is needed, 1 is the same picture)"
    )
    if similar.likeness < retrieval.ALIKE:
        cards.empty(
            "There is no answer.", f"{reason} No picture of the split is nearly equal to yours: {nearest}."
        )
        return None
    cards.note(f"{reason} Using image {similar.image} as the query instead: {nearest}.")
    opened = run
    cards.sample(
        ask(Run.picture, run, choice.split, similar.image),
        [],
        f"Image {similar.image} · {ask(Run.image_names, opened, choice.split)[similar.image]}, used as the query",
        links=links.of_sample(choice, "image", similar.image),
        image=similar.image,
    )
    return ask(Run.search, run, similar.image, split=choice.split, modality="image", top=RESULTS).assign(
        match=False
    )
