"""Hubs of a split, the queries that retrieve them wrongly, and the queries that a correction of scores fixes."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from app import charts, questions
from app.address import put
from app.ask import Modality, Run, opened_run, retrieval
from app.choice import OTHER
from app.components import cards, downloads, events
from app.components.controls import FIRST, choose_one, whole_number
from app.components.samples import SampleList, name_of, sample_table, search_words, show_sample
from app.components.table import Column, columns_of, plain_table
from app.components.theme import tone
from app.components.words import count
from app.views.retrieval.lists import Queries, Section

HUBNESS = columns_of("hubness")
CORRECTED = columns_of("corrected ranks")
Tables = Mapping[str, pd.DataFrame]  # run → occurrences of every candidate


def hubs_of_runs(shown: Queries) -> Section:
    """Candidates that rank high for too many queries, and the queries that retrieve them wrongly."""
    choice = shown.choice
    kind = OTHER[shown.modality]
    target = "hub-image" if kind == "image" else "hub-caption"
    k = int(choose_one("Among the first", dict(reversed(FIRST.items())), "k", cards.tip("occurrences")))
    tables = choice.ask_each(
        retrieval.occurrences, shown.direction, k=k, queries=choice.samples(shown.modality)
    )

    def draw_list() -> np.ndarray:
        cards.heading("Largest hubs", last=choice.last.name)
        hub = _hub_table(shown, kind, target, tables, k)
        return _queries(shown, k, kind, hub)

    def draw_figures() -> None:
        counts = {name: table["count"].to_numpy() for name, table in tables.items()}
        rows = [
            {"run": name, "largest": n.max(), **vars(retrieval.hubness(n, k))} for name, n in counts.items()
        ]
        plain_table(pd.DataFrame(rows), HUBNESS, "hubness", "runs")
        cards.heading("Distribution of k-occurrences", last=choice.last.name)
        downloads.chart(charts.occurrence_bands(counts, k, tone()), "hubs", "occurrences of candidates")

    return Section(draw_list, draw_figures)


def _queries(shown: Queries, k: int, kind: Modality, hub: int) -> np.ndarray:
    """Draw the queries that retrieve the hub wrongly, or those that the correction changes; return their order."""
    choice = shown.choice
    direction = shown.direction
    correction = retrieval.stored_correction(opened_run(choice.last), choice.split)
    if correction.value is not None:
        sources = {"hub": "Of this hub", "fixed": "Fixed by hub correction", "broken": "Broken by it"}
        source = choose_one("Queries", sources, "hub-queries", cards.tip("hub correction"))
        if source != "hub":
            return _corrected(shown, k, correction.value, source)
    elif correction.fault:
        cards.empty("The stored hub correction is damaged.", correction.fault)

    queries = choice.ask(retrieval.found_by, direction, hub, k=k)
    queries = queries[choice.inside(shown.modality, queries["query"])]
    wrong = queries[~queries["match"]].drop(columns="match")
    numbers = {"queries": count(len(queries), "query", "queries"), "k": k, "wrong": len(wrong)}
    how = cards.HOW_TO_READ["queries of a hub"].format(**numbers)
    cards.heading(f"Queries that wrongly retrieve {name_of(kind, hub)}", how)
    fact = f"No query ranks it above its true match within the first {k}."
    file = f"hub-{kind}-{hub}-{choice.split}-{direction}-{k}"
    columns = {"place": Column("rank of the hub", ",d", "hub rank")}
    return shown.table(wrong, columns, search_words("words"), file, fact=fact, height=330)


def _hub_table(shown: Queries, kind: Modality, target: str, tables: Tables, k: int) -> int:
    """Draw the hubs as pictures or captions, largest first; return the chosen one. A bar of the figure opens one."""
    choice = shown.choice
    beside = {name: f"count {name}" for name in list(tables)[:-1]}
    table = tables[choice.last.name].assign(**{key: tables[name]["count"] for name, key in beside.items()})
    table = table.iloc[np.argsort(-table["count"].to_numpy(), kind="stable")]

    def open_band(bar: tuple[int, int]) -> None:
        band = table[charts.occurrence_band(table["count"].to_numpy()) == bar[1]]
        if len(band):
            put(target, int(band["candidate"].iloc[0]))

    events.on_cell(["hubs"], (len(tables), len(charts.OCCURRENCE_LABELS)), open_band)
    columns = shown.columns("queries", ",d", {choice.last.name: "count"}, "occurrences")
    columns["wrong"] = Column("of them wrongly", ",d", "hub")
    columns |= shown.columns("queries", ",d", beside, "occurrences")
    numbers = table["candidate"].to_numpy()
    values = table.drop(columns="candidate")
    whole = replace(choice, slice="")  # a slice chooses the queries, not the hubs
    words = search_words(f"{target}-words")
    file = f"hubs-{choice.split}-{shown.direction}-{k}"
    listed = SampleList(kind, numbers, values, columns, words, target, file, height=360)
    order = sample_table(whole, listed)
    largest = int((order if len(order) else numbers)[0])
    hub = whole_number("Hub", (0, choice.ask(Run.count, kind) - 1), largest, target, 140)
    show_sample(choice, kind, hub, target, own=False)
    return hub


def _corrected(shown: Queries, k: int, correction: retrieval.HubCorrection, kind: str) -> np.ndarray:
    """Draw the queries whose match enters ("fixed") or leaves the first k with the correction for hubs."""
    choice = shown.choice
    direction = shown.direction
    name = shown.choice.last.name
    table = choice.ask(retrieval.corrected_queries, direction, correction, k)
    table = table[choice.inside(shown.modality, table["query"])]
    gained = int(table["fixed"].sum())
    corrected = {"i2t": correction.image_ranks, "t2i": correction.text_ranks}
    with_match = np.flatnonzero(corrected[direction] >= 0)
    with_match = with_match[choice.inside(shown.modality, with_match)]
    both = [ranks[with_match] < k for ranks in (choice.ask(Run.ranks)[direction], corrected[direction])]
    raw, after = (100 * float(hits.mean()) if len(hits) else float("nan") for hits in both)
    neighbours, alpha = correction.strengths[direction]
    numbers = {"alpha": alpha, "neighbours": neighbours, "gained": gained, "lost": len(table) - gained}
    how = cards.HOW_TO_READ["hub correction"].format(**numbers, chosen_on=correction.chosen_on)
    cards.heading(f"R@{k} {raw:.1f} % → {after:.1f} % with scores corrected for hubs", how)
    recall = f"{direction}_r{k}"
    row = f"{name} with the correction"
    cards.note(choice.ask(questions.gain_of_ranks, recall, corrected, row, choice.captions))
    queries = table[table["fixed"] == (kind == "fixed")].drop(columns="fixed")
    file = f"hub-correction-{kind}-{choice.split}-{direction}-{k}"
    return shown.table(queries, CORRECTED, search_words("words"), file, height=330)
