"""Which runs do I have and how good are they?"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app import charts
from app.backend import runs as backend
from app.backend.runs import RunSummary
from app.ui import cards, downloads, sidebar
from app.ui.glossary import tip
from app.ui.progress import curve_label, curves
from app.ui.state import Choice, bound, theme
from app.views import separation as separation_view

COLUMNS = {
    "rsum": "R@sum", "i2t_r1": "i→t R@1", "i2t_r5": "i→t R@5", "i2t_r10": "i→t R@10", "t2i_r1": "t→i R@1",
    "t2i_r5": "t→i R@5", "t2i_r10": "t→i R@10", "md": "MD",
}  # fmt: skip
COMPARED = 6


def run_table(split: str) -> pd.DataFrame:
    """One row a run: what it is and how good it is on this split."""
    rows = []
    for run in backend.runs():
        about, metrics = backend.facts(run), run.metrics.get(split, {})
        scores = {label: metrics.get(key) for key, label in COLUMNS.items()}
        what = {"run": run.name, "loss": about["loss"], "data": about["data"]}
        rows.append(
            what
            | scores
            | {"epochs": about["epochs"], "seed": about["seed"], "state": run.state, "date": about["created"]}
        )
    return pd.DataFrame(rows)


def headline(choice: Choice) -> None:
    metrics = [run.metrics[choice.split] for run in choice.runs]
    items = []
    for label, key, term in (
        ("R@sum", "rsum", "R@sum"), ("image → text R@1", "i2t_r1", "R@K"), ("text → image R@1", "t2i_r1", "R@K"),
        ("image → text MedR", "i2t_medr", "MedR"), ("text → image MedR", "t2i_medr", "MedR"),
    ):  # fmt: skip
        values = [float(m.get(key, float("nan"))) for m in metrics]
        digits, note, good = (0 if "medr" in key else 1), "", None
        if len(values) == 2:
            change = values[1] - values[0]
            better = change < 0 if "medr" in key else change > 0
            good = None if change == 0 else better
            note = f"{change:+.{digits}f} against {values[0]:.{digits}f}" if change else "unchanged"
        items.append(cards.Tile(label, f"{values[-1]:.{digits}f}", note, term, good))
    cards.tiles(items)


def compared(choice: Choice) -> list[RunSummary]:
    """The runs of bars, curves and differences: the two of the sidebar, or up to six of one's choice."""
    known = {run.name: run for run in backend.runs() if not run.fault}
    names = st.multiselect(
        "Compared here", list(known), [run.name for run in choice.runs], **bound("curves"), max_selections=COMPARED,
        placeholder="up to six runs",
        help="Everything but the table of all runs shows these; other pages show the sidebar’s.",
    )  # fmt: skip
    return [known[name] for name in names[:COMPARED]]


def draw_recall(runs: list[RunSummary], split: str) -> None:
    cards.heading(f"Recall on {split}")
    metrics = {run.name: run.metrics[split] for run in runs if split in run.metrics}
    if not metrics:
        cards.empty(f"None of these runs was evaluated on {split}.", "Choose another split, or other runs.")
        return
    downloads.chart(charts.recall_bars(metrics, charts.tone(theme())), "recall", "recall of the runs")
    missing = [run.name for run in runs if run.name not in metrics]
    if missing:
        cards.note(f"Not evaluated on {split}: {', '.join(missing)}.")


def draw_curves(shown: list[RunSummary]) -> None:
    cards.heading("Training")
    epochs, steps = ({run.name: read(run) for run in shown} for read in (backend.epochs, backend.steps))
    columns = curves(list(epochs.values())) + curves(list(steps.values()))
    if not columns:
        imported = bool(shown) and all(run.imported for run in shown)
        fact = "Imported embeddings have no training curves." if imported else "No finished epoch to draw."
        cards.empty(fact, "Choose a run that has trained for at least one epoch.")
        return
    column = st.selectbox("Value", columns, format_func=curve_label, label_visibility="collapsed", **bound("curve"))
    frames = epochs if any(column in frame for frame in epochs.values()) else steps
    figure = charts.training_curves(frames, column, curve_label(column), charts.tone(theme()))
    downloads.chart(figure, "training_curves", "training curves")


def draw_table(split: str) -> None:
    table = run_table(split)
    percent = st.column_config.NumberColumn(format="%.1f", help=tip("R@K"))
    st.dataframe(
        table, hide_index=True, height="content", placeholder="–",
        column_config=dict.fromkeys(COLUMNS.values(), percent)
        | {"R@sum": st.column_config.NumberColumn(format="%.1f", help=tip("R@sum")),
           "MD": st.column_config.NumberColumn(format="%.3f", help=tip("mean distance")),
           "loss": st.column_config.TextColumn(help=tip("loss")),
           "epochs": st.column_config.NumberColumn(help=tip("epochs"))},
    )  # fmt: skip
    downloads.table(table, f"runs-{split}", paper=True)


def draw_differences(runs: list[RunSummary]) -> None:
    cards.heading("What differs between them", "Only the values that are not the same; everything else is equal.")
    imported = [run.name for run in runs if run.imported]
    if imported:
        names = " and ".join(imported)
        cards.note(f"{names}: imported embeddings, which have no configuration.")
    trained = [run for run in runs if not run.imported]
    if len(trained) < 2:
        cards.empty("There are no two runs to compare.", "Choose two that were trained here, above or in the sidebar.")
        return
    table = backend.configuration_changes(trained)
    if table.empty:
        cards.empty("Nothing differs.", "These runs have the same settings, seed included.")
        return
    table.index.name = "setting"
    st.dataframe(table.reset_index(), hide_index=True, height="content")
    downloads.table(table.reset_index(), "settings-that-differ", paper=True)


def show(choice: Choice) -> None:
    headline(choice)
    runs = compared(choice)
    left, right = st.columns(2, gap="large")
    with left:
        draw_recall(runs, choice.split)
    with right:
        draw_curves(runs)
    cards.heading("All runs", f"Recall in percent on {choice.split}; a click on a column's name sorts.")
    draw_table(choice.split)
    separation_view.show(runs, choice.split)
    draw_differences(runs)


choice = sidebar.choose()
cards.question(
    "Which runs do I have, and how good are they?",
    "Each bar is the share of queries whose true match is among the first 1, 5 or 10 results: taller is better.",
)
broken = [(run.name, run.fault) for run in backend.runs() if run.fault]
if broken:
    cards.faults(broken)
sidebar.answer(choice, show)
