"""What does diversity scaling do to the matrix?"""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.backend import runs as backend
from app.backend import similarity as matrices
from app.backend.similarity import Batch, Direction, Measure, Scaled, Settings
from app.ui import cards, clicks, downloads, sidebar
from app.ui.controls import choose_one
from app.ui.glossary import tip
from app.ui.state import Choice, bound, bound_number, put
from app.views.matrix import draw_matrices
from app.views.pair import show_pair

SOURCES = {"seed": "At random", "hardest": "Hardest", "chosen": "My selection", "split": "Whole split"}
ORDERS = {"diversity": "Diversity", "cluster": "Cluster", "drawn": "As drawn"}
PAIRS, MOST_PAIRS, CHARACTERS = 64, 4096, 500


def used(choice: Choice) -> str:
    """What training used, of every chosen run."""
    parts = []
    for run in choice.runs:
        loss = backend.open_summary(run).loss
        values = f"μ = {loss.temperature:g}, γ = {loss.gamma:g}, ε = {loss.epsilon:g}"
        parts.append(
            f"{run.name} was trained with {values}"
            if loss.trained
            else f"{run.name} without eq. 4 (start: the paper’s values)"
        )
    both = [run.name for run in choice.runs if backend.open_summary(run).analysis(choice.split).concepts is not None]
    branch = f" S is the instance branch’s, to which eq. 4 is applied; retrieval mixes in concepts ({', '.join(both)})."
    return f"{'; '.join(parts)}.{branch if both else ''}"


def settings(choice: Choice) -> Settings:
    """The controls of the page."""
    loss = backend.open_summary(choice.runs[-1]).loss
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        rows = choose_one("Anchors", {"text": "Captions", "image": "Images"}, "anchors", tip("anchor"))
        source = choose_one("Batch", SOURCES, "batch-of", tip("matrix batch"))
        order = choose_one("Order", ORDERS, "order", tip("matrix order"))
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        size, seed, chosen = PAIRS, 0, ""
        if source != "split":
            size = int(st.number_input("Pairs", 2, MOST_PAIRS, PAIRS, **bound_number("pairs"), width=100))
        if source in ("seed", "split"):
            seed = int(st.number_input("Seed", 0, 9999, 0, **bound_number("draw"), width=90))
        if source == "chosen":
            chosen = str(
                st.text_input(
                    "Captions", max_chars=CHARACTERS, placeholder="0-31, 77 or words", **bound("chosen"), width=230
                )
                or ""
            )
        mu, gamma, epsilon = (
            float(st.slider(symbol, low, high, float(min(max(start, low), high)), step, help=tip(term), width=130,
                            **bound_number(term)))
            for symbol, term, low, high, step, start in (
                ("μ", "mu", 0.01, 0.5, 0.01, loss.temperature), ("γ", "gamma", -0.5, 1.0, 0.05, loss.gamma),
                ("ε", "epsilon", 0.01, 1.0, 0.01, loss.epsilon),
            )
        )  # fmt: skip
        measure = choose_one("Measure", {"std": "SD", "entropy": "Entropy"}, "spread", f"{tip('SD')} {tip('entropy')}")
        function: Measure = "entropy" if measure == "entropy" else "std"
    cards.note(used(choice))
    values = replace(loss, temperature=mu, gamma=gamma, epsilon=epsilon, function=function)
    direction: Direction = "i2t" if rows == "image" else "t2i"
    return Settings(choice.split, source, size, seed, chosen, order, direction, values)


def open_one(choice: Choice, batch: Batch, scaled: dict[str, Scaled], chosen: Settings) -> tuple[int, int]:
    """The pair that is opened, as its place in the batch; numbers that are not shown open the hardest negative."""
    last = choice.runs[-1]
    image, text = matrices.hardest(last, chosen, batch, scaled[last.name])
    run = backend.open_summary(last)
    counts = len(run.ranks(choice.split)["i2t"]), len(run.captions(choice.split))
    cards.heading(
        "One pair, every number", "A click on a cell opens it here; of a block, its most similar negative. "
        "The numbers are the rows of the samples in the split.",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = [
            int(st.number_input(label, 0, count - 1, start, **bound_number(key), width=150))
            for label, count, start, key in
            (("Image", counts[0], image, "pair-image"), ("Caption", counts[1], text, "pair-caption"))
        ]  # fmt: skip
    place = matrices.positions(batch, chosen.direction, *wanted)
    if place is None:
        cards.note(f"Image {wanted[0]} with caption {wanted[1]} is not in this batch; its hardest negative is opened.")
        place = matrices.positions(batch, chosen.direction, image, text)
    assert place is not None
    return place


def show(choice: Choice) -> None:
    chosen = settings(choice)
    last = choice.runs[-1]
    try:
        batch = matrices.batch_of(last, chosen)
    except backend.InputError as error:
        cards.empty("There is no batch to show.", str(error))
        return
    scaled = {run.name: matrices.matrix(run, last, chosen, batch) for run in choice.runs}
    found = scaled[last.name]
    block = f" Every cell is the mean of {found.row_step:,} × {found.column_step:,} pairs." if (
        found.row_step * found.column_step > 1) else ""  # fmt: skip
    cards.note(f"{batch.about[0].upper()}{batch.about[1:]}.{block} Diversity is taken over the negatives shown.")
    pictures = st.container()
    place = open_one(choice, batch, scaled, chosen)
    show_pair(choice, batch, scaled, chosen, place)
    marked = (place[0] // found.row_step, place[1] // found.column_step)
    with pictures:
        keys = draw_matrices(scaled, batch, chosen, marked)

    def picked(value: object) -> None:
        cell = clicks.clicked_cell(value, found.similarity.shape)
        if cell is not None:
            image, text = matrices.pair_at(last, chosen, batch, found, cell)
            put("pair-image", image)
            put("pair-caption", text)

    clicks.on_cell(keys, "matrix-clicks", picked)
    cards.heading("The numbers behind the pictures")
    downloads.table(matrices.table(scaled, batch, chosen), f"similarity-{choice.split}")


choice = sidebar.choose()
cards.question(
    "What does diversity scaling do to the matrix?",
    "Each row is an anchor, each column a candidate. Compare a row before and after: where the row is ambiguous, "
    "scaling pulls its candidates further apart.",
)
sidebar.answer(choice, show)
