"""Which anchors are ambiguous?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import backend, cards, charts, sidebar
from app.anchor_view import open_anchor
from app.controls import choose_one, picking_table, picture_urls, step_through
from app.glossary import tip
from app.selection import found_by_tenth, lowest, matching
from app.state import Choice, bound, bound_number, theme

ROWS_SHOWN = 50
FOUND_AT = 10


def settings(epsilon: float) -> dict[str, Any]:
    """The controls of the page: which anchors, which measure, over which candidates, ε."""
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        modality = choose_one("Anchors", {"text": "Captions", "image": "Images"}, "anchors", tip("anchor"))
        function = choose_one(
            "Measure", {"std": "Standard deviation", "entropy": "Entropy"}, "measure", f"{tip('SD')} {tip('entropy')}"
        )
        candidates = choose_one("Candidates", {"split": "Whole split", "batch": "A batch"}, "over", tip("candidates"))
        drawn = {}
        if candidates == "batch":
            drawn["batch_size"] = int(st.number_input("Batch size", 2, 8192, 128, **bound_number("batch"), width=130))
            drawn["seed"] = int(st.number_input("Seed", 0, 9999, 0, **bound_number("seed"), width=110))
        used = float(
            st.slider("ε", 0.01, 1.0, epsilon, 0.01, **bound_number("epsilon"), help=tip("epsilon"), width=170)
        )
    return {"modality": modality, "function": function, "candidates": candidates, "epsilon": used, **drawn}


def draw_distributions(choice: Choice, tables: dict[str, Any], unit: str) -> None:
    colours = charts.tone(theme())
    left, right = st.columns([3, 2], gap="large")
    with left:
        cards.heading("How diverse are the anchors?", "Further left is more ambiguous; dashed lines are the medians.")
        values = {name: table["diversity"].to_numpy() for name, table in tables.items()}
        st.plotly_chart(
            charts.histogram(values, "diversity", unit, colours), key="histogram", alt="diversity histogram"
        )
    with right:
        cards.heading("Does ambiguity cost recall?", "A rising line: low-diversity anchors are missed more often.")
        shares = {}
        for name, table in tables.items():
            asked = table[table["rank"].notna()]
            shares[name] = found_by_tenth(asked["diversity"].to_numpy(), asked["rank"].to_numpy() - 1, FOUND_AT)
        st.plotly_chart(charts.found_by_diversity(shares, FOUND_AT, colours), key="tenths", alt="recall by diversity")


def draw_table(choice: Choice, tables: dict[str, Any], modality: str, function: str, target: str) -> np.ndarray:
    """The ranked table; returns the order of all anchors, most ambiguous first."""
    last = choice.runs[-1]
    captions = backend.open_summary(last).captions(choice.split)
    focus = tables[last.name]
    wanted = np.arange(len(focus))
    cards.heading(
        f"The most ambiguous {'captions' if modality == 'text' else 'images'}",
        f"Ranked by their diversity in {last.name}, lowest first. A click on a row opens it below.",
    )
    if modality == "text":
        words = st.text_input("Captions with these words", **bound("words"), placeholder="all captions", width=320)
        wanted = matching(captions, words or "")
    ordered = lowest(focus.iloc[wanted], "diversity", len(wanted))
    shown = ordered.head(ROWS_SHOWN)
    st.html(f'<p class="cl-how cl-small">{len(shown):,} of {len(ordered):,} shown.</p>')
    first_caption = np.unique(backend.open_summary(last).image_of_text(choice.split), return_index=True)
    text_of = dict(zip(*(part.tolist() for part in first_caption), strict=True))
    rows = shown["anchor"].to_numpy()
    columns: dict[str, Any] = {
        "picture": picture_urls(backend.thumbnails(last, choice.split, shown["image"].to_numpy(), 72)),
        "caption": [captions[i] if modality == "text" else captions[text_of[i]] if i in text_of else "" for i in rows],
    }
    spread = "SD" if function == "std" else "entropy"
    config: dict[str, Any] = {
        "picture": st.column_config.ImageColumn("", width=64),
        "caption": st.column_config.TextColumn("caption" if modality == "text" else "its first caption", width=240),
    }
    for position, run in reversed(list(enumerate(choice.runs))):
        table, focused = tables[run.name].iloc[rows], run is last
        for name, source, digits in (
            (spread, "spread", "%.4f"),
            ("diversity", "diversity", "%.4f"),
            ("rank", "rank", "%d"),
        ):
            if source == "spread" and not focused:
                continue
            key = f"{source}-{position}"
            columns[key] = table[source].to_numpy()
            label = name if focused else f"{name}, {run.name}"
            width = 76 if focused else 150
            config[key] = st.column_config.NumberColumn(label, format=digits, help=tip(name), width=width)
    if len(shown):
        picking_table(pd.DataFrame(columns), rows, target, f"table-{modality}", config, 420)
    else:
        cards.empty("No caption holds all of these words.", "Use fewer words, or clear the field.")
    return ordered["anchor"].to_numpy()


choice = sidebar.choose()
cards.question(
    "Which anchors are ambiguous?",
    "An anchor is ambiguous when all its negatives look alike to it: its similarities hardly vary, its diversity is "
    "low, and CODER lowers its temperature.",
)
if choice is None:
    cards.empty(
        "There is no evaluated run yet.", "Train the demo pair on the start page, or evaluate a run of your own."
    )
    st.page_link("pages/start.py", label="Start page", icon=":material/play_circle:")
else:
    chosen = settings(backend.open_summary(choice.runs[-1]).loss.epsilon)
    modality = str(chosen["modality"])
    found = {run.name: backend.diversity(run, choice.split, **chosen) for run in choice.runs}
    if chosen["function"] == "entropy":
        st.html(f'<p class="cl-how cl-small">{tip("entropy")}</p>')
    draw_distributions(choice, found, "captions" if modality == "text" else "images")
    target = "caption" if modality == "text" else "image"
    order = draw_table(choice, found, modality, str(chosen["function"]), target)
    everything = found[choice.runs[-1].name]
    cards.heading(
        "One anchor, opened", "Its similarity to every negative, and which negatives the loss then listens to."
    )
    number = step_through(
        f"Number of the {target}", target, order, len(everything), "The row of the sample in its split."
    )
    open_anchor(choice, number, chosen)
