"""Queries whose true match loses, or wins, by a small margin."""

import numpy as np

from app import charts
from app.address import put_all
from app.ask import Run, ask, retrieval
from app.components import cards, downloads, events
from app.components.controls import choose_one, row
from app.components.samples import search_words
from app.components.theme import tone
from app.components.words import count
from app.views.retrieval.lists import Queries, Section


def near_misses(shown: Queries) -> Section:
    """Queries whose true match loses, or wins, by a small margin."""
    choice = shown.choice
    direction = shown.direction
    last = choice.last
    samples = choice.ask_each(Run.sample)
    tables = {}
    for run in choice.runs:
        table = ask(retrieval.margins, run, choice.split, direction, sample=samples[run.name])
        tables[run.name] = table[choice.inside(shown.modality, table["query"])]
    table = tables[last.name].copy(deep=False)
    beside = {name: f"margin {name}" for name in list(tables)[:-1] if len(tables[name]) == len(table)}
    for name, column in beside.items():
        table[column] = tables[name]["margin"]
    margins = {name: values["margin"].to_numpy() for name, values in tables.items()}
    figure = charts.margin_histogram(margins, tone())

    def draw_list() -> np.ndarray:
        cards.heading("Smallest margins")
        with row():
            sides = {"lost": "Narrow misses", "held": "Narrow hits"}
            side = choose_one("Show", sides, "calls", cards.tip("margin"))
            words = search_words("words")
        queries = table[(table["rank"] > 1).to_numpy() == (side == "lost")]
        queries = queries.iloc[np.argsort(queries["margin"].abs().to_numpy(), kind="stable")]
        columns = shown.columns("margin", "+.4f", {last.name: "margin"})
        columns |= shown.columns("rank", ",d", {last.name: "rank"})
        columns |= shown.columns("margin", "+.4f", beside)
        return shown.table(queries, columns, words, shown.file("margins", side))

    def draw_figures() -> None:
        cards.heading("Margins of the true matches", last=last.name)
        downloads.chart(figure, "margins", "margins of the matches")
        sample = samples[last.name]
        if sample is not None:
            queries = sample.texts if direction == "t2i" else sample.images
            drawn = count(len(queries), "random query", "random queries")
            cards.note(f"{drawn} of the split are shown; their candidates are the whole split.")

    def open_margin(bar: tuple[int, int]) -> None:
        distance = (table["margin"] - float(figure.data[bar[0]].x[bar[1]])).abs().to_numpy()
        nearest = table.iloc[int(np.nanargmin(distance))]
        side = "lost" if nearest["rank"] > 1 else "held"
        number = int(nearest["query"])
        put_all({"calls": side, "words": "", f"query-{shown.modality}": number})

    bins = len(figure.data[0].x) if len(figure.data) else 0
    events.on_cell(["margins"], (len(figure.data), bins), open_margin)
    return Section(draw_list, draw_figures)
