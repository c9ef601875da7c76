"""One anchor opened: the sample, its numbers, its similarities, its nearest negatives, the weights."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import backend, cards, charts
from app.backend import Anchor, RunSummary
from app.state import Choice, theme

NEAREST = 10


def open_anchor(choice: Choice, number: int, settings: dict[str, Any]) -> None:
    """Draw it for every chosen run, side by side."""
    opened = [(run, backend.anchor(run, number, choice.split, **settings)) for run in choice.runs]
    show_sample(choice.runs[-1], choice.split, str(settings["modality"]), number)
    columns = st.columns(len(opened), gap="large")
    for position, ((run, anchor), column) in enumerate(zip(opened, columns, strict=True)):
        with column:
            cards.label(run.name)
            _numbers(anchor, str(settings["function"]))
            colours = charts.tone(theme())
            parts = st.columns(2) if len(opened) == 1 else [st.container(), st.container()]
            parts[0].plotly_chart(
                charts.similarity_histogram(
                    anchor.similarities, anchor.positives, anchor.loss.gamma, run.name, position, len(opened), colours
                ),
                key=f"similarities-{position}", alt="similarities of the anchor to its negatives",
            )  # fmt: skip
            nearest = anchor.nearest(NEAREST)
            parts[1].plotly_chart(
                charts.negative_weights(nearest, colours),
                key=f"weights-{position}",
                alt="weights of the nearest negatives",
            )
            _nearest(run, choice.split, anchor)


def show_sample(run: RunSummary, split: str, modality: str, number: int) -> None:
    """The anchor itself: its picture with all its captions, the caption that asks in bold."""
    opened = backend.open_summary(run)
    image = number if modality == "image" else int(opened.image_of_text(split)[number])
    own = opened.captions_of(split, image)
    captions = opened.captions(split)
    highlighted = None if modality == "image" else own.tolist().index(number)
    title = f"Image {image}" if modality == "image" else f"Caption {number} of image {image}"
    cards.sample(backend.thumbnail(run, split, image), [captions[j] for j in own], title, highlighted)


def _numbers(anchor: Anchor, function: str) -> None:
    spread = "SD" if function == "std" else "entropy"
    cards.tiles(
        [
            cards.Tile(spread, f"{anchor.spread:.4f}", f"{len(anchor.similarities):,} negatives", spread),
            cards.Tile("raw", f"{anchor.raw:.4f}", "from 1 to 2", "raw"),
            cards.Tile("diversity", f"{anchor.diversity:.4f}", "from 0.5 to 1", "diversity"),
            cards.Tile("μ·div", f"{anchor.temperature:.4f}", f"μ = {anchor.loss.temperature:g}", "temperature"),
        ],
        compact=True,
    )


def _nearest(run: RunSummary, split: str, anchor: Anchor) -> None:
    opened = backend.open_summary(run)
    captions = opened.captions(split)
    items = []
    for place, row in enumerate(anchor.nearest(NEAREST).to_dict("records"), start=1):
        candidate = int(row["candidate"])
        weights = f"{_percent(row['weight_plain'])} → {_percent(row['weight_diversity'])} %"
        if anchor.modality == "text":
            picture = backend.thumbnail(run, split, candidate, 160)
            items.append(cards.Result(place, row["similarity"], False, "", picture, True, (weights,)))
        else:
            items.append(cards.Result(place, row["similarity"], False, captions[candidate], notes=(weights,)))
    if not anchor.loss.trained:
        st.html('<p class="cl-how cl-small">Not trained with CODER’s eq. 4; μ, γ and ε are the paper’s.</p>')
    st.html(
        '<p class="cl-how cl-small">Nearest negatives: place, similarity, share of the loss without → with '
        "diversity.</p>"
    )
    cards.results(items)


def _percent(share: float) -> str:
    """A share as percent with two sensible digits."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
