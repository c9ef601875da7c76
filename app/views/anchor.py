"""One anchor opened: the sample, its numbers, its similarities, its nearest negatives, the weights."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import charts
from app.backend import runs as backend
from app.backend.runs import Anchor, Loss, RunSummary
from app.ui import cards, downloads, links
from app.ui.state import Choice, theme

NEAREST = 10


def open_anchor(choice: Choice, number: int, settings: dict[str, Any], loss: Loss) -> None:
    """Draw it for every chosen run, side by side; `loss` holds the μ, γ and ε of the sliders."""
    modality, sample = str(settings["modality"]), backend.sample(choice.runs[-1], choice.split)
    opened = [
        (run, backend.anchor(run, number, choice.split, loss=loss, sample=sample, **settings)) for run in choice.runs
    ]
    show_sample(choice, modality, number, here="diversity")
    columns = st.columns(len(opened), gap="large")
    for position, ((run, anchor), column) in enumerate(zip(opened, columns, strict=True)):
        with column:
            cards.label(run.name)
            _numbers(anchor, str(settings["function"]))
            colours = charts.tone(theme())
            parts = st.columns(2) if len(opened) == 1 else [st.container(), st.container()]
            with parts[0]:
                figure = charts.similarity_histogram(
                    anchor.similarities, anchor.positives, loss.gamma, run.name, position, len(opened), colours
                )
                downloads.chart(figure, f"similarities-{position}", f"similarities to the negatives {position + 1}")
            with parts[1]:
                figure = charts.negative_weights(anchor.nearest(NEAREST), colours)
                downloads.chart(figure, f"weights-{position}", f"weights of the nearest negatives {position + 1}")
            _nearest(choice, run, anchor)


def show_sample(choice: Choice, modality: str, number: int, *, here: str = "") -> None:
    """The anchor itself: its picture with all its captions, the caption that asks in bold; where else to look at it."""
    run, split = choice.runs[-1], choice.split
    opened = backend.open_summary(run)
    image = number if modality == "image" else int(opened.image_of_text(split)[number])
    own = opened.captions_of(split, image)
    captions = opened.captions(split)
    highlighted = None if modality == "image" else own.tolist().index(number)
    title = f"Image {image}" if modality == "image" else f"Caption {number} of image {image}"
    cards.sample(
        backend.thumbnail(run, split, image),
        [captions[j] for j in own],
        title,
        highlighted,
        links.of_sample(choice, modality, number, here=here),
    )


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


def _nearest(choice: Choice, run: RunSummary, anchor: Anchor) -> None:
    split, other = choice.split, "image" if anchor.modality == "text" else "text"
    captions = backend.open_summary(run).captions(split)
    items = []
    for place, row in enumerate(anchor.nearest(NEAREST).to_dict("records"), start=1):
        candidate = int(row["candidate"])
        weights = (f"{_percent(row['weight_plain'])} → {_percent(row['weight_diversity'])} %",)
        picture = backend.thumbnail(run, split, candidate, 160) if other == "image" else None
        caption = "" if other == "image" else captions[candidate]
        where = (("diversity", links.diversity(choice, other, candidate)),)
        items.append(cards.Result(place, row["similarity"], False, caption, picture, other == "image", weights, where))
    cards.note("Nearest negatives: place, similarity, share of the loss without → with diversity.")
    cards.results(items)


def _percent(share: float) -> str:
    """A share as percent with two sensible digits."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
