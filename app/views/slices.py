"""The Slices page: groups of captions, ordered by misses beyond the expected ones."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from app import charts
from app.address import SLICE, put
from app.ask import Run, RunSummary, ask, slices
from app.choice import QUERIES, Choice, columns_of_slices, slice_table
from app.components import cards, downloads, links
from app.components.answers import recall_at
from app.components.controls import FIRST, MODALITIES, choose_one, pick, row
from app.components.table import Column, Table, columns_of, rows_table
from app.components.theme import tone
from app.components.words import gain_cell

PICTURED = 12
MOST_BUTTONS = 10  # kinds of slices; more are a list
PAGES = {"Misses of this slice": "retrieval", "Its diversity": "diversity", "On the map": "joint"}


def show(choice: Choice) -> None:
    """Draw a table of slices; a click makes one the slice of all pages."""
    runs = choice.runs
    controls = row()
    with controls:
        modality = choose_one("Queries", MODALITIES, "queries")
        at = int(choose_one("Hit within the first", FIRST, "slice-at", cards.tip("R@K")))
    counted = len(ask(slices.images_counted, choice.first, choice.split))
    images = ask(Run.count, choice.first, choice.split, "image")
    if counted < images:
        cards.note(f"The table counts the queries of {counted:,} of {images:,} images, drawn at random.")
    table = slice_table(runs, choice.split, QUERIES[modality], at)
    if not len(table):
        cards.empty("No slice has enough queries.", "A slice needs 20 queries in each half of the images.")
        return
    own = columns_of_slices(choice.last, choice.split).own
    labels = {kind: kind if kind in own else kind.capitalize() for kind in dict.fromkeys(table["kind"])}
    kinds = {"all": "All", **labels}
    with controls:
        if len(kinds) <= MOST_BUTTONS:
            kind = choose_one("Show", kinds, "slice-kind")
        else:
            kind = pick("Show", kinds, "slice-kind", 200, format_func=kinds.__getitem__)
    table = table if kind == "all" else table[table["kind"] == kind]
    overall = recall_at(replace(choice, slice=""), modality, at)
    last = len(runs) - 1
    below = table[(table["excess"] > 0) & (table[f"recall_{last}"] < overall[runs[-1].name])]
    cards.answer(answer(below, runs, overall[runs[-1].name], at))
    first = below if kind == "all" and len(below) else table
    pictured = first.head(PICTURED)
    label = f"R@{at}, %"
    names = [[f"{name}_{number}" for name in ("recall", "low", "high")] for number in range(len(runs))]
    recalls = {run.name: pictured[of_run].to_numpy() for run, of_run in zip(runs, names, strict=True)}
    figure = charts.slice_recalls(pictured["label"].tolist(), recalls, overall, label, tone())
    downloads.chart(figure, "slice-recalls", "recall of the first slices")
    cards.note(
        "Dashed lines are the recall of all queries. Faint dots may be noise: their interval contains it."
    )
    beside = f" (beside {' and '.join(run.name for run in runs[:-1])})" if len(runs) > 1 else ""
    cards.note(cards.HOW_TO_READ["slices judged"].format(last=runs[-1].name, beside=beside))
    _table(choice, table, runs, at, f"slices-{modality}-{at}-{kind}")
    downloads.table(table, f"slices-{choice.split}")
    if choice.slice:
        st.html(cards.links_html([(label, links.address(page, choice)) for label, page in PAGES.items()]))


def answer(below: pd.DataFrame, runs: list[RunSummary], overall: float, at: int) -> str:
    """Name the slice with the most excess misses, if its interval lies below the overall recall. `below`: the slices of
    lower recall."""
    run = runs[-1].name
    last = len(runs) - 1
    certain = below[below[f"high_{last}"] < overall]
    if not len(certain):
        return f"No slice of {run} is certainly worse than its overall R@{at}, {overall:.1f}"
    worst = certain.iloc[0]
    recall, low, high = (worst[f"{name}_{last}"] for name in ("recall", "low", "high"))
    found = f"R@{at} {recall:.1f} [{low:.1f}, {high:.1f}] against {overall:.1f} overall"
    others = f" · {len(certain) - 1} more below the overall" if len(certain) > 1 else ""
    return f"{run} misses most on {worst['label']}: {found}{others}"


def _table(choice: Choice, table: pd.DataFrame, runs: list[RunSummary], at: int, key: str) -> None:
    values = table[["label", "queries"]].assign(excess=table["excess"].round() + 0.0)  # no "-0"
    columns = columns_of("slices")
    for number, run in enumerate(runs):
        names = [f"{name}_{number}" for name in ("recall", "low", "high")]
        values[names[0]] = _intervals(table[names], "{:.1f} [{:.1f}, {:.1f}]")
        columns[names[0]] = Column(f"R@{at} of {run.name}", "", "R@K")
    if len(runs) > 1:
        gains = table[["gain", "gain_low", "gain_high"]].itertuples(index=False)
        values["gain"] = [gain_cell(gain, low, high) for gain, low, high in gains]
        columns["gain"] = Column(f"gain over {runs[0].name}", "", "slice gain")
    for number, run in enumerate(runs):
        both = table[[f"mrr_{number}", f"ndcg10_{number}"]]
        values[f"mrr_{number}"] = _intervals(both, "{:.1f} / {:.1f}")
        columns[f"mrr_{number}"] = Column(f"MRR / nDCG@10 of {run.name}", "", "MRR")
    expressions = dict(table["expression"])
    current = next((number for number, text in expressions.items() if text == choice.slice), -1)
    ids = table.index.to_numpy()
    listed = Table(values, columns, key, "slices", ids, height=560)
    rows_table(listed, current, lambda row: put(SLICE, expressions[row]))


def _intervals(numbers: pd.DataFrame, form: str) -> list[str]:
    return [form.format(*ends) for ends in numbers.itertuples(index=False)]
