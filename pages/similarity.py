"""Similarity page: the matrix before and after diversity scaling."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pandas as pd
import streamlit as st

from app import questions
from app.ask import Direction, InputError, Run, RunSummary, ask, similarity
from app.choice import QUERIES, Choice, bound, bound_number, put
from app.components import cards, downloads, events
from app.components.controls import MODALITIES, choose_one
from app.components.glossary import tip
from app.frame import sidebar
from app.views import similarity as loss_values
from app.views.similarity import draw_matrices, pair_steps, show_pair, show_steps

Source = Literal["seed", "chosen", "hardest", "split"]
Order = Literal["diversity", "cluster", "drawn"]
MEASURES: dict[Literal["std", "entropy"], str] = {"std": "SD", "entropy": "Entropy"}
SOURCES: dict[Source, str] = {
    "seed": "Random",
    "hardest": "Hardest",
    "chosen": "Selection",
    "split": "Whole split",
}
ORDERS: dict[Order, str] = {"diversity": "Diversity", "cluster": "Cluster", "drawn": "As drawn"}
PAIRS, MOST_PAIRS, CHARACTERS = 64, 4096, 500
SHARES = (8, 3)  # of the width: the matrices, and the pair beside them


def described(choice: Choice) -> str:
    """Source of the values of the sliders, run by run."""
    parts, with_concepts = [], []
    for run in choice.runs:
        opened = run
        loss = ask(questions.loss_of, run)
        if run.imported:
            parts.append(loss_values.own_values_in_words(run, choice.split, starts=run is choice.last))
        elif loss.trained:
            values = f"μ = {loss.temperature:g}, γ = {loss.gamma:g}, ε = {loss.epsilon:g}"
            parts.append(f"{run.name} was trained with {values}.")
        else:
            parts.append(f"{run.name} did not use eq. 4 (sliders start at the paper’s values).")
        if ask(Run.analysis, opened, choice.split).concepts is not None:
            with_concepts.append(run.name)
    if with_concepts:
        names = " and ".join(with_concepts)
        parts.append(f"S is that of the instance branch, which eq. 4 uses; {names} also ranks by concepts.")
    return " ".join(parts)


def settings(choice: Choice) -> questions.MatrixSettings:
    """The controls of the page."""
    last = choice.last
    loss = ask(questions.starting_loss, last, choice.split)
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        rows = choose_one("Anchors", MODALITIES, "anchors", tip("anchor"))
        source = choose_one("Samples", SOURCES, "batch-of", tip("matrix batch"))
        order = choose_one("Order", ORDERS, "order", tip("matrix order"))
    with st.container(horizontal=True, vertical_alignment="top", gap="medium"):
        size, seed, chosen = PAIRS, 0, ""
        if source != "split":
            size = int(st.number_input("Pairs", 2, MOST_PAIRS, PAIRS, **bound_number("pairs"), width=100))
        if source in ("seed", "split"):
            seed = int(st.number_input("Seed", 0, 9999, 0, **bound_number("draw"), width=90))
        if source == "chosen":
            example = "0-31, 77 or words"
            text = st.text_input(
                "Captions", max_chars=CHARACTERS, placeholder=example, **bound("chosen"), width=230
            )
            chosen = str(text or "")
        mu = loss_values.slider("μ", "mu", 0.005, 0.5, 0.005, loss.temperature, 130)
        gamma = loss_values.slider("γ", "gamma", -1.0, 1.0, 0.005, loss.gamma, 130)
        epsilon = loss_values.slider("ε", "epsilon", 0.01, 1.0, 0.01, loss.epsilon, 130)
        measure = choose_one("Measure", MEASURES, "spread", f"{tip('SD')} {tip('entropy')}")
    if last.imported:
        loss_values.offer_paper_values(last, loss, mu, gamma)
    cards.note(described(choice))
    values = replace(loss, temperature=mu, gamma=gamma, epsilon=epsilon, function=measure)
    direction = QUERIES[rows]
    within = choice.captions
    return questions.MatrixSettings(
        choice.split, source, size, seed, chosen, order, direction, values, within
    )


def choose_pair(
    choice: Choice,
    batch: similarity.MatrixSamples,
    scaled: dict[str, similarity.Scaled],
    chosen: questions.MatrixSettings,
) -> tuple[int, int]:
    """The pair to show, as its cell in the batch; for a pair outside the batch the hardest negative."""
    last = choice.last
    hardest = ask(questions.hardest_negative, last, chosen, batch, scaled[last.name])
    run = last
    counts = ask(Run.count, run, choice.split, "image"), ask(Run.count, run, choice.split, "text")
    cards.heading(
        "One pair", "Click on a cell to open it here; for a block, its most similar negative opens."
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        image, text = (
            int(st.number_input(label, 0, count - 1, start, **bound_number(key), width=100))
            for label, count, start, key in zip(
                ("Image", "Caption"), counts, hardest, ("pair-image", "pair-caption"), strict=True
            )
        )
    cell = similarity.positions(batch, chosen.direction, image, text)
    if cell is None:
        cards.note(
            f"Image {image} with caption {text} is not in this batch. The hardest negative is shown instead."
        )
        cell = similarity.positions(batch, chosen.direction, *hardest)
    assert cell is not None
    return cell


def matrix_of(
    run: RunSummary, settings: questions.MatrixSettings, batch: similarity.MatrixSamples
) -> similarity.Scaled:
    """A run's matrix over a batch, which the last run chose and ordered."""
    spread = ask(questions.matrix_spread, run, settings.without_sliders(), batch)
    return ask(
        similarity.scaled_matrix, run, settings.split, batch, settings.direction, settings.loss, spread=spread
    )


def matrices_table(
    scaled: dict[str, similarity.Scaled], batch: similarity.MatrixSamples, direction: Direction
) -> pd.DataFrame:
    """All cells of all runs, with the run's name in front."""
    tables = {name: similarity.matrix_table(one, batch, direction) for name, one in scaled.items()}
    return pd.concat(tables, names=["run"]).reset_index(level="run").reset_index(drop=True)


def show(choice: Choice) -> None:
    chosen, last = settings(choice), choice.last
    try:
        batch = ask(questions.matrix_batch, last, chosen.without_sliders())
    except InputError as error:
        cards.empty("There is no batch to show.", str(error))
        return
    scaled = {run.name: matrix_of(run, chosen, batch) for run in choice.runs}
    shown = scaled[last.name]
    rows, columns = shown.row_step, shown.column_step
    block = f" Every cell is the mean of {rows:,} × {columns:,} pairs." if rows * columns > 1 else ""
    over = " Diversity is computed over the negatives shown."
    if choice.slice:
        over = (
            " Diversity is computed over the negatives shown, relative to the most diverse anchor shown; a training "
            "batch draws both from all pairs."
        )
    cards.note(f"{batch.about[0].upper()}{batch.about[1:]}.{block}{over}")
    matrices, panel = st.columns(SHARES, gap="medium")
    with panel, st.container(key="pair-panel"):
        cell = choose_pair(choice, batch, scaled, chosen)
        steps = pair_steps(choice, batch, scaled, chosen, cell)
        show_pair(choice, batch, chosen, cell, steps)
    with matrices:
        captions = ask(Run.captions, last, choice.split)
        keys = draw_matrices(scaled, batch, chosen, (cell[0] // rows, cell[1] // columns), captions)

    def open_pair(clicked: tuple[int, int]) -> None:
        image, text = ask(questions.pair_at, last, chosen, batch, shown, clicked)
        put("pair-image", image)
        put("pair-caption", text)

    events.on_cell(keys, (shown.similarity.shape[0], shown.similarity.shape[1]), open_pair)
    cards.heading(
        "The same pair, step by step", "How every number of the pair follows from the ones above it."
    )
    show_steps(steps)
    cards.heading("Table of all cells")
    downloads.table(matrices_table(scaled, batch, chosen.direction), f"similarity-{choice.split}")


sidebar.page(
    "What does diversity scaling do to the matrix?",
    "Each row is an anchor, each column a candidate. Compare a row before and after: scaling spreads the candidates of "
    "an ambiguous anchor further apart.",
    show,
    of_two=True,
)
