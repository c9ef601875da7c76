"""Runs beside each other: gains, answers, separation of pairs, slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, questions
from app.ask import (
    Direction,
    Run,
    RunSummary,
    ask,
    ask_all,
    ask_both,
    comparable,
    joint_space,
    read_each,
    retrieval,
    slices,
)
from app.choice import QUERIES, SLICE, Choice, put, slice_table, theme
from app.components import cards, downloads, links
from app.components.controls import MODALITIES, choose_one
from app.components.glossary import tip
from app.components.table import Column, plain_table, rows_table
from app.components.words import gain_cell


def show_gains(
    choice: Choice,
    recalls: Mapping[str, str],
    captions: np.ndarray | None = None,
    more: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Report whether gains over the first run are noise: a sentence per recall for two runs, a table for more.

    Args:
        recalls: key of the metrics → its name as a column. captions: of the slice; None for all.
        more: further columns of the table: name → a text for every run.
    """
    if not choice.between:
        for run in choice.runs[1:]:
            for recall in recalls:
                cards.note(
                    ask_both(retrieval.gain_in_words, choice.first, run, choice.split, recall, captions)
                )
        return
    cards.note(
        f"Gains over {choice.first.name} in points, with 95% intervals of a paired bootstrap over images. One that "
        "holds zero may be noise: other images could undo it."
    )
    changes = [
        ask_both(retrieval.gains, choice.first, run, choice.split, captions) for run in choice.runs[1:]
    ]
    table: dict[str, Sequence[str]] = {"run": [run.name for run in choice.runs], **(more or {})}
    for recall in recalls:
        cells = [
            gain_cell(change[recall].mean, change[recall].low, change[recall].high) for change in changes
        ]
        table[recall] = ["–", *cells]
    columns = {name: Column(recalls.get(name, name), right=name != "run") for name in table}
    plain_table(pd.DataFrame(table), columns, f"gains-{'-'.join(recalls)}", "runs")


WAYS: dict[Direction, str] = {"t2i": "Caption → images", "i2t": "Image → captions"}


def show_answers(runs: list[RunSummary], choice: Choice) -> None:
    """Queries that one run answers and another does not, for every two of them."""
    runs = [run for run in runs if choice.split in run.splits and comparable(choice.first, run, choice.split)]
    if len(runs) < 2:
        return
    cards.heading(
        "Who answers what?",
        "Queries answered within the first result: by the run of the row and not by that of the column.",
    )
    way = choose_one("Direction", WAYS, "answers-of")
    queries = choice.members("text" if way == "t2i" else "image") if choice.slice else None
    right = ask_all(questions.answers, runs, choice.split, way, 1, queries)
    rows = [
        {
            "run": run.name,
            **{
                other.name: None if other is run else int((own & ~theirs).sum())
                for other, theirs in zip(runs, right, strict=True)
            },
            "answered": int(own.sum()),
        }
        for run, own in zip(runs, right, strict=True)
    ]
    columns = {run.name: Column(f"not by {run.name}", ",d") for run in runs}
    plain_table(
        pd.DataFrame(rows),
        {"run": Column("run"), "answered": Column("answered", ",d", "R@K"), **columns},
        "answers",
        "runs",
    )
    every, none = int(right.all(0).sum()), int((~right.any(0)).sum())
    cards.note(
        f"Of {right.shape[1]:,} queries {every:,} are answered by all of these runs, {none:,} by none."
    )


def show_separation(runs: Sequence[RunSummary], split: str) -> None:
    """Draw it for those of the runs that were evaluated on the split; damaged ones are named."""
    evaluated = [run for run in runs if split in run.splits]
    counted, faults = read_each(evaluated, lambda run: ask(joint_space.score_distributions, run, split))
    if faults:
        cards.faults(faults)
    if not counted:
        return
    names, distributions = list(counted), list(counted.values())
    sampled = max(distributions, key=lambda counts: counts.of_images - counts.images)
    note = ""
    if sampled.images < sampled.of_images:
        note = f" Counted over {sampled.images:,} of {sampled.of_images:,} images, drawn at random; the means are exact."
    cards.heading(
        "How well are matching pairs separated from the others?",
        "A run whose curves on the left (matching pairs) and on the right (other pairs) overlap cannot tell them "
        f"apart. MD is the difference of the two means.{note}",
    )
    colours = charts.tone(theme())
    all_counts = [counts for run in distributions for counts in (run.positive, run.negative)]
    kinds = {"positive": "matching pairs", "negative": "all other pairs"}
    for column, (kind, label) in zip(st.columns(2, gap="large"), kinds.items(), strict=True):
        with column:
            counts = [getattr(run, kind) for run in distributions]
            figure = charts.similarity_densities(
                names, distributions[0].edges, counts, all_counts, label, colours
            )
            downloads.chart(figure, f"densities-{kind}", f"similarities of {label}")
    means = [ask(joint_space.score_separation, run, split) for run in evaluated if run.name in counted]
    table = pd.DataFrame(
        {
            "run": names,
            "matching pairs": [mean.positive for mean in means],
            "other pairs": [mean.negative for mean in means],
            "MD": [mean.mean_distance for mean in means],
        }
    )
    columns = {
        "run": Column("run"),
        "matching pairs": Column("matching pairs", ".3f", "mean similarity"),
        "other pairs": Column("other pairs", ".3f", "mean similarity"),
        "MD": Column("MD", ".3f", "mean distance"),
    }
    plain_table(table, columns, "separation", "runs")
    downloads.table(table, f"separation-{split}", paper=True)


PICTURED = 12


def show_table(choice: Choice, runs: list[RunSummary]) -> None:
    """Slices by misses beyond the expected ones; a click makes one the slice of all pages."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        modality = choose_one("Queries", MODALITIES, "queries")
        at = int(choose_one("Answered within the first", {"1": "1", "5": "5", "10": "10"}, "at", tip("R@K")))
    beside = f" beside {' and '.join(run.name for run in runs[:-1])}" if len(runs) > 1 else ""
    cards.note(
        f"{runs[-1].name} is judged{beside}. Slices are ordered by one half of the images. All numbers except queries "
        "are of the other half, with 95% intervals over images, so the worst of many slices is not worst by chance."
    )
    counted = len(ask(slices.images_counted, choice.first, choice.split))
    images = ask(Run.count, choice.first, choice.split, "image")
    if counted < images:
        cards.note(f"The table counts the queries of {counted:,} of {images:,} images, drawn at random.")
    table = slice_table(runs, choice.split, QUERIES[modality], at)
    if not len(table):
        cards.empty("No slice has enough queries.", "A slice needs 20 queries in each half of the images.")
        return
    kinds = {"all": "All", **{kind: kind.capitalize() for kind in dict.fromkeys(table["kind"])}}
    kind = choose_one("Show", kinds, "kind")
    rows = np.flatnonzero(
        (table["kind"] == kind).to_numpy() if kind != "all" else np.ones(len(table), dtype=bool)
    )
    shown, columns = _slice_columns(table.iloc[rows], runs, at)
    recalls = {
        run.name: table.iloc[rows[:PICTURED]][
            [f"recall_{number}", f"low_{number}", f"high_{number}"]
        ].to_numpy()
        for number, run in enumerate(runs)
    }
    figure = charts.slice_recalls(
        table["expression"].iloc[rows[:PICTURED]].tolist(), recalls, f"R@{at}, %", charts.tone(theme())
    )
    downloads.chart(figure, "slice-recalls", "recall of the first slices")
    current = np.flatnonzero((table["expression"] == choice.slice).to_numpy())
    rows_table(
        shown,
        columns,
        rows,
        f"slices-{modality}-{at}-{kind}",
        "slices",
        int(current[0]) if len(current) else -1,
        lambda row: put(SLICE, str(table["expression"].iloc[row])),
        height=560,
    )
    downloads.table(table.iloc[rows], f"slices-{choice.split}")
    if choice.slice:
        pages = {"Failures of this slice": "retrieval", "Its diversity": "diversity", "On the map": "joint"}
        st.html(cards.links_html([(label, links.address(page, choice)) for label, page in pages.items()]))


def _slice_columns(
    table: pd.DataFrame, runs: list[RunSummary], at: int
) -> tuple[pd.DataFrame, dict[str, Column]]:
    shown = table[["expression", "queries"]].assign(excess=table["excess"].round() + 0.0)  # no "-0"
    columns = {
        "expression": Column("slice", "", "slice"),
        "queries": Column("queries", ",d"),
        "excess": Column("excess misses", "+,.0f", "excess"),
    }
    for number, run in enumerate(runs):
        shown[f"recall_{number}"] = [
            f"{mean:.1f} [{low:.1f}, {high:.1f}]"
            for mean, low, high in table[[f"recall_{number}", f"low_{number}", f"high_{number}"]].itertuples(
                index=False
            )
        ]
        columns[f"recall_{number}"] = Column(f"R@{at} of {run.name}", "", "R@K")
    if len(runs) > 1:
        shown["gain"] = [
            f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
            for mean, low, high in table[["gain", "gain_low", "gain_high"]].itertuples(index=False)
        ]
        shown["noise"] = np.where(
            (table["gain_low"] > 0) | (table["gain_high"] < 0), "beyond noise", "may be noise"
        )
        columns["gain"] = Column(f"gain over {runs[0].name}", "", "slice gain")
        columns["noise"] = Column("is it noise?", "", "slice gain")
    return shown, columns
