"""Retrieval page: queries that fail, and their results."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.ask import Modality, Run, RunSummary, ask
from app.choice import QUERIES, Choice, bound, opened
from app.components import cards, links
from app.components.controls import choose_one, step_through
from app.components.glossary import tip
from app.frame import sidebar
from app.views import failures
from app.views.failures import unlabelled_matches
from app.views.heat_maps import Pairs, candidate_pairs, show_heat_maps
from app.views.hubs import show_hubs
from app.views.queries import (
    RESULTS,
    choose_judgements,
    query_with_picture,
    query_with_text,
    rank_change,
    side_by_side,
)
from app.views.samples import say_slice, show_sample

SOURCES = {"split": "Sample of the split", "text": "Free text", "picture": "Picture"}


def query_from_split(choice: Choice, modality: Modality, controls: DeltaGenerator) -> None:
    """The split's own queries: which failed and why, then one of them in detail."""
    direction = QUERIES[modality]
    source = choose_judgements(choice, controls)
    with controls:
        at = int(choose_one("Answered within the first", {"1": "1", "5": "5", "10": "10"}, "at", tip("R@K")))
        two = len(choice.runs) == 2
        views = {"ranks": "Rank changes" if two else "Ranks", "near": "Near misses", "hubs": "Hubs"}
        views |= {"judged": "Judgements"} if source is not None else {}
        view = choose_one("View", views, "look", f"{tip('margin')} {tip('hub')}")
    say_slice(choice, modality)
    if view == "near":
        order = failures.near_misses(choice, direction, modality)
    elif view == "hubs":
        order = show_hubs(choice, direction, modality)
    elif view == "judged" and source is not None:
        order = unlabelled_matches(choice, source, direction, at, modality)
    else:
        order = (failures.compare_runs if two else failures.ranks_of_runs)(choice, direction, at, modality)
    if not opened(f"query-{modality}", order):
        return
    ranks = ask(Run.ranks, choice.last, choice.split)[direction]
    frames = "Green frames are true matches."
    if source is not None:
        frames += f" Dashed frames are unlabelled matches, judged by {source.label}."
    cards.heading("One query in detail", f"The ten best candidates and their similarity. {frames}")
    label = "Caption number" if modality == "text" else "Image number"
    number = step_through(
        label,
        f"query-{modality}",
        order,
        len(ranks),
        "The row of the sample in its split.",
        failed=ranks >= at,
    )
    show_sample(choice, modality, number, here="query")
    notes = rank_change(choice, direction, number)
    st.toggle("Mark likely unlabelled matches", False, help=tip("likely"), **bound("guess"))
    side_by_side(
        choice,
        modality,
        lambda run: ask(Run.search, run, number, split=choice.split, modality=modality, top=RESULTS),
        notes,
        number,
    )

    def pairs(run: RunSummary) -> Pairs:
        candidates = ask(Run.search, run, number, split=choice.split, modality=modality, top=RESULTS)[
            "candidate"
        ].tolist()
        return candidate_pairs(choice, run, modality, number, candidates, own="True match")

    show_heat_maps(choice, "Result", pairs)


def show(choice: Choice) -> None:
    controls = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with controls:
        source = choose_one("Query", SOURCES, "ask")
        modality = choose_one("Direction", links.DIRECTIONS, "direction") if source == "split" else "text"
    if source == "split":
        query_from_split(choice, modality, controls)
    elif source == "text":
        query_with_text(choice)
    else:
        query_with_picture(choice)


def question(choice: Choice) -> str:
    """The page's question about the chosen runs."""
    if choice.second is None:
        return f"How well does {choice.first.name} retrieve?"
    if choice.between:
        return f"Which of these {len(choice.runs)} runs retrieves best?"
    return f"Which run retrieves better, {choice.first.name} or {choice.second.name}?"


sidebar.page(
    question,
    "Every query ranks all candidates of the split. The higher its true match ranks, the better.",
    show,
)
