"""Hubs of a split, the queries that retrieve them wrongly, and what a correction of their scores mends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, questions
from app.ask import Direction, Modality, Run, ask, ask_now, retrieval
from app.choice import OTHER, Choice, bound_number, put, theme
from app.components import cards, downloads, events, links
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.table import Column, plain_table
from app.components.words import count
from app.views.failures import figure_and_table, query_table
from app.views.samples import NO_WORDS, holding, name_of, of_run, sample_table, search_words


def show_hubs(choice: Choice, direction: Direction, modality: Modality) -> np.ndarray:
    """Candidates that rank high for too many queries, and the queries that retrieve them wrongly."""
    k = int(choose_one("Among the first", {"10": "10", "5": "5", "1": "1"}, "k", tip("occurrences")))
    inside = choice.samples(modality)
    tables = {
        run.name: ask(retrieval.occurrences, run, choice.split, direction, k=k, queries=inside)
        for run in choice.runs
    }
    if len(tables) > 2:
        _hubness_table(tables, k)
    for name, column in (
        zip(tables, st.columns(len(tables), gap="large"), strict=True) if len(tables) < 3 else ()
    ):
        counts = tables[name]["count"].to_numpy()
        statistics, largest = retrieval.hubness(counts, k), int(counts.max())
        with column:
            cards.label(name)
            cards.metrics(
                [
                    cards.Metric("skewness", f"{statistics.skewness:.2f}", "0 is symmetric", "skewness"),
                    cards.Metric(
                        "never retrieved", f"{statistics.never:.1f} %", "of the candidates", "occurrences"
                    ),
                    cards.Metric("largest hub", f"{largest:,}", f"mean {statistics.mean:.1f} queries", "hub"),
                ],
                compact=True,
            )
    last = choice.last
    kind = OTHER[modality]
    target = "hub-image" if kind == "image" else "hub-caption"
    table = tables[last.name].copy(deep=False)
    for run in choice.runs[:-1]:
        table[f"count {run.name}"] = tables[run.name]["count"]
    table = table.iloc[np.argsort(-table["count"].to_numpy(), kind="stable")]
    left, right = figure_and_table(choice)
    with left:
        cards.heading(
            "Distribution of k-occurrences",
            f"Hubs form a long tail on the right. Click on a bar to open its largest hub in {last.name}.",
        )
        occurrences = {name: table["count"].to_numpy() for name, table in tables.items()}
        figure = charts.occurrence_bands(occurrences, k, charts.tone(theme()))
        downloads.chart(figure, "hubs", "occurrences of candidates")

    def open_band(bar: tuple[int, int]) -> None:
        band = table[charts.occurrence_band(table["count"].to_numpy()) == bar[1]]
        if len(band):
            put(target, int(band["candidate"].iloc[0]))

    events.on_cell(["hubs"], (len(tables), len(charts.OCCURRENCE_LABELS)), open_band)
    with right:
        cards.heading(
            "Largest hubs", f"Of {last.name}. Click on a row for the queries that wrongly retrieve the hub."
        )
        hub = _hub_table(choice, kind, target, table, f"hubs-{choice.split}-{direction}-{k}")
    correction = ask_now(retrieval.stored_correction, last, choice.split)
    if correction.value is not None:
        shown = {"hub": "Of this hub", "mended": "Fixed by hub correction", "broken": "Broken by it"}
        which = choose_one("Queries", shown, "hub-queries", tip("hub correction"))
        if which != "hub":
            return _corrected(choice, direction, modality, k, correction.value, which)
    elif correction.fault:
        cards.empty("The stored hub correction is damaged.", correction.fault)
    queries = ask(retrieval.found_by, last, choice.split, direction, hub, k=k)
    queries = queries[choice.inside(modality, queries["query"])]
    wrong = queries[~queries["match"]].drop(columns="match")
    cards.heading(
        f"Queries that wrongly retrieve {name_of(kind, hub)}",
        f"Of {count(len(queries), 'query', 'queries')} with it among the first {k}, {len(wrong):,} with another match. "
        "Click on a row to open the query.",
    )
    fact = f"No query ranks it above its true match within the first {k}."
    file = f"hub-{kind}-{hub}-{choice.split}-{direction}-{k}"
    columns = {"place": Column("rank of the hub", ",d", "hub rank")}
    return query_table(choice, modality, wrong, columns, search_words("words"), fact, file, 330)


def _hubness_table(tables: Mapping[str, pd.DataFrame], k: int) -> None:
    """The numbers of several runs, one below the other."""
    counts = {name: table["count"].to_numpy() for name, table in tables.items()}
    statistics = {name: retrieval.hubness(values, k) for name, values in counts.items()}
    rows = pd.DataFrame(
        [
            {"run": name, "skewness": one.skewness, "never": one.never, "largest": int(counts[name].max())}
            for name, one in statistics.items()
        ]
    )
    columns = {
        "run": Column("run"),
        "skewness": Column("skewness", ".2f", "skewness"),
        "never": Column("never retrieved", ".1f", "occurrences", " %"),
        "largest": Column("largest hub", ",d", "hub"),
    }
    plain_table(rows, columns, "hubness", "runs")


def _corrected(
    choice: Choice,
    direction: Direction,
    modality: Modality,
    k: int,
    correction: retrieval.HubCorrection,
    which: str,
) -> np.ndarray:
    """The queries whose answer among the first k comes ("mended") or goes with the correction for hubs."""
    last = choice.last
    table = ask(retrieval.corrected_queries, last, choice.split, direction, correction, k)
    table = table[choice.inside(modality, table["query"])]
    mended = int(table["mended"].sum())
    ranks = {"i2t": correction.image_ranks, "t2i": correction.text_ranks}
    captions = choice.captions
    asked = np.flatnonzero(ranks[direction] >= 0)
    asked = asked[choice.inside(modality, asked)]
    raw, after = (
        100 * float((own[asked] < k).mean()) if len(asked) else float("nan")
        for own in (ask(Run.ranks, last, choice.split)[direction], ranks[direction])
    )
    neighbours, alpha = correction.strengths[direction]
    cards.heading(
        f"R@{k} {raw:.1f} % → {after:.1f} % with scores corrected for hubs",
        f"After training: every score minus {alpha:g} × the candidate’s mean similarity with its {neighbours} nearest "
        f"queries of the train split, both numbers chosen on {correction.chosen_on}. {mended:,} answers are gained, "
        f"{len(table) - mended:,} lost. Click on a row to open the query; its results below are the uncorrected ones.",
    )
    cards.note(
        ask(
            questions.gain_of_ranks,
            last,
            choice.split,
            f"{direction}_r{k}",
            ranks,
            f"of {last.name} with the correction",
            captions,
        )
    )
    columns = {
        "rank": Column("rank", ",d", "rank"),
        "corrected": Column("corrected rank", ",d", "hub correction"),
    }
    queries = table[table["mended"] == (which == "mended")].drop(columns="mended")
    file = f"hub-correction-{which}-{choice.split}-{direction}-{k}"
    return query_table(
        choice, modality, queries, columns, search_words("words"), "No query matches.", file, 330
    )


def _hub_table(choice: Choice, kind: Modality, target: str, table: pd.DataFrame, file: str) -> int:
    """The hubs as pictures or captions, the largest first; returns the chosen one."""
    last = choice.last
    columns = {
        "count": Column(of_run(choice, "queries", last), ",d", "occurrences"),
        "wrong": Column("of them wrongly", ",d", "hub"),
    }
    for run in choice.runs[:-1]:
        columns[f"count {run.name}"] = Column(of_run(choice, "queries", run), ",d", "occurrences")
    numbers = table["candidate"].to_numpy()
    words = search_words(f"{target}-words")
    rows = holding(
        replace(choice, slice=""), kind, numbers, words
    )  # a slice chooses the queries, not the hubs
    if len(rows):
        values = table.iloc[rows].drop(columns="candidate")
        numbers = sample_table(
            choice,
            kind,
            numbers[rows],
            values,
            columns,
            target=target,
            key=f"{target}-table",
            file=file,
            height=360,
        )
    else:
        cards.empty(*NO_WORDS)
    total = ask(Run.count, last, choice.split, kind)
    hub = int(
        st.number_input("Hub", 0, total - 1, int(numbers[0]), 1, **bound_number(target), width=190) or 0
    )
    st.html(cards.links_html(links.of_sample(choice, kind, hub)))
    return hub
