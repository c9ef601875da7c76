"""The Diversity page: distributions, the two measures, changes between runs, the ranked table, one anchor."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.address import bound, put
from app.ask import LossSettings, Modality, Run, RunSummary, ask, diversity, retrieval
from app.choice import OTHER, UNITS, Choice
from app.components import cards, downloads, loss_values, opened, samples
from app.components.controls import MODALITIES, advanced, button, choose_one, row, switch, whole_number
from app.components.heat_maps import Explained, show_heat_maps
from app.components.reviewing import review_menu
from app.components.run_names import run_label
from app.components.selection import recall_by_tenth
from app.components.table import Column, columns_of, plain_table
from app.components.theme import tone
from app.components.words import count, number
from app.components.workplace import BELOW_LIST, list_and_detail

NEAREST = 10
MOST_ACROSS = 2  # most runs beside each other
RECALL_AT = 10
RHO = "+.2f"  # format of a correlation
NORMAL_95 = 1.96  # half the width of a 95% interval, in standard errors
SATURATED = 0.001  # difference of all diversities, of 0.5
TEMPERATURES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # tried to find one that tells anchors apart
SAME_ORDER = 0.995  # correlation of measures that rank alike
SPREADS = {"std": "Standard deviation", "entropy": "Entropy"}
SYMBOLS = {"std": "SD", "entropy": "entropy"}
MEASURES = {"diversity": "Diversity", "SD": "Standard deviation", "entropy": "Entropy"}
TARGETS: dict[Modality, str] = {"text": "caption", "image": "image"}
CANDIDATES = {"split": "Whole split", "batch": "A batch", "bank": "A bank"}
NUMBERS = {"percentile": ".1f", "rank": ",d", "diversity": ".4f", "SD": ".4f", "entropy": ".4f"}
MEASURED = {"std": "diversity", "entropy": "entropy"}
ANCHOR = columns_of("anchor")
FIGURES = {"similarities": "Similarities to the negatives", "weights": "Weights of the nearest negatives"}
FIRST = 5  # negatives shown at first
Settings = dict[str, Any]  # arguments of Run.diversity
Tables = Mapping[str, pd.DataFrame]
Changes = pd.DataFrame | None  # between two runs


def show(choice: Choice) -> None:
    controls = row()
    with controls:
        settings, loss = choose_settings(choice)
    modality: Modality = settings["modality"]
    last = choice.last
    samples.note_sample(last, choice.split, "as anchors")
    tables = measured(choice, settings, loss.epsilon)
    warn_if_saturated(choice, settings, loss.epsilon, tables[last.name])
    unit = UNITS[modality]
    target = TARGETS[modality]
    changes = None
    if choice.second is not None:
        before = by_ambiguity(tables[choice.first.name])
        after = by_ambiguity(tables[choice.last.name])
        changes = retrieval.diversity_changes(before, after)
    inside = choice.inside(modality, tables[last.name]["anchor"])
    if not inside.any():
        fact = "The slice contains none of these anchors"
        cards.missing(fact, "clear it, or write another one in the sidebar")
        return
    tables = {name: table[inside].reset_index(drop=True) for name, table in tables.items()}
    changes = None if changes is None else changes[inside].reset_index(drop=True)
    cards.answer(answer(choice, tables[last.name], unit))
    by = "second"
    if changes is not None:
        orders = {
            "second": f"Most ambiguous in {last.name}",
            "first": f"Most ambiguous in {choice.first.name}",
            "fell": "More ambiguous than before",
            "rose": "Less ambiguous than before",
        }
        with controls:
            by = st.selectbox(
                "Rank by",
                list(orders),
                format_func=orders.__getitem__,
                width=280,
                help=cards.tip("change"),
                **bound("ranked"),
            )

    def draw_list() -> np.ndarray:
        order = ranked_anchors(choice, tables, changes, settings, by)
        with st.container(key=BELOW_LIST):
            samples.note_slice(choice, modality)
            distributions(tables, unit)
        return order

    def draw_detail(order: np.ndarray) -> None:
        if opened.among(target, order):
            cards.heading("One anchor in detail", detail=True)
            number = samples.step_samples(choice, modality, target, order)
            show_anchor(choice, number, settings, loss)

    list_and_detail(choice, draw_list, draw_detail)
    with st.expander("Both measures" if changes is None else "Both measures, and both runs"):
        parts = st.columns(2, gap="large")
        with parts[0]:
            two_measures(last.name, tables[last.name], unit)
        if changes is not None:
            with parts[1]:
                percentile_changes(choice, changes, unit)


def by_ambiguity(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with `order` as its spread, which is smallest for the most ambiguous anchor."""
    return table.assign(spread=table["order"])


def answer(choice: Choice, table: pd.DataFrame, unit: str) -> str:
    """Say whether the most ambiguous tenth of the anchors is missed more often than the least ambiguous one."""
    known = table.dropna(subset="rank")
    tenths = recall_by_tenth(known["order"].to_numpy(), known["rank"].to_numpy() - 1, RECALL_AT)
    if len(tenths) < 2:
        return f"{count(len(known), unit.removesuffix('s'))} with a rank cannot be divided by diversity"
    low, high = (tenths.iloc[end]["recall"] for end in (0, -1))
    numbers = f"{low:.0f}% of the most ambiguous tenth are hit within {RECALL_AT}, {high:.0f}% of the least"
    of = "" if choice.second is None else f" in {choice.last.name}"
    variances = [
        share * (100 - share) / count
        for share, count in tenths.iloc[[0, -1]][["recall", "anchors"]].to_numpy()
    ]
    noise = NORMAL_95 * float(np.sqrt(sum(variances)))
    if high - low > noise:
        return f"Ambiguous {unit} are missed more often{of}: {numbers}"
    if low - high > noise:
        return f"Here low diversity does not mean missed{of}: {numbers}"
    return f"No clear link between diversity and misses{of}: {numbers} (may be noise)"


def warn_if_saturated(choice: Choice, settings: Settings, epsilon: float, table: pd.DataFrame) -> None:
    """Say that the entropy does not tell the anchors apart at this temperature, and offer one that does."""
    if settings["function"] != "entropy" or np.ptp(table["diversity"].to_numpy()) > SATURATED:
        return
    sample = choice.ask(Run.sample)
    spreads = {}
    for tau in TEMPERATURES:
        at_tau = settings | {"temperature": tau}
        values = choice.ask(Run.diversity, epsilon=epsilon, sample=sample, **at_tau)["diversity"]
        spreads[tau] = float(values.std())
    best = max(spreads, key=spreads.__getitem__)
    digits = table["diversity"].round(4).iloc[0]
    with row("center"):
        cards.note(
            f"At τ = {settings['temperature']:g} the entropy of all anchors is nearly the same: every diversity is "
            f"about {digits:.4f}."
        )
        if spreads[best] > spreads.get(settings["temperature"], 0.0):
            button(f"Use τ = {best:g}", "useful-tau", "", partial(put, "tau", best))


def choose_settings(choice: Choice) -> tuple[Settings, LossSettings]:
    """Draw the controls: anchors and, under Advanced, measure, candidates, μ, γ, ε and τ; return their values."""
    last = choice.last
    settings: Settings = {}
    settings["modality"] = choose_one("Anchors", MODALITIES, "anchors", cards.tip("anchor"))
    with advanced():
        spread = f"{cards.tip('SD')} {cards.tip('entropy')}"
        settings["function"] = choose_one("Measure", SPREADS, "measure", spread)
        settings["candidates"] = choose_one("Candidates", CANDIDATES, "over", cards.tip("candidates"))
        if settings["candidates"] == "batch":
            size = last.config.get("training", {}).get("batch_size", 128)
            settings["batch_size"] = whole_number("Batch size", (2, 8192), size, "batch", 130)
        elif settings["candidates"] == "bank":
            size = last.config.get("memory", {}).get("bank_size", 0) or diversity.BANK_SIZE
            settings["bank_size"] = whole_number("Bank size", (1, 1 << 20), size, "bank", 130)
        if settings["candidates"] != "split":
            settings["seed"] = whole_number("Seed", (0, 9999), 0, "anchor-seed", 110)
        loss = loss_values.choose_loss(choice)
        tau = loss_values.Slider("τ of entropy", "tau", "entropy temperature", 0.01, 1.0, 0.01)
        settings["temperature"] = tau.draw(loss.entropy_temperature)
        choose_one("Histogram of", MEASURES, "shown", cards.tip("raw"))
        measure = SPREADS[settings["function"]]
        over = CANDIDATES[settings["candidates"]]
        values = loss_values.in_words(choice, loss)
        cards.note(f"Measure: {measure.lower()}. Candidates: {over.lower()}. {values}")
    return settings, loss


def measured(choice: Choice, settings: Settings, epsilon: float) -> dict[str, pd.DataFrame]:
    sample = choice.ask(Run.sample)
    tables = choice.ask_each(Run.diversity, epsilon=epsilon, sample=sample, **settings)
    for run in choice.runs:
        for function, name in SYMBOLS.items():
            if run is choice.last or name == st.session_state.get("shown"):
                of_spread = settings | {"function": function}
                tables[run.name][name] = ask(Run.spread, run, choice.split, sample=sample, **of_spread)
    # an ambiguous anchor has a small SD and a large entropy
    sign = 1 if settings["function"] == "std" else -1
    for name, table in tables.items():
        order = sign * table["spread"]
        percentile = 100 * (order.rank(method="average") - 1) / max(len(order) - 1, 1)
        tables[name] = table.assign(order=order, percentile=percentile)
    return tables


def distributions(tables: Tables, unit: str) -> None:
    measure = st.session_state["shown"]
    by_entropy = measure == "entropy" or (measure == "diversity" and st.session_state["measure"] == "entropy")
    cards.heading("Does ambiguity cost recall?", correlations=_correlations(tables, "rank"))
    recalls = {}
    for name, table in tables.items():
        order, ranks = table.dropna(subset="rank")[["order", "rank"]].to_numpy().T
        recalls[name] = recall_by_tenth(order, ranks - 1, RECALL_AT)
    figure = charts.recall_by_diversity(recalls, RECALL_AT, tone())
    downloads.chart(figure, "tenths", "recall by diversity")
    cards.heading("How diverse are the anchors?", side="right" if by_entropy else "left")
    values = {name: table[measure].to_numpy() for name, table in tables.items()}
    label = MEASURES[measure].lower()
    downloads.chart(charts.histogram(values, label, unit, tone()), "histogram", f"{label} histogram")


def _correlations(tables: Tables, column: str) -> str:
    rhos = {name: retrieval.rank_correlation(table["order"], table[column]) for name, table in tables.items()}
    return " · ".join(f"{name} {number(rho, '+.2f')}" for name, rho in rhos.items())


def two_measures(name: str, table: pd.DataFrame, unit: str) -> None:
    """Draw standard deviation against entropy, which rank in opposite order."""
    rho = retrieval.rank_correlation(table["SD"], table["entropy"])
    cards.heading("Standard deviation and entropy", correlation=number(rho, RHO), name=name)
    if abs(rho) > SAME_ORDER:
        order = "the same" if rho > 0 else "exactly opposite"
        cards.note(f"There is no figure: it would be a single line, because the two orders are {order}.")
        return
    deviation = table["SD"].to_numpy()
    entropy = table["entropy"].to_numpy()
    figure = charts.density(deviation, entropy, "standard deviation", "entropy, bits", unit, tone())
    downloads.chart(figure, "measures", "standard deviation and entropy")


def percentile_changes(choice: Choice, changes: pd.DataFrame, unit: str) -> None:
    first = choice.first.name
    second = choice.last.name
    rho = retrieval.rank_correlation(changes["place_a"], changes["place_b"])
    lowest = [set(changes.index[changes[column] <= 10]) for column in ("place_a", "place_b")]
    overlap = 100 * len(lowest[0] & lowest[1]) / max(len(lowest[0]), 1)
    texts = {"first": first, "second": second, "correlation": number(rho, RHO), "overlap": overlap}
    compared = "the first and the last run" if choice.between else "the two runs"
    cards.heading(f"Diversity in {compared}", cards.HOW_TO_READ["percentiles"].format(**texts))
    x, y = (f"percentile in {charts.plain(name)}" for name in (first, second))
    before = changes["place_a"].to_numpy()
    after = changes["place_b"].to_numpy()
    figure = charts.density(before, after, x, y, unit, tone(), diagonal=True)
    downloads.chart(figure, "changes", "percentiles in both runs")


def ranked_anchors(
    choice: Choice, tables: Tables, changes: Changes, settings: Settings, by: str
) -> np.ndarray:
    """Draw the table, ranked `by` one of `orders_of`; return the order of all anchors in it."""
    modality: Modality = settings["modality"]
    first = choice.first.name
    last = choice.last.name
    unit = UNITS[modality]
    with row():
        words = samples.search_words("anchor-words", width=155)
        count_fits = modality == "text" and switch("Plausible images", "fits", "fits")
    anchors = tables[last]["anchor"].to_numpy()
    values, columns = _numbers(choice, tables, changes)
    if count_fits and (fits := _fits(choice, tables, anchors)) is not None:
        values["plausible images"] = fits
        columns["plausible images"] = Column("plausible images", ",d", "fits")
    if changes is not None and by in ("fell", "rose"):
        order = np.argsort((1 if by == "fell" else -1) * changes["change"].to_numpy(), kind="stable")
    else:
        table = tables[last if by == "second" else first]
        order = np.argsort(table["order"].to_numpy(), kind="stable")
    ranked = samples.SampleList(
        modality,
        anchors[order],
        values.iloc[order],
        columns,
        words,
        target=TARGETS[modality],
        file=f"diversity-{choice.split}-{unit}",
        shown=_shown(choice, settings, by, list(columns)),
    )
    return samples.sample_table(choice, ranked)


def _shown(choice: Choice, settings: Settings, by: str, columns: list[str]) -> list[str]:
    """Return the columns for which a list of two runs has room: how ambiguous an anchor is, and its rank in both."""
    if choice.second is None or choice.between:
        return columns
    last = choice.last.name
    measure = "change" if by in ("fell", "rose") else f"{MEASURED[settings['function']]} {last}"
    ranks = [f"rank {run.name}" for run in choice.runs]
    return [f"percentile {last}", *ranks, measure, "plausible images"]


def _fits(choice: Choice, tables: Tables, anchors: np.ndarray) -> np.ndarray | None:
    """Return the number of images that each anchor would fit, by its words; print its correlation with diversity."""
    sample = choice.ask(Run.sample)
    fits = choice.ask(retrieval.count_fitting_images, sample)
    if fits is None:
        cards.note(samples.NO_COMMON_WORDS)
        return None
    fits = fits[np.isin(np.arange(len(fits)) if sample is None else sample.texts, anchors)]
    correlations = _correlations({name: table.assign(fits=fits) for name, table in tables.items()}, "fits")
    cards.note(cards.HOW_TO_READ["plausible images"].format(correlations=correlations))
    return fits


def _numbers(choice: Choice, tables: Tables, changes: Changes) -> tuple[pd.DataFrame, dict[str, Column]]:
    """Return all numbers of every anchor, with each run's under its name, and their columns in a table."""
    values = {}
    columns = {}
    of_others = {"diversity"} if choice.between else {"diversity", "rank"}
    for name, digits in NUMBERS.items():
        for run in (choice.last, *choice.runs[:-1]):
            if name in tables[run.name] and (run is choice.last or name in of_others):
                values[f"{name} {run.name}"] = tables[run.name][name]
                columns[f"{name} {run.name}"] = Column(samples.of_run(choice, name, run), digits, name)
    if changes is not None:
        values["change"] = changes["change"]
        columns["change"] = Column("change of percentile", "+.1f", "change")
    return pd.DataFrame(values), columns


def show_anchor(choice: Choice, number: int, settings: Settings, loss: LossSettings) -> None:
    """Draw an anchor in every chosen run, two beside each other, with the sliders' loss."""
    modality = settings["modality"]
    spread = SYMBOLS[settings["function"]]
    runs = choice.runs
    split = choice.split
    sample = choice.ask(Run.sample)
    of_anchor = {"split": split, "loss": loss, "sample": sample, **settings}
    anchors = {run.name: ask(Run.anchor, run, number, **of_anchor) for run in runs}
    rows = [{name: getattr(anchor, name) for name in list(ANCHOR)[1:]} for anchor in anchors.values()]
    columns = ANCHOR | {"spread": Column(spread, ".4f", spread)}
    plain_table(pd.DataFrame(rows).assign(run=list(anchors)), columns, "anchor", "runs")
    shown = choose_one("Figure", FIGURES, "anchor-figure")
    across = min(len(runs), MOST_ACROSS)
    columns_of_runs = [c for _ in range(0, len(runs), across) for c in st.columns(across, gap="small")]
    values = {name: (anchor.similarities, anchor.positives) for name, anchor in anchors.items()}
    if shown == "similarities":
        figures = charts.similarity_histograms(values, loss.gamma, tone())
    else:
        figures = charts.negative_weights([anchor.nearest(NEAREST) for anchor in anchors.values()], tone())
    for position, (run, column) in enumerate(zip(runs, columns_of_runs, strict=False)):
        with column:
            run_label(choice, run)
            downloads.chart(figures[position], f"{shown}-{position}", f"{FIGURES[shown]} {position + 1}")
    cards.note("Nearest negatives: rank, similarity, share of the loss without → with diversity.")
    for run in runs:
        run_label(choice, run)
        _nearest(choice, run, anchors[run.name], number)
    query: tuple[Modality, int] = (modality, number)
    explained = Explained(
        query, lambda run: anchors[run.name].nearest(NEAREST), "Negative", "Own match", "anchor-"
    )
    show_heat_maps(choice, explained)


def _nearest(choice: Choice, run: RunSummary, anchor: diversity.Anchor, number: int) -> None:
    other = OTHER[anchor.modality]
    items = []
    for rank, negative in enumerate(anchor.nearest(NEAREST).to_dict("records"), start=1):
        candidate = int(negative["candidate"])
        before, after = (_percent(negative[f"weight_{kind}"]) for kind in ("plain", "diversity"))
        placed = (rank, negative["similarity"])
        card = samples.sample_card(choice, run, (other, candidate), placed, pictured=other == "image")
        review = review_menu(choice, anchor.modality, number, candidate)
        items.append(replace(card, notes=(f"{before} → {after} %",), review=review))
    cards.results(items[:FIRST])
    with st.expander("More negatives"):
        cards.results(items[FIRST:])


def _percent(share: float) -> str:
    """Format a share as percent, with one decimal below 10 %."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.1f}"
