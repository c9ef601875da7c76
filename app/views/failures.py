"""What lies behind the failures: ranks that moved, near misses, hubs. Each returns the order of queries to walk."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.backend import runs as backend
from app.backend.runs import OUTCOMES
from app.ui import cards, downloads, export, links
from app.ui.controls import choose_one, picking_table
from app.ui.glossary import tip
from app.ui.selection import by_outcome, outcome_counts
from app.ui.state import Choice, bound_number, theme
from app.views.query import query_table, sample_columns

HUBS_SHOWN = 30


def compare_runs(choice: Choice, direction: str, at: int, modality: str) -> np.ndarray:
    """Two runs: how ranks moved, and the queries behind it."""
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
        downloads.chart(figure, "ranks", "ranks in both runs")
    with right:
        cards.heading("The queries behind it", "Largest change of rank first.")
        outcome = choose_one("Show", {"all": "All", **{name: name.capitalize() for name in OUTCOMES}}, "outcome")
        kept = by_outcome(changes, None if outcome == "all" else outcome)
        if len(kept):
            columns = {"rank_a": ("1st run", "%d"), "rank_b": ("2nd run", "%d"), "change": ("gain", "%+d")}
            query_table(choice, modality, kept, columns)
            downloads.table(kept, f"ranks-{choice.split}-{direction}-{export.file_name(outcome)}")
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
        downloads.chart(figure, "ranks", "ranks of the true matches")
    with right:
        cards.heading("The queries", "Worst rank first.")
        shown = choose_one("Show", {"missed": "Missed", "found": "Found"}, "answer")
        kept = queries[(queries["rank"] > at) == (shown == "missed")]
        kept = kept.sort_values("rank", ascending=False, kind="stable")
        if len(kept):
            query_table(choice, modality, kept, {"rank": ("rank", "%d")})
            downloads.table(kept, f"ranks-{choice.split}-{direction}-{shown}")
        else:
            cards.empty(f"No query is {shown}.", "Choose the others, or another number of results.")
    return kept["query"].to_numpy()


def near_misses(choice: Choice, direction: str, modality: str) -> np.ndarray:
    """Queries whose match loses, or wins, by little."""
    tables = {run.name: backend.margin_table(run, choice.split, direction) for run in choice.runs}
    sample = backend.sample(choice.runs[-1], choice.split)
    last = tables[choice.runs[-1].name].copy(deep=False)
    if choice.second is not None and len(last) == len(tables[choice.first.name]):
        last["margin_first"] = tables[choice.first.name]["margin"]
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading(
            "By how much matches win or lose",
            "The margin is the similarity of the true match minus that of the closest wrong candidate: left of the "
            "line a wrong one stands first.",
        )
        margins = {name: table["margin"].to_numpy() for name, table in tables.items()}
        downloads.chart(charts.margin_histogram(margins, charts.tone(theme())), "margins", "margins of the matches")
        if sample is not None:
            drawn = sample.texts if direction == "t2i" else sample.images
            cards.note(f"{len(drawn):,} queries of the split, drawn at random; their candidates are the whole split.")
    with right:
        cards.heading("The closest calls", "The smallest margin first: here a little change turns the answer.")
        shown = choose_one("Show", {"lost": "Just missed", "held": "Just held"}, "calls", tip("margin"))
        lost = (last["rank"] > 1).to_numpy()
        kept = last[lost == (shown == "lost")]
        kept = kept.iloc[np.argsort(kept["margin"].abs().to_numpy(), kind="stable")]
        columns = {"margin": ("margin", "%.4f"), "rank": ("rank", "%d")}
        if "margin_first" in kept:
            columns["margin_first"] = ("1st margin", "%.4f")
        if len(kept):
            query_table(choice, modality, kept, columns)
            downloads.table(kept, f"margins-{choice.split}-{direction}-{shown}")
        else:
            cards.empty("There is no such query.", "Choose the others.")
    return kept["query"].to_numpy()


def hubs(choice: Choice, direction: str, modality: str) -> np.ndarray:
    """Candidates that stand in everybody's way, and whose way it is."""
    k = int(choose_one("Among the first", {"10": "10", "5": "5", "1": "1"}, "k", tip("occurrences")))
    tables = {run.name: backend.occurrence_table(run, choice.split, direction, k) for run in choice.runs}
    for (name, table), column in zip(tables.items(), st.columns(len(tables), gap="large"), strict=True):
        even = backend.hubness(table["count"].to_numpy(), k)
        largest = f"{int(table['count'].max()):,}"
        with column:
            cards.label(name)
            cards.tiles(
                [
                    cards.Tile("skewness", f"{even.skewness:.2f}", "0 is even", "skewness"),
                    cards.Tile("found by nobody", f"{even.never:.1f} %", "of the candidates", "occurrences"),
                    cards.Tile("largest hub", largest, f"queries; {even.mean:.1f} is even", "hub"),
                ]
            )
    last = choice.runs[-1]
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading("How the places are shared out", "A long tail on the right, and many on the left: hubs.")
        counts = {name: table["count"].to_numpy() for name, table in tables.items()}
        downloads.chart(charts.occurrence_bands(counts, k, charts.tone(theme())), "hubs", "occurrences of candidates")
    with right:
        cards.heading("The largest hubs", f"In {last.name}. A click on a row shows whose way it is in.")
        table = tables[last.name].copy(deep=False)
        if choice.second is not None:
            table["count_first"] = tables[choice.first.name]["count"]
        order = np.argsort(-table["count"].to_numpy(), kind="stable")
        hub = _hub_table(choice, modality, table.iloc[order[:HUBS_SHOWN]])
        downloads.table(table.iloc[order], f"hubs-{choice.split}-{direction}-{k}")
    found = backend.found_by_queries(last, choice.split, direction, hub, k)
    stolen = found[~found["match"]]
    cards.heading(
        f"Queries that find {'image' if modality == 'text' else 'caption'} {hub} by mistake",
        f"{len(stolen):,} of the {len(found):,} queries with it among their first {k} ask for something else.",
    )
    if len(stolen):
        query_table(choice, modality, stolen, {"place": ("stands at", "%d")})
    else:
        cards.empty("It is in nobody’s way.", "Choose a larger hub.")
    return stolen["query"].to_numpy()


def _hub_table(choice: Choice, modality: str, table: pd.DataFrame) -> int:
    """The hubs as pictures or captions; returns the one chosen."""
    opened, rows = backend.open_summary(choice.runs[-1]), table["candidate"].to_numpy()
    pictured = modality == "text"
    shown, config = sample_columns(choice, "image" if pictured else "text", rows, 190)
    shown["count"], shown["wrong"] = table["count"].to_numpy(), table["wrong"].to_numpy()
    config["count"] = st.column_config.NumberColumn("queries", format="%d", help=tip("occurrences"), width=72)
    config["wrong"] = st.column_config.NumberColumn("by mistake", format="%d", help=tip("hub"), width=82)
    if "count_first" in table:
        shown["first"] = table["count_first"].to_numpy()
        config["first"] = st.column_config.NumberColumn("1st run", format="%d", help=tip("occurrences"), width=72)
    key = "hub-image" if pictured else "hub-caption"
    picking_table(shown, rows, key, f"{key}-table", config, 360)
    count = opened.count(choice.split, "image" if pictured else "text")
    label = "Number of the hub"
    hub = int(st.number_input(label, 0, count - 1, int(rows[0]), 1, **bound_number(key), width=190) or 0)
    st.html(cards.links_html(links.of_sample(choice, "image" if pictured else "text", hub)))
    return hub
