"""The Retrieval page: which queries to look at, then one of them in detail."""

import pandas as pd
from streamlit.delta_generator import DeltaGenerator

from app.ask import Modality, Run, RunSummary, ask
from app.choice import QUERIES, Choice, opened
from app.components import cards, links
from app.components.controls import FIRST, choose_one, row, switch
from app.views.heat_maps import show_heat_maps
from app.views.retrieval import failures, hubs, judged, queries
from app.views.samples import note_slice, show_sample, step_samples

SOURCES = {"split": "Sample of the split", "text": "Free text", "picture": "Picture"}


def question(choice: Choice) -> str:
    if choice.second is None:
        return f"How well does {choice.first.name} retrieve?"
    if choice.between:
        return f"Which of these {len(choice.runs)} runs retrieves best?"
    return f"Which run retrieves better, {choice.first.name} or {choice.second.name}?"


def show(choice: Choice) -> None:
    controls = row()
    with controls:
        source = choose_one("Query", SOURCES, "ask")
        modality = choose_one("Direction", links.DIRECTIONS, "direction") if source == "split" else "text"
    if source == "split":
        query_from_split(choice, modality, controls)
    elif source == "text":
        queries.query_with_text(choice)
    else:
        queries.query_with_picture(choice)


def query_from_split(choice: Choice, modality: Modality, controls: DeltaGenerator) -> None:
    """The split's own queries: which failed and why, then one of them in detail."""
    source = judged.choose_source(choice, controls)
    with controls:
        at = int(choose_one("Answered within the first", FIRST, "at", cards.tip("R@K")))
        two = len(choice.runs) == 2
        views = {"ranks": "Rank changes" if two else "Ranks", "near": "Near misses", "hubs": "Hubs"}
        views |= {"judged": "Judgements"} if source is not None else {}
        view = choose_one("View", views, "look", f"{cards.tip('margin')} {cards.tip('hub')}")
    note_slice(choice, modality)
    shown = failures.Queries(choice, modality, at)
    if view == "near":
        order = failures.near_misses(shown)
    elif view == "hubs":
        order = hubs.show_hubs(shown)
    elif view == "judged" and source is not None:
        order = failures.unlabelled_matches(shown, source)
    else:
        order = failures.compare_runs(shown) if two else failures.ranks_of_runs(shown)
    if opened(f"query-{modality}", order):
        frames = "Green frames are true matches."
        if source is not None:
            frames += f" Dashed frames are unlabelled matches, judged by {source.label}."
        cards.heading("One query in detail", frames=frames)
        failed = choice.ask(Run.ranks)[QUERIES[modality]] >= at
        one_query(choice, modality, step_samples(choice, modality, f"query-{modality}", order, failed))


def one_query(choice: Choice, modality: Modality, number: int) -> None:
    """A sample of the split, its results in every run, and heat maps of it with them."""
    show_sample(choice, modality, number, here="query")
    notes = queries.rank_change(choice, modality, number)
    switch("Mark likely unlabelled matches", "guess", "likely")

    def search(run: RunSummary) -> pd.DataFrame:
        return ask(Run.search, run, number, split=choice.split, modality=modality, top=queries.RESULTS)

    queries.show_results(choice, modality, search, notes, number)
    show_heat_maps(choice, "Result", (modality, number), search, "True match")
