"""Failures of the split's own queries: rank changes, near misses, hubs. Each section returns an order of queries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.backend import retrieval
from app.backend.retrieval import OUTCOMES
from app.backend.runs import open_summary, split_sample
from app.ui import cards, downloads, export, links
from app.ui.controls import choose_one, picking_table
from app.ui.glossary import tip
from app.ui.selection import by_outcome, outcome_counts
from app.ui.state import Choice, bound_number, theme
from app.views.query import query_table, sample_columns

HUBS_SHOWN = 30


def compare_runs(choice: Choice, direction: str, at: int, modality: str) -> np.ndarray:
    """Two runs: outcomes, rank changes, and the queries behind them."""
    assert choice.second is not None
    both = retrieval.rank_changes(choice.first, choice.second, choice.split, at)
    changes = both[both["direction"] == direction]
    total = max(len(changes), 1)
    cards.metrics(
        cards.Metric(
            name, f"{count:,}", f"of {total:,}", name, f"{100 * count / total:.1f} %",
            {"fixed": "green", "broken": "red"}.get(name, "off") if count else "off", "off",  # type: ignore[arg-type]
        )
        for name, count in outcome_counts(changes, OUTCOMES).items()
    )  # fmt: skip
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading(
            "Rank changes between the two runs",
            "Number of queries by rank in both runs. Below the dotted line the second run ranks the match higher.",
        )
        figure = charts.rank_matrix(changes, choice.first.name, choice.second.name, charts.tone(theme()))
        downloads.chart(figure, "ranks", "ranks in both runs")
    with right:
        cards.heading("Queries by outcome", "Largest change of rank first.")
        outcome = choose_one("Show", {"all": "All", **{name: name.capitalize() for name in OUTCOMES}}, "outcome")
        queries = by_outcome(changes, None if outcome == "all" else outcome)
        if len(queries):
            columns = {"rank_a": ("1st run", "%d"), "rank_b": ("2nd run", "%d"), "change": ("gain", "%+d")}
            query_table(choice, modality, queries, columns)
            downloads.table(queries, f"ranks-{choice.split}-{direction}-{export.file_name(outcome)}")
        else:
            cards.empty(f"No query is {outcome}.", "Choose another outcome, or another number of results.")
    return queries["query"].to_numpy()


def one_run(choice: Choice, direction: str, at: int, modality: str) -> np.ndarray:
    """One run: the ranks of the true matches, worst first."""
    ranks = open_summary(choice.first).ranks(choice.split)[direction]
    with_match = np.flatnonzero(ranks >= 0)
    table = pd.DataFrame({"query": with_match, "rank": ranks[with_match] + 1})
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading("Ranks of the true matches", "The more queries on the left, the better.")
        figure = charts.rank_distribution({choice.first.name: table["rank"].to_numpy()}, charts.tone(theme()))
        downloads.chart(figure, "ranks", "ranks of the true matches")
    with right:
        cards.heading("Queries by rank", "Worst rank first.")
        answer = choose_one("Show", {"missed": "Missed", "found": "Answered"}, "answer")
        queries = table[(table["rank"] > at) == (answer == "missed")]
        queries = queries.sort_values("rank", ascending=False, kind="stable")
        if len(queries):
            query_table(choice, modality, queries, {"rank": ("rank", "%d")})
            downloads.table(queries, f"ranks-{choice.split}-{direction}-{answer}")
        else:
            fact = "No query is missed." if answer == "missed" else "No query is answered."
            cards.empty(fact, "Show the others, or choose another number of results.")
    return queries["query"].to_numpy()


def near_misses(choice: Choice, direction: str, modality: str) -> np.ndarray:
    """Queries whose match loses, or wins, by a small margin."""
    tables = {run.name: retrieval.margin_table(run, choice.split, direction) for run in choice.runs}
    sample = split_sample(choice.runs[-1], choice.split)
    table = tables[choice.runs[-1].name].copy(deep=False)
    if choice.second is not None and len(table) == len(tables[choice.first.name]):
        table["margin_first"] = tables[choice.first.name]["margin"]
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading(
            "Margins of the true matches",
            "Similarity of the true match minus that of the closest wrong candidate. Left of the line a wrong "
            "candidate ranks first.",
        )
        margins = {name: values["margin"].to_numpy() for name, values in tables.items()}
        downloads.chart(charts.margin_histogram(margins, charts.tone(theme())), "margins", "margins of the matches")
        if sample is not None:
            queries = sample.texts if direction == "t2i" else sample.images
            cards.note(f"{len(queries):,} random queries of the split; their candidates are the whole split.")
    with right:
        cards.heading("Smallest margins", "A small change of the model would change these results.")
        side = choose_one("Show", {"lost": "Just missed", "held": "Just answered"}, "calls", tip("margin"))
        missed = (table["rank"] > 1).to_numpy()
        queries = table[missed == (side == "lost")]
        queries = queries.iloc[np.argsort(queries["margin"].abs().to_numpy(), kind="stable")]
        columns = {"margin": ("margin", "%.4f"), "rank": ("rank", "%d")}
        if "margin_first" in queries:
            columns["margin_first"] = ("1st margin", "%.4f")
        if len(queries):
            query_table(choice, modality, queries, columns)
            downloads.table(queries, f"margins-{choice.split}-{direction}-{side}")
        else:
            cards.empty("There is no such query.", "Show the others.")
    return queries["query"].to_numpy()


def hubs(choice: Choice, direction: str, modality: str) -> np.ndarray:
    """Candidates that rank high for too many queries, and the queries that retrieve them wrongly."""
    k = int(choose_one("Among the first", {"10": "10", "5": "5", "1": "1"}, "k", tip("occurrences")))
    tables = {run.name: retrieval.occurrence_table(run, choice.split, direction, k) for run in choice.runs}
    for (name, table), column in zip(tables.items(), st.columns(len(tables), gap="large"), strict=True):
        statistics, largest = retrieval.hubness(table["count"].to_numpy(), k), int(table["count"].max())
        with column:
            cards.label(name)
            cards.metrics(
                [
                    cards.Metric("skewness", f"{statistics.skewness:.2f}", "0 is symmetric", "skewness"),
                    cards.Metric("never retrieved", f"{statistics.never:.1f} %", "of the candidates", "occurrences"),
                    cards.Metric("largest hub", f"{largest:,}", f"queries; mean {statistics.mean:.1f}", "hub"),
                ],
                compact=True,
            )
    last = choice.runs[-1]
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading("Distribution of k-occurrences", "Hubs form a long tail on the right.")
        counts = {name: table["count"].to_numpy() for name, table in tables.items()}
        downloads.chart(charts.occurrence_bands(counts, k, charts.tone(theme())), "hubs", "occurrences of candidates")
    with right:
        cards.heading("Largest hubs", f"Of {last.name}. Click on a row for the queries that wrongly retrieve the hub.")
        table = tables[last.name].copy(deep=False)
        if choice.second is not None:
            table["count_first"] = tables[choice.first.name]["count"]
        order = np.argsort(-table["count"].to_numpy(), kind="stable")
        hub = _hub_table(choice, modality, table.iloc[order[:HUBS_SHOWN]])
        downloads.table(table.iloc[order], f"hubs-{choice.split}-{direction}-{k}")
    queries = retrieval.found_by(open_summary(last), choice.split, direction, hub, k=k)  # type: ignore[arg-type]
    wrong = queries[~queries["match"]]
    cards.heading(
        f"Queries that wrongly retrieve {'image' if modality == 'text' else 'caption'} {hub}",
        f"{len(wrong):,} of the {len(queries):,} queries with it among their first {k} have another match.",
    )
    if len(wrong):
        query_table(choice, modality, wrong, {"place": ("hub rank", "%d")})
    else:
        cards.empty(f"No query ranks it above its true match within the first {k}.", "Choose a larger hub.")
    return wrong["query"].to_numpy()


def _hub_table(choice: Choice, modality: str, table: pd.DataFrame) -> int:
    """The hubs as pictures or captions; returns the chosen one."""
    opened, rows = open_summary(choice.runs[-1]), table["candidate"].to_numpy()
    kind = "image" if modality == "text" else "text"
    shown, config = sample_columns(choice, kind, rows, 190)
    shown["count"], shown["wrong"] = table["count"].to_numpy(), table["wrong"].to_numpy()
    config["count"] = st.column_config.NumberColumn("queries", format="%d", help=tip("occurrences"), width=72)
    config["wrong"] = st.column_config.NumberColumn("wrongly", format="%d", help=tip("hub"), width=82)
    if "count_first" in table:
        shown["first"] = table["count_first"].to_numpy()
        config["first"] = st.column_config.NumberColumn("1st run", format="%d", help=tip("occurrences"), width=72)
    key = "hub-image" if kind == "image" else "hub-caption"
    picking_table(shown, rows, key, f"{key}-table", config, 360)
    count = opened.count(choice.split, kind)  # type: ignore[arg-type]
    hub = int(st.number_input("Hub", 0, count - 1, int(rows[0]), 1, **bound_number(key), width=190) or 0)
    st.html(cards.links_html(links.of_sample(choice, kind, hub)))
    return hub
