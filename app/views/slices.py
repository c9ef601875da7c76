"""The Slices page: groups of captions, ordered by misses beyond the expected ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pandas as pd
import streamlit as st

from app import charts
from app.address import SLICE, put
from app.ask import InputError, Run, RunSummary, ask, ask_all, opened_run, slices, tuning
from app.choice import QUERIES, Choice, columns_of_slices, slice_table
from app.components import cards, downloads, links
from app.components.answers import recall_at
from app.components.controls import FIRST, MODALITIES, choose_one, pick, row
from app.components.refusals import attempt
from app.components.table import Column, Table, columns_of, rows_table
from app.components.theme import tone
from app.components.words import gain_cell

PICTURED = 12
ORDERS = {"misses": "Most missed", "lost": "Most lost", "gained": "Most gained"}
MOST_BUTTONS = 10  # kinds of slices; more are a list
PAGES = {"Misses of this slice": "retrieval", "Its diversity": "diversity", "On the map": "joint"}


def show(choice: Choice) -> None:
    """Draw a table of slices; a click makes one the slice of all pages."""
    runs = choice.runs
    controls = row()
    with controls:
        modality = choose_one("Queries", MODALITIES, "queries")
        at = int(choose_one("Hit within the first", FIRST, "slice-at", cards.tip("R@K")))

    counted = len(ask_all(slices.images_of_all, runs, choice.split))
    images = ask(Run.count, choice.first, choice.split, "image")
    if counted < images:
        cards.note(f"The table counts the queries of {counted:,} of {images:,} images, drawn at random.")

    table = slice_table(runs, choice.split, QUERIES[modality], at)
    if not len(table):
        cards.missing("No slice has enough queries", "it needs 20 in each half of the images")
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
    order = "misses"
    if len(runs) > 1:
        default = "lost" if _is_tuned_from(choice) else "misses"
        with controls:
            order = choose_one("Order", ORDERS, "slice-order", cards.tip("slice order"), default=default)

    overall = recall_at(replace(choice, slice=""), modality, at)
    last = len(runs) - 1
    if order == "misses":
        below = table[(table["excess"] > 0) & (table[f"recall_{last}"] < overall[runs[-1].name])]
        cards.answer(answer(below, runs, overall[runs[-1].name], at))
        first = below if kind == "all" and len(below) else table
    else:
        table = table.sort_values("lost", ascending=order == "gained", kind="stable")
        cards.answer(change_answer(table, runs, at))
        first = table

    pictured = first.head(PICTURED)
    label = f"R@{at}, %"
    names = [[f"{name}_{number}" for name in ("recall", "low", "high")] for number in range(len(runs))]
    recalls = {run.name: pictured[of_run].to_numpy() for run, of_run in zip(runs, names, strict=True)}
    figure = charts.slice_recalls(pictured["label"].tolist(), recalls, overall, label, tone())
    with _beside_blends(choice):
        downloads.chart(figure, "slice-recalls", "recall of the first slices")

    cards.note(
        "Dashed lines are the recall of all queries. Faint dots may be noise: their interval contains it."
    )
    beside = f" (beside {' and '.join(run.name for run in runs[:-1])})" if len(runs) > 1 else ""
    ordered = {"misses": f"the misses of {runs[-1].name}{beside}"}.get(order, f"what {runs[-1].name} {order}")
    cards.note(cards.HOW_TO_READ["slices judged"].format(order=ordered))
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


def change_answer(table: pd.DataFrame, runs: list[RunSummary], at: int) -> str:
    """Say where the last run loses most against the first, and where it gains most, beyond noise. `table`: slices in the
    order of what is lost or gained."""
    first = runs[0].name
    last = runs[-1].name
    by_loss = table.sort_values("lost", ascending=False, kind="stable")
    worse = by_loss[by_loss["gain_high"] < 0]
    better = by_loss[by_loss["gain_low"] > 0].iloc[::-1]
    parts = []
    for verb, other, found in (("loses", "worse", worse), ("gains", "better", better)):
        if len(found):
            row = found.iloc[0]
            change = gain_cell(row["gain"], row["gain_low"], row["gain_high"])
            others = f" and on {len(found) - 1} more" if len(found) > 1 else ""
            parts.append(f"{verb} R@{at} on {row['label']}, {change}{others}")
        else:
            parts.append(f"no slice is certainly {other}")
    return f"{last} against {first}: {'; '.join(parts)}"


def _is_tuned_from(choice: Choice) -> bool:
    """True if the first run is zero-shot, and the last one tuned its towers."""
    return ask(tuning.is_zero_shot, choice.first) and ask(tuning.is_tuned, choice.last)


@contextmanager
def _beside_blends(choice: Choice) -> Iterator[None]:
    """Draw what follows; beside it, for a run with tuned towers, R@sum of the weights between zero-shot and tuned."""
    if not ask(tuning.is_tuned, choice.last):
        yield
        return
    left, right = st.columns((3, 2), gap="large")
    with left:
        yield
    with right:
        _show_blends(choice)


def _show_blends(choice: Choice) -> None:
    run = choice.last
    cards.heading("Between zero-shot and tuned weights", cards.HOW_TO_READ["blends"].format(run=run.name))
    try:
        found = tuning.blends(opened_run(run), choice.split)
    except InputError as error:
        cards.empty("The stored blends are damaged; the command below replaces them.", str(error))
        found = pd.DataFrame()

    if len(found) > 1:
        best = found.iloc[int(found["rsum"].argmax())]
        of_tuned = found.iloc[int(found["alpha"].argmax())]
        figure = charts.blend_curve(found["alpha"].to_numpy(), found["rsum"].to_numpy(), tone())
        downloads.chart(figure, "blends", "R@sum between zero-shot and tuned weights")
        lead = best["rsum"] - of_tuned["rsum"]
        cards.note(
            f"Best at α = {best['alpha']:g}: R@sum {best['rsum']:.1f}, {lead:+.1f} over α = {of_tuned['alpha']:g}."
        )
        return

    cards.note("This command adds the curve:")
    st.code(ask(tuning.blend_command, run, choice.split), language=None, wrap_lines=True)


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
    shown = (
        number for number, text in expressions.items() if f" and {choice.slice}".endswith(f" and {text}")
    )
    current = next(shown, -1)
    ids = table.index.to_numpy()
    listed = Table(values, columns, key, "slices", ids, height=560)
    columns_of_all = columns_of_slices(choice.last, choice.split)

    def add(row: int) -> None:
        put(SLICE, slices.with_slice(choice.slice, expressions[row], columns_of_all))

    rows_table(listed, current, lambda row: attempt("The slice stays as it is.", add, row))


def _intervals(numbers: pd.DataFrame, form: str) -> list[str]:
    return [form.format(*ends) for ends in numbers.itertuples(index=False)]
