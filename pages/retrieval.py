"""Which is the better answer, baseline or CODER?"""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.backend import runs as backend
from app.ui import cards, links, sidebar
from app.ui.controls import choose_one, step_through
from app.ui.glossary import tip
from app.ui.state import Choice
from app.views import failures as failures_view
from app.views.anchor import show_sample
from app.views.free_query import ask_freely, ask_with_picture
from app.views.query import RESULTS, rank_change, side_by_side

SOURCES = {"split": "A sample of the split", "text": "Your own words", "picture": "A picture"}


def ask_split(choice: Choice, modality: str, controls: DeltaGenerator) -> None:
    """The split's own queries: what failed and why, then one of them answered."""
    direction = "t2i" if modality == "text" else "i2t"
    with controls:
        at = int(choose_one("Right within the first", {"1": "1", "5": "5", "10": "10"}, "at", tip("R@K")))
        views = {"ranks": "Rank changes" if choice.second else "Ranks", "near": "Near misses", "hubs": "Hubs"}
        view = choose_one("Look at", views, "look", f"{tip('margin')} {tip('hub')}")
    if view == "ranks":
        draw = failures_view.compare_runs if choice.second else failures_view.one_run
        order = draw(choice, direction, at, modality)
    else:
        order = (failures_view.near_misses if view == "near" else failures_view.hubs)(choice, direction, modality)
    ranks = backend.open_summary(choice.runs[-1]).ranks(choice.split)[direction]
    cards.heading("One query, answered", "Best candidate first: place, similarity; a green frame is a true match.")
    name = "caption" if modality == "text" else "image"
    number = step_through(
        f"Number of the {name}", f"query-{modality}", order, len(ranks), "The row of the sample in its split.",
        failed=ranks >= at,
    )  # fmt: skip
    show_sample(choice, modality, number, here="query")
    heads = rank_change(choice, direction, number)
    side_by_side(choice, modality, lambda run: backend.search(run, number, choice.split, modality, RESULTS), heads)


def show(choice: Choice) -> None:
    controls = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with controls:
        source = choose_one("Ask with", SOURCES, "ask")
        asked = choose_one("Direction", links.DIRECTIONS, "direction") if source == "split" else "text"
    if source == "split":
        ask_split(choice, asked, controls)
    elif source == "text":
        ask_freely(choice)
    else:
        ask_with_picture(choice)


choice = sidebar.choose()
cards.question(
    "Which is the better answer, baseline or CODER?",
    "Every query ranks all candidates of the split; the higher its own match stands, the better.",
)
sidebar.answer(choice, show)
