"""Sections of the Diversity page: distributions, the two measures, changes between runs, the ranked table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.ask import Loss, Modality, Run, RunSummary, ask, diversity, retrieval
from app.choice import OTHER, Choice, bound, theme
from app.components import cards, downloads, links
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.selection import largest_change, recall_by_tenth
from app.components.table import Column, plain_table
from app.components.words import correlation
from app.views.heat_maps import Pairs, candidate_pairs, show_heat_maps
from app.views.queries import review_menu
from app.views.samples import NO_WORDS, holding, of_run, sample_card, sample_table, search_words, show_sample

NEAREST = 10
MOST_ACROSS = 3  # runs beside one another
RECALL_AT = 10
MEASURES = {"diversity": "Diversity", "SD": "Standard deviation", "entropy": "Entropy"}
NUMBERS = {
    "diversity": (".4f", "diversity"),
    "SD": (".4f", "SD"),
    "entropy": (".4f", "entropy"),
    "rank": (",d", "rank"),
}
Tables = Mapping[str, pd.DataFrame]


def distributions(tables: Tables, unit: str) -> None:
    """Histogram of the diversities, and recall by diversity."""
    colours = charts.tone(theme())
    left, right = st.columns([3, 2], gap="large")
    with left:
        cards.heading(
            "How diverse are the anchors?", "Further left is more ambiguous. Dashed lines are medians."
        )
        measure = choose_one("Histogram of", MEASURES, "shown", tip("raw"))
        values = {name: table[measure].to_numpy() for name, table in tables.items()}
        label = MEASURES[measure].lower()
        downloads.chart(charts.histogram(values, label, unit, colours), "histogram", f"{label} histogram")
    with right:
        correlations = " · ".join(
            f"{name} {correlation(retrieval.rank_correlation(table['diversity'], table['rank']))}"
            for name, table in tables.items()
        )
        cards.heading(
            "Does ambiguity cost recall?",
            "A rising line: ambiguous anchors are missed more often. Spearman’s ρ of diversity and rank (below 0: "
            f"ambiguous anchors rank worse): {correlations}.",
        )
        recalls = {}
        for name, table in tables.items():
            ranked = table[table["rank"].notna()]
            recalls[name] = recall_by_tenth(
                ranked["diversity"].to_numpy(), ranked["rank"].to_numpy() - 1, RECALL_AT
            )
        downloads.chart(
            charts.recall_by_diversity(recalls, RECALL_AT, colours), "tenths", "recall by diversity"
        )


def two_measures(name: str, table: pd.DataFrame, unit: str) -> None:
    """Standard deviation against entropy; they rank in opposite order."""
    rho = retrieval.rank_correlation(table["SD"], table["entropy"])
    cards.heading(
        "Standard deviation and entropy",
        f"Spearman’s ρ of the two is {correlation(rho)} in {name}; below 0 they rank in opposite orders: an ambiguous "
        "anchor has a small standard deviation and a large entropy. CODER applies eq. 3 to both alike, so by entropy "
        "ambiguous anchors count as diverse.",
    )
    figure = charts.density(
        table["SD"].to_numpy(),
        table["entropy"].to_numpy(),
        "standard deviation",
        "entropy, bits",
        unit,
        charts.tone(theme()),
    )
    downloads.chart(figure, "measures", "standard deviation and entropy")


def percentile_changes(choice: Choice, changes: pd.DataFrame, unit: str) -> None:
    """The same anchors in both runs."""
    assert choice.second is not None
    rho = retrieval.rank_correlation(changes["place_a"], changes["place_b"])
    first, second = (set(changes.index[changes[column] <= 10]) for column in ("place_a", "place_b"))
    overlap = 100 * len(first & second) / max(len(first), 1)
    cards.heading(
        f"Diversity in {'the first and the last run' if choice.between else 'the two runs'}",
        "An anchor’s percentile is the percentage of anchors that are more ambiguous. Below the dotted line it is more "
        f"ambiguous in {choice.second.name} than in {choice.first.name}. Spearman’s ρ of the two orders is "
        f"{correlation(rho)}; {overlap:.0f} % of the most ambiguous tenth are the same.",
    )
    figure = charts.density(
        changes["place_a"].to_numpy(),
        changes["place_b"].to_numpy(),
        f"percentile in {charts.plain(choice.first.name)}",
        f"percentile in {charts.plain(choice.second.name)}",
        unit,
        charts.tone(theme()),
        diagonal=True,
    )
    downloads.chart(figure, "changes", "percentiles in both runs")


def ranked_anchors(
    choice: Choice, tables: Tables, changes: pd.DataFrame | None, modality: Modality, target: str
) -> np.ndarray:
    """The ranked table; returns the order of all anchors in it."""
    last = choice.last
    unit = "captions" if modality == "text" else "images"
    cards.heading(f"The most ambiguous {unit}", "Click on a row to open the anchor below.")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        orders = {
            "second": f"Lowest in {last.name}",
            "first": f"Lowest in {choice.first.name}",
            "fell": "Largest decrease",
            "rose": "Largest increase",
        }
        by = choose_one("Rank by", orders, "ranked", tip("change")) if changes is not None else "second"
        words = search_words("words")
        count_fits = modality == "text" and st.toggle(
            "Images it fits", False, help=tip("fits"), **bound("fits")
        )
    table = tables[last.name]
    fits = (
        ask(retrieval.fitting_images, last, choice.split, ask(Run.sample, last, choice.split))
        if count_fits
        else None
    )
    if fits is not None:
        sample = ask(Run.sample, last, choice.split)
        fits = fits[np.isin(np.arange(len(fits)) if sample is None else sample.texts, table["anchor"])]
    if count_fits:
        cards.note(_agreement(tables, fits))
    order = {
        "second": lambda: np.argsort(table["diversity"].to_numpy(), kind="stable"),
        "first": lambda: np.argsort(tables[choice.first.name]["diversity"].to_numpy(), kind="stable"),
        "fell": lambda: largest_change(changes, -1),
        "rose": lambda: largest_change(changes, 1),
    }[by]()
    anchors = table["anchor"].to_numpy()
    order = order[holding(choice, modality, anchors[order], words)]
    if not len(order):
        cards.empty(*NO_WORDS)
        return order
    values, columns = _numbers(choice, tables, changes)
    if fits is not None:
        values["images it fits"] = fits
        columns["images it fits"] = Column("images it fits", ",d", "fits")
    return sample_table(
        choice,
        modality,
        anchors[order],
        values.iloc[order],
        columns,
        target=target,
        key=f"table-{modality}",
        file=f"diversity-{choice.split}-{unit}",
    )


def _agreement(tables: Tables, fits: np.ndarray | None) -> str:
    """Correlation of low diversity and fitting many images, in words."""
    if fits is None:
        return "These captions share hardly any words, so the other images that each would fit are unknown."
    counts = pd.Series(fits)
    correlations = " · ".join(
        f"{name} {correlation(retrieval.rank_correlation(table['diversity'], counts))}"
        for name, table in tables.items()
    )
    return (
        "Images it fits: other images with a caption like this one, by the captions alone. Spearman’s ρ with diversity "
        f"(below 0: a caption that fits many images has low diversity): {correlations}."
    )


def _numbers(
    choice: Choice, tables: Tables, changes: pd.DataFrame | None
) -> tuple[pd.DataFrame, dict[str, Column]]:
    """Every number of every anchor, each run's under its name, and how they are shown."""
    values, columns = {}, {}
    for run in (choice.last, *choice.runs[:-1]):
        table = tables[run.name]
        for name, (digits, term) in NUMBERS.items():
            if name in table and (
                run is choice.last or name == "diversity" or (name == "rank" and not choice.between)
            ):
                values[f"{name} {run.name}"] = table[name]
                columns[f"{name} {run.name}"] = Column(of_run(choice, name, run), digits, term)
    if changes is not None:
        values["change"] = changes["change"]
        columns["change"] = Column("change of percentile", "+.1f", "change")
    return pd.DataFrame(values), columns


def show_anchor(choice: Choice, number: int, settings: dict[str, Any], loss: Loss) -> None:
    """Draw it for every chosen run, side by side, of more than three in two rows; `loss` holds the μ, γ and ε of the
    sliders."""
    modality: Modality = settings["modality"]
    sample = ask(Run.sample, choice.last, choice.split)
    show_sample(choice, modality, number, here="diversity")
    nearest: dict[str, list[int]] = {}
    colours = charts.tone(theme())
    runs = choice.runs
    anchors = {
        run.name: ask(Run.anchor, run, number, split=choice.split, loss=loss, sample=sample, **settings)
        for run in runs
    }
    if choice.between:
        _table(anchors, str(settings["function"]))
    across = len(runs) if len(runs) <= MOST_ACROSS else (len(runs) + 1) // 2
    columns = [column for _ in range(0, len(runs), across) for column in st.columns(across, gap="small")]
    for position, (run, column) in enumerate(zip(runs, columns, strict=False)):
        anchor = anchors[run.name]
        with column:
            cards.label(run.name)
            if not choice.between:
                _anchor_numbers(anchor, str(settings["function"]))
            parts = st.columns(2) if choice.second is None else [st.container(), st.container()]
            with parts[0]:
                figure = charts.similarity_histogram(
                    anchor.similarities, anchor.positives, loss.gamma, run.name, position, len(runs), colours
                )
                downloads.chart(
                    figure, f"similarities-{position}", f"similarities to the negatives {position + 1}"
                )
            with parts[1]:
                figure = charts.negative_weights(anchor.nearest(NEAREST), colours)
                downloads.chart(
                    figure, f"weights-{position}", f"weights of the nearest negatives {position + 1}"
                )
            _nearest(choice, run, anchor, number)
        nearest[run.name] = anchor.nearest(NEAREST)["candidate"].tolist()

    def pairs(run: RunSummary) -> Pairs:
        return candidate_pairs(choice, run, modality, number, nearest[run.name], own="Own match")

    show_heat_maps(choice, "Negative", pairs)


def _anchor_numbers(anchor: diversity.Anchor, function: str) -> None:
    spread = "SD" if function == "std" else "entropy"
    cards.metrics(
        [
            cards.Metric(spread, f"{anchor.spread:.4f}", f"n = {len(anchor.similarities):,}", spread),
            cards.Metric("undivided", f"{anchor.raw:.4f}", "1 to 2", "raw"),
            cards.Metric("diversity", f"{anchor.diversity:.4f}", "0.5 to 1", "diversity"),
            cards.Metric(
                "μ·div", f"{anchor.temperature:.4f}", f"μ = {anchor.loss.temperature:g}", "temperature"
            ),
        ],
        compact=True,
    )


def _table(anchors: Mapping[str, diversity.Anchor], function: str) -> None:
    """The values of `_anchor_numbers`, one row per run."""
    spread = "SD" if function == "std" else "entropy"
    columns = {
        "run": Column("run"),
        "spread": Column(spread, ".4f", spread),
        "raw": Column("undivided", ".4f", "raw"),
        "diversity": Column("diversity", ".4f", "diversity"),
        "temperature": Column("μ·div", ".4f", "temperature"),
    }
    rows = [
        {"run": name, **{key: getattr(anchor, key) for key in list(columns)[1:]}}
        for name, anchor in anchors.items()
    ]
    plain_table(pd.DataFrame(rows), columns, "anchor", "runs")


def _nearest(choice: Choice, run: RunSummary, anchor: diversity.Anchor, number: int) -> None:
    other = OTHER[anchor.modality]
    items = []
    for place, row in enumerate(anchor.nearest(NEAREST).to_dict("records"), start=1):
        candidate = int(row["candidate"])
        weights = (f"{_percent(row['weight_plain'])} → {_percent(row['weight_diversity'])} %",)
        pages = (("diversity", links.diversity(choice, other, candidate)),)
        items.append(
            sample_card(
                run,
                choice.split,
                other,
                candidate,
                place,
                row["similarity"],
                notes=weights,
                links=pages,
                pictured=other == "image",
                review=review_menu(choice, anchor.modality, number, candidate),
            )
        )
    cards.note("Nearest negatives: rank, similarity, share of the loss without → with diversity.")
    cards.results(items)


def _percent(share: float) -> str:
    """A share as percent with two significant digits."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
