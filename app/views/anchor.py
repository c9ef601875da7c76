"""One anchor: the sample, its numbers, its similarities, its nearest negatives and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app import charts
from app.ask import Loss, Modality, Run, RunSummary, ask, diversity
from app.choice import OTHER, Choice, theme
from app.ui import cards, downloads, links, reviewing
from app.ui.table import Column, plain_table
from app.views.heat_maps import Pairs, candidate_pairs, show_heat_maps
from app.views.query import review_menu
from app.views.samples import sample_card, similar_button

NEAREST = 10
MOST_ACROSS = 3  # runs beside one another


def show_anchor(choice: Choice, number: int, settings: dict[str, Any], loss: Loss) -> None:
    """Draw it for every chosen run, side by side, of more than three in two rows; `loss` holds the μ, γ and ε of the
    sliders."""
    modality: Modality = settings["modality"]
    sample = ask(Run.sample, choice.last, choice.split)
    show_sample(choice, modality, number, here="diversity")
    nearest: dict[str, list[int]] = {}
    colours = charts.tone(theme())
    runs = choice.runs
    anchors = {
        run.name: ask(Run.anchor, run, number, split=choice.split, loss=loss, sample=sample, **settings)
        for run in runs
    }
    if choice.between:
        _table(anchors, str(settings["function"]))
    across = len(runs) if len(runs) <= MOST_ACROSS else (len(runs) + 1) // 2
    columns = [column for _ in range(0, len(runs), across) for column in st.columns(across, gap="small")]
    for position, (run, column) in enumerate(zip(runs, columns, strict=False)):
        anchor = anchors[run.name]
        with column:
            cards.label(run.name)
            if not choice.between:
                _numbers(anchor, str(settings["function"]))
            parts = st.columns(2) if choice.second is None else [st.container(), st.container()]
            with parts[0]:
                figure = charts.similarity_histogram(
                    anchor.similarities, anchor.positives, loss.gamma, run.name, position, len(runs), colours
                )
                downloads.chart(
                    figure, f"similarities-{position}", f"similarities to the negatives {position + 1}"
                )
            with parts[1]:
                figure = charts.negative_weights(anchor.nearest(NEAREST), colours)
                downloads.chart(
                    figure, f"weights-{position}", f"weights of the nearest negatives {position + 1}"
                )
            _nearest(choice, run, anchor, number)
        nearest[run.name] = anchor.nearest(NEAREST)["candidate"].tolist()

    def pairs(run: RunSummary) -> Pairs:
        return candidate_pairs(choice, run, modality, number, nearest[run.name], own="Own match")

    show_heat_maps(choice, "Negative", pairs)


def show_sample(choice: Choice, modality: Modality, number: int, *, here: str = "") -> None:
    """A sample: its picture with all its captions, the query in bold; links to the other pages."""
    run, split = choice.last, choice.split
    opened = run
    image = number if modality == "image" else int(ask(Run.image_of_text, opened, split)[number])
    own, captions = ask(Run.captions_of, opened, split, image), ask(Run.captions, opened, split)
    highlighted = None if modality == "image" else own.tolist().index(number)
    title = f"Image {image}" if modality == "image" else f"Caption {number} of image {image}"
    pages = links.of_sample(choice, modality, number, here=here)
    file = ask(Run.image_names, opened, split)[image]
    title += f" · {file}" if file != f"image {image}" else ""
    cards.sample(
        ask(Run.picture, run, split, image), [captions[j] for j in own], title, highlighted, pages, image
    )
    with reviewing.judge(choice, image, None if modality == "image" else number, "sample"):
        similar_button(choice, modality, number, "sample")


def _numbers(anchor: diversity.Anchor, function: str) -> None:
    spread = "SD" if function == "std" else "entropy"
    cards.metrics(
        [
            cards.Metric(spread, f"{anchor.spread:.4f}", f"n = {len(anchor.similarities):,}", spread),
            cards.Metric("undivided", f"{anchor.raw:.4f}", "1 to 2", "raw"),
            cards.Metric("diversity", f"{anchor.diversity:.4f}", "0.5 to 1", "diversity"),
            cards.Metric(
                "μ·div", f"{anchor.temperature:.4f}", f"μ = {anchor.loss.temperature:g}", "temperature"
            ),
        ],
        compact=True,
    )


def _table(anchors: Mapping[str, diversity.Anchor], function: str) -> None:
    """What `_numbers` has of one run, of several: a row each."""
    spread = "SD" if function == "std" else "entropy"
    columns = {
        "run": Column("run"),
        "spread": Column(spread, ".4f", spread),
        "raw": Column("undivided", ".4f", "raw"),
        "diversity": Column("diversity", ".4f", "diversity"),
        "temperature": Column("μ·div", ".4f", "temperature"),
    }
    rows = [
        {"run": name, **{key: getattr(anchor, key) for key in list(columns)[1:]}}
        for name, anchor in anchors.items()
    ]
    plain_table(pd.DataFrame(rows), columns, "anchor", "runs")


def _nearest(choice: Choice, run: RunSummary, anchor: diversity.Anchor, number: int) -> None:
    other = OTHER[anchor.modality]
    items = []
    for place, row in enumerate(anchor.nearest(NEAREST).to_dict("records"), start=1):
        candidate = int(row["candidate"])
        weights = (f"{_percent(row['weight_plain'])} → {_percent(row['weight_diversity'])} %",)
        pages = (("diversity", links.diversity(choice, other, candidate)),)
        items.append(
            sample_card(
                run,
                choice.split,
                other,
                candidate,
                place,
                row["similarity"],
                notes=weights,
                links=pages,
                pictured=other == "image",
                review=review_menu(choice, anchor.modality, number, candidate),
            )
        )
    cards.note("Nearest negatives: rank, similarity, share of the loss without → with diversity.")
    cards.results(items)


def _percent(share: float) -> str:
    """A share as percent with two significant digits."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
