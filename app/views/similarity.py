"""The Similarity page: matrices before and after diversity scaling, and one pair with every number of eq. 3 and 4."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, questions
from app.address import bound
from app.ask import BOTH, InputError, Run, ask, similarity
from app.choice import QUERIES, Choice
from app.components import cards, downloads, events, loss_values, opened, reviewing
from app.components.controls import MODALITIES, advanced, choose_one, row, side_by_side, whole_number
from app.components.run_names import run_label
from app.components.samples import show_opened, similar_button
from app.components.table import Column, plain_table
from app.components.theme import tone
from app.components.words import count
from app.questions import MatrixSettings

MEASURES: dict[Literal["std", "entropy"], str] = {"std": "SD", "entropy": "Entropy"}
SOURCES: dict[similarity.BatchSource, str] = {"seed": "Random", "hardest": "Hardest", "chosen": "Selection"}
SOURCES |= {"split": "Whole split"}
ORDERS: dict[similarity.Order, str] = {"diversity": "Diversity", "cluster": "Cluster", "drawn": "As drawn"}
PAIRS = 64
MOST_PAIRS = 4096
CHARACTERS = 500
UNCHANGED = 1.001  # factor of an exponent
SHARES = (8, 3)  # of the width: the matrices, and the pair beside them
AXES = {"i2t": ("images", "captions"), "t2i": ("captions", "images")}
MATRICES = {"scaled": "Before and after", "change": "Difference", "share": "Negative probabilities"}
BETWEEN = {"between": "Between the runs"}
Cell = tuple[int, int]
Step = tuple[str, str, str]  # symbol, formula with numbers, value
_TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
STEPS = _TEXTS["steps"]
KINDS = _TEXTS["kinds"]
STEP_COLUMNS = {"symbol": Column("symbol"), "how": Column("formula")}
STEP_COLUMNS |= {"value": Column("value", right=True)}


@dataclass(frozen=True)
class Matrices:
    """The matrices of every run over one batch, chosen and ordered by the last run."""

    choice: Choice
    settings: MatrixSettings
    batch: similarity.MatrixSamples
    scaled: dict[str, similarity.Scaled]

    @property
    def last(self) -> similarity.Scaled:
        return self.scaled[self.choice.last.name]


def show(choice: Choice) -> None:
    settings, kind = choose_settings(choice)
    without_sliders = settings.without_sliders()
    try:
        batch = ask(questions.matrix_batch, choice.last, without_sliders)
    except InputError as error:
        fact = "There are not enough pairs for a matrix"
        cards.missing(fact, "choose at least 2 under Advanced", str(error))
        return
    scaled = {}
    for run in choice.runs:
        spread = ask(questions.matrix_spread, run, without_sliders, batch)
        scaled[run.name] = ask(questions.scaled_matrix, run, settings, batch, spread)
    shown = Matrices(choice, settings, batch, scaled)
    cards.answer(answer(shown))
    rows = shown.last.row_step
    columns = shown.last.column_step
    matrices, panel = st.columns(SHARES, gap="medium")
    with panel, st.container(key="pair-panel"):
        cell = choose_pair(shown)
        steps_of_runs = {}
        for run in choice.runs:
            pair = ask(questions.pair_numbers, run, settings, batch, scaled[run.name], cell)
            steps_of_runs[run.name] = steps(pair, settings.loss.function)
        show_pair(shown, cell, steps_of_runs)
    with matrices:
        keys = draw_matrices(shown, kind, (cell[0] // rows, cell[1] // columns))
        block = f" Every cell is the mean of {rows:,} × {columns:,} pairs." if rows * columns > 1 else ""
        most = ", relative to the most diverse anchor shown; in training both come from batches of all pairs"
        over = f" Diversity is computed over the negatives shown{most if choice.slice else ''}."
        cards.note(f"{batch.about[0].upper()}{batch.about[1:]}.{block}{over}")

    def open_pair(clicked: Cell) -> None:
        image, text = ask(questions.pair_at, choice.last, settings, batch, shown.last, clicked)
        st.session_state.update({"pair-image": image, "pair-caption": text})

    events.on_cell(keys, shown.last.similarity.shape, open_pair)
    show_opened(choice, st.container())
    cards.heading("The same pair, step by step")
    runs = {run.name: run for run in choice.runs}
    for name, rows_of_run in side_by_side(steps_of_runs.items()):
        run_label(choice, runs[name])
        frame = pd.DataFrame(rows_of_run, columns=["symbol", "how", "value"])
        plain_table(frame, STEP_COLUMNS, f"steps-{name}", "steps")
    cards.heading("Table of all cells")
    tables = [similarity.matrix_table(of_run, batch, settings.direction) for of_run in scaled.values()]
    cells = pd.concat(tables, keys=list(scaled), names=["run"]).reset_index(level="run")
    downloads.table(cells.reset_index(drop=True), f"similarity-{choice.split}")


def choose_settings(choice: Choice) -> tuple[MatrixSettings, str]:
    """Draw the controls in one row; return the settings and the kind of matrices."""
    kinds = MATRICES | BETWEEN if choice.second is not None else MATRICES
    size = PAIRS
    seed = 0
    chosen = ""
    with row():
        rows = choose_one("Anchors", MODALITIES, "scaling-anchors", cards.tip("anchor"))
        kind = choose_one("Matrices", kinds, "matrices")
        with advanced():
            source = choose_one("Samples", SOURCES, "batch-of", cards.tip("matrix batch"))
            if source == "chosen":
                example = "0-31, 77 or words"
                field = st.text_input(
                    "Captions", max_chars=CHARACTERS, placeholder=example, **bound("chosen")
                )
                chosen = str(field or "")
            order = choose_one("Order", ORDERS, "order", cards.tip("matrix order"))
            if source != "split":
                size = whole_number("Pairs", (2, MOST_PAIRS), PAIRS, "pairs", 100)
            if source in ("seed", "split"):
                seed = whole_number("Seed", (0, 9999), 0, "draw", 90)
            loss = loss_values.choose_loss(choice, "scaling-")
            measure = choose_one("Measure", MEASURES, "spread", f"{cards.tip('SD')} {cards.tip('entropy')}")
            names = [name for name, view in choice.ask_each(Run.concepts).items() if view is not None]
            joined = " and ".join(names)
            instance = cards.HOW_TO_READ["instance branch"].format(names=joined) if names else ""
            cards.note(loss_values.in_words(choice, loss) + instance)

    loss = replace(loss, function=measure)
    settings = MatrixSettings(
        choice.split, source, size, seed, chosen, order, QUERIES[rows], loss, choice.captions
    )
    return settings, kind


def answer(shown: Matrices) -> str:
    """Say by how much scaling sharpens the logits of the most ambiguous anchor, and of the median anchor."""
    factors = 1 / shown.last.spread.diversity.astype(np.float64)
    anchors, _ = AXES[shown.settings.direction]
    where = "Here" if shown.choice.second is None else f"In {shown.choice.last.name}"
    if factors.max() < UNCHANGED:
        return f"{where}, scaling changes nothing: all {anchors} shown have nearly the same diversity"
    return f"{where}, scaling multiplies exponents by up to {factors.max():.2f} (median {np.median(factors):.2f})"


def choose_pair(shown: Matrices) -> Cell:
    """Let the user choose a pair; return its cell in the batch, or the hardest negative's for a pair outside it."""
    choice = shown.choice
    settings = shown.settings
    batch = shown.batch
    hardest = ask(questions.hardest_negative, choice.last, settings, batch, shown.last)
    images, captions = (choice.ask(Run.count, modality) for modality in BOTH)
    cards.heading("One pair")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        image = whole_number("Image", (0, images - 1), hardest[0], "pair-image", 100)
        text = whole_number("Caption", (0, captions - 1), hardest[1], "pair-caption", 100)

    opened.tell("pair-caption", "text", text, own=False)
    cell = similarity.positions(batch, settings.direction, image, text)
    if cell is None:
        pair = f"Image {image} with caption {text}"
        cards.note(f"{pair} is not in this batch. The hardest negative is shown instead.")
        cell = similarity.positions(batch, settings.direction, hardest[0], hardest[1])

    assert cell is not None
    return cell


def draw_matrices(shown: Matrices, chosen: str, marked: Cell) -> list[str]:
    """Draw the matrices of the `chosen` kind of every run, on one colour scale; return the keys of the charts. `marked`
    is the open cell."""
    scaled = shown.scaled
    settings = shown.settings
    captions = shown.choice.ask(Run.captions)
    rows, columns = similarity.labels(next(iter(scaled.values())), shown.batch, settings.direction, captions)
    anchors, candidates = AXES[settings.direction]
    keys = []

    def draw(values: np.ndarray, scale: charts.HeatScale, unit: str, key: str, alt: str) -> None:
        figure = charts.heat_map(
            values,
            rows,
            columns,
            scale,
            tone(),
            unit=unit,
            row_name=f"anchors: {anchors}",
            column_name=candidates,
            marked=marked,
        )
        downloads.chart(figure, key, alt, height="stretch")  # style.css: as high as the column is wide
        keys.append(key)

    alone = len(scaled) == 1
    if chosen == "between":
        (first, before), (second, after) = scaled.items()
        heading = f"S of {second} minus S of {first}"
        difference = after.similarity - before.similarity
        cards.heading(heading, "Vermilion pairs are closer in the second run.")
        draw(difference, charts.heat_scale([difference]), "ΔS", "matrix-between", heading)
        return keys
    kinds = ("similarity", "exponent") if chosen == "scaled" else (chosen,)
    places = st.columns(len(kinds), gap="medium") if alone else [st.container() for _ in kinds]
    for kind, column in zip(kinds, places, strict=True):
        heading, unit = KINDS[kind]
        values = {name: getattr(matrices, kind) for name, matrices in scaled.items()}
        centre = {"similarity": settings.loss.gamma, "share": None}.get(kind, 0.0)
        scale = charts.heat_scale(list(values.values()), centre, "γ" if kind == "similarity" else "")
        with column:
            parts = [st.container()] if alone else st.columns(2, gap="medium")
            for number, (run, container) in enumerate(zip(shown.choice.runs, parts, strict=True)):
                with container:
                    if alone:
                        cards.label(heading)
                    else:
                        run_label(shown.choice, run, heading)
                    alt = f"{heading.partition(':')[0]}, {run.name}"
                    draw(values[run.name], scale, unit, f"matrix-{kind}-{number}", alt)
            cards.note(cards.HOW_TO_READ[heading])
    return keys


def steps(pair: similarity.Pair, function: str) -> list[Step]:
    """Return (symbol, formula with numbers, value) of every step from S to the loss."""
    has_partner = pair.positive == pair.positive
    parts = {"pair": True, "match": pair.own, "negative": not pair.own, "partner": has_partner}
    numbers: dict[str, object] = {
        "pair": pair,
        "loss": pair.loss,
        "spread": "SD" if function == "std" else "H",
    }
    numbers["negatives"] = count(pair.negatives, "negative")
    for name in ("total", "total_plain"):
        numbers[name] = f"{getattr(pair, name):{'.3f' if getattr(pair, name) < 1e5 else '.3e'}}"
    for name in ("share", "share_plain"):
        share = 100 * getattr(pair, name)
        numbers[name] = f"{share:.2f} %" if share >= 0.01 else f"{share:.1g} %"
    rows = [row for part, of_part in STEPS.items() if parts[part] for row in of_part]
    return [(*(part.format(**numbers) for part in row),) for row in rows]


def show_pair(shown: Matrices, cell: Cell, rows: Mapping[str, Sequence[Step]]) -> None:
    choice = shown.choice
    batch = shown.batch
    image, text = cell if shown.settings.direction == "i2t" else cell[::-1]
    number = int(batch.images[image])
    caption = int(batch.texts[text])
    owner = int(choice.ask(Run.image_of_text)[caption])
    relation = "its own" if owner == number else f"which belongs to image {owner}"
    title = f"Image {number} with caption {caption}, {relation}"
    picture = choice.ask(Run.picture, number)
    words = choice.ask(Run.captions)[caption]
    st.html(cards.sample_html(cards.Sample(title, picture, [words])))
    with reviewing.judge(choice, number, caption, "pair"):
        similar_button(choice, "text", caption, "pair")

    values = {name: [value for _, _, value in steps_of_run] for name, steps_of_run in rows.items()}
    frame = pd.DataFrame({"symbol": [symbol for symbol, *_ in next(iter(rows.values()))], **values})
    columns = {"symbol": Column("symbol"), **{name: Column(name, right=True) for name in rows}}
    plain_table(frame, columns, "pair-values", "values of the pair")
