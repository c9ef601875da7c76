"""Which is the better answer, baseline or CODER?"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import backend, cards, charts, sidebar
from app.anchor_view import show_sample
from app.backend import OUTCOMES, RunSummary
from app.controls import choose_one, picking_table, picture_urls, step_through
from app.glossary import tip
from app.selection import by_outcome, outcome_counts
from app.state import Choice, bound, theme

ROWS_SHOWN = 50
RESULTS = 10
DIRECTIONS = {"t2i": "Caption → images", "i2t": "Image → captions"}


def show_results(run: RunSummary, split: str, query: str | int, modality: str) -> None:
    """One run's ten best candidates, true matches marked."""
    standing = "" if isinstance(query, str) else f" · match at rank {_rank(run, split, query, modality)}"
    cards.label(run.name + standing)
    try:
        found = backend.search(run, query, split, modality, RESULTS)
    except (backend.InputError, OSError, ImportError) as error:
        cards.empty("This run cannot answer a free text.", str(error))
        return
    opened = backend.open_summary(run)
    captions = opened.captions(split)
    items = []
    for row in found.to_dict("records"):
        candidate = int(row["candidate"])
        if modality == "text":
            picture = backend.thumbnail(run, split, candidate, 160)
            items.append(cards.Result(int(row["place"]), float(row["score"]), bool(row["match"]), "", picture, True))
        else:
            items.append(cards.Result(int(row["place"]), float(row["score"]), bool(row["match"]), captions[candidate]))
    cards.results(items)


def _rank(run: RunSummary, split: str, query: int, modality: str) -> str:
    rank = int(backend.open_summary(run).ranks(split)["t2i" if modality == "text" else "i2t"][query])
    return "–" if rank < 0 else f"{rank + 1:,}"


def side_by_side(choice: Choice, query: str | int, modality: str) -> None:
    for run, column in zip(choice.runs, st.columns(len(choice.runs), gap="large"), strict=True):
        with column:
            show_results(run, choice.split, query, modality)


def query_table(choice: Choice, queries: pd.DataFrame, ranks: dict[str, str], modality: str) -> None:
    """Queries with picture, caption and ranks; a click opens one."""
    run = choice.runs[-1]
    opened = backend.open_summary(run)
    captions, owner = opened.captions(choice.split), opened.image_of_text(choice.split)
    rows = queries.head(ROWS_SHOWN)
    numbers = rows["query"].to_numpy()
    images = owner[numbers] if modality == "text" else numbers
    first = (
        {int(image): text for text, image in reversed(list(enumerate(owner.tolist())))} if modality == "image" else {}
    )
    texts = [captions[i] if modality == "text" else captions[first[i]] for i in numbers.tolist()]
    table = pd.DataFrame({"picture": picture_urls(backend.thumbnails(run, choice.split, images, 72)), "query": texts})
    name = "caption" if modality == "text" else "its first caption"
    config = {
        "picture": st.column_config.ImageColumn("", width=64),
        "query": st.column_config.TextColumn(name, width=190),
    }
    for column, label in ranks.items():
        table[column] = rows[column].to_numpy()
        config[column] = st.column_config.NumberColumn(label, format="%d", help=tip(label), width=72)
    st.html(
        f'<p class="cl-how cl-small">{len(rows):,} of {len(queries):,} shown. A click on a row opens the query.</p>'
    )
    picking_table(table, numbers, f"query-{modality}", f"queries-{modality}", config, 360)


def compare_runs(choice: Choice, direction: str, at: int, modality: str) -> np.ndarray:
    """Two runs: how ranks moved, and the queries behind it. Returns the order to step through."""
    assert choice.second is not None
    everything = backend.changes(choice.first, choice.second, choice.split, at)
    changes = everything[everything["direction"] == direction]
    counts = outcome_counts(changes, OUTCOMES)
    total = max(len(changes), 1)
    tones = {"fixed": True if counts["fixed"] else None, "broken": False if counts["broken"] else None}
    cards.tiles([cards.Tile(name, f"{counts[name]:,}", f"{100 * counts[name] / total:.1f} % of {total:,}", name,
                            tones.get(name)) for name in OUTCOMES])  # fmt: skip
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading("How ranks moved", "Below the dotted line the second run ranks the match better, above it worse.")
        figure = charts.rank_matrix(changes, choice.first.name, choice.second.name, charts.tone(theme()))
        st.plotly_chart(figure, key="ranks", alt="ranks in both runs")
    with right:
        cards.heading("The queries behind it", "Largest change of rank first.")
        outcome = choose_one("Show", {"all": "All", **{name: name.capitalize() for name in OUTCOMES}}, "outcome")
        kept = by_outcome(changes, None if outcome == "all" else outcome)
        labels = {"rank_a": "1st run", "rank_b": "2nd run", "change": "gain"}
        if len(kept):
            query_table(choice, kept, labels, modality)
        else:
            cards.empty(f"No query is {outcome}.", "Choose another outcome, or another number of results.")
    return kept["query"].to_numpy()


def one_run(choice: Choice, direction: str, at: int, modality: str) -> np.ndarray:
    """One run: where the true matches stand, worst first."""
    ranks = backend.open_summary(choice.first).ranks(choice.split)[direction]
    asked = np.flatnonzero(ranks >= 0)
    queries = pd.DataFrame({"query": asked, "rank": ranks[asked] + 1})
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading("Where the true matches stand", "More queries on the left is better.")
        figure = charts.rank_distribution({choice.first.name: queries["rank"].to_numpy()}, charts.tone(theme()))
        st.plotly_chart(figure, key="ranks", alt="ranks of the true matches")
    with right:
        cards.heading("The queries", "Worst rank first.")
        shown = choose_one("Show", {"missed": "Missed", "found": "Found"}, "answer")
        kept = queries[(queries["rank"] > at) == (shown == "missed")].sort_values(
            "rank", ascending=False, kind="stable"
        )
        if len(kept):
            query_table(choice, kept, {"rank": "rank"}, modality)
        else:
            cards.empty(f"No query is {shown}.", "Choose the others, or another number of results.")
    return kept["query"].to_numpy()


def ask_split(choice: Choice, direction: str, controls: DeltaGenerator) -> None:
    modality = "text" if direction == "t2i" else "image"
    with controls:
        at = int(choose_one("Right within the first", {"1": "1", "5": "5", "10": "10"}, "at", tip("R@K")))
    order = (compare_runs if choice.second else one_run)(choice, direction, at, modality)
    opened = backend.open_summary(choice.runs[-1])
    count = len(opened.ranks(choice.split)[direction])
    cards.heading("One query, answered", "Best candidate first: place, similarity; a green frame is a true match.")
    name = "caption" if modality == "text" else "image"
    number = step_through(
        f"Number of the {name}", f"query-{modality}", order, count, "The row of the sample in its split."
    )
    show_sample(choice, modality, number)
    side_by_side(choice, number, modality)


def ask_freely(choice: Choice) -> None:
    text = st.text_input(
        "Your words",
        **bound("text"),
        max_chars=500,
        placeholder="a dog runs through shallow water",
        icon=":material/search:",
    )
    if not (text or "").strip():
        cards.empty(
            "Nothing asked yet.", "Write a sentence and press Enter; every run then ranks the pictures of the split."
        )
        return
    side_by_side(choice, str(text).strip(), "text")


choice = sidebar.choose()
cards.question(
    "Which is the better answer, baseline or CODER?",
    "Every query ranks all candidates of the split; the higher its own match stands, the better.",
)
if choice is None:
    cards.empty(
        "There is no evaluated run yet.", "Train the demo pair on the start page, or evaluate a run of your own."
    )
    st.page_link("pages/start.py", label="Start page", icon=":material/play_circle:")
else:
    controls = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    with controls:
        source = choose_one("Ask with", {"split": "A sample of the split", "text": "Your own words"}, "ask")
        direction = choose_one("Direction", DIRECTIONS, "direction") if source == "split" else "t2i"
    if source == "split":
        ask_split(choice, direction, controls)
    else:
        ask_freely(choice)
