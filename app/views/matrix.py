"""The matrices of the Similarity page: before, after, the difference, the probabilities, and between two runs."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import charts
from app.backend import similarity as matrices
from app.backend.similarity import Batch, Scaled, Settings
from app.ui import cards, downloads
from app.ui.state import theme

Cell = tuple[int, int]
NAMES = {"i2t": ("images", "captions"), "t2i": ("captions", "images")}
# kind → (heading, how to read it, of the colour bar, diverging colours about what)
KINDS = {
    "similarity": ("Before: S", "Scores. Own pairs lie on the diagonal; vermilion is above γ, blue below.", "S"),
    "exponent": (
        "After: (S − γ) / (μ·div)",
        "The exponents of the loss. An ambiguous anchor’s whole row gains contrast; own pairs are left out.", "x",
    ),
    "change": (
        "The difference: what diversity adds to (S − γ) / μ",
        "Vermilion is pushed away harder than without diversity, blue less hard.", "x − x without div",
    ),
    "share": (
        "Negative probabilities",
        "Each negative’s share of the anchor’s loss; strong colours are what the model learns from.", "p",
    ),
}  # fmt: skip


def draw_matrices(scaled: dict[str, Scaled], batch: Batch, chosen: Settings, marked: Cell) -> list[str]:
    """Every matrix of every run, one rule of colours for all runs; returns the keys of the charts."""
    keys = []
    alone = len(scaled) == 1
    columns = st.columns(2, gap="medium") if alone else []
    for position, (kind, (heading, how, unit)) in enumerate(KINDS.items()):
        values = [getattr(found, kind) for found in scaled.values()]
        centre = {"similarity": chosen.loss.gamma, "share": None}.get(kind, 0.0)
        limits = charts.heat_limits(values, centre)
        with columns[position % 2] if alone else st.container():
            cards.heading(heading, how)
            parts = [st.container()] if alone else st.columns(2, gap="medium")
        for number, (name, part) in enumerate(zip(scaled, parts, strict=True)):
            keys.append(f"matrix-{kind}-{number}")
            with part:
                if not alone:
                    cards.label(name)
                _draw(values[number], scaled[name], batch, chosen, marked, limits, centre is not None, unit, keys[-1],
                      f"{heading.partition(':')[0].lower()}, run {number + 1}")  # fmt: skip
    if not alone:
        keys.append(_draw_between(scaled, batch, chosen, marked))
    return keys


def _draw_between(scaled: dict[str, Scaled], batch: Batch, chosen: Settings, marked: Cell) -> str:
    """By how much the second run's similarities differ from the first one's."""
    (first, one), (second, other) = scaled.items()
    cards.heading(f"S of {second} minus S of {first}", "Vermilion: the second run brings the pair closer together.")
    difference = other.similarity - one.similarity
    limits = charts.heat_limits([difference], 0.0)
    with st.columns(2)[0]:
        _draw(difference, other, batch, chosen, marked, limits, True, "ΔS", "matrix-between", "second run minus first")
    return "matrix-between"


def _draw(
    values: np.ndarray, found: Scaled, batch: Batch, chosen: Settings, marked: Cell, limits: tuple[float, float],
    diverging: bool, unit: str, key: str, alt: str,
) -> None:  # fmt: skip
    rows, columns = matrices.labels(found, batch, chosen.direction)
    anchors, candidates = NAMES[chosen.direction]
    figure = charts.heat_map(
        values, rows, columns, limits, charts.tone(theme()), unit=unit, row_name=f"anchors: {anchors}",
        column_name=candidates, diverging=diverging, marked=marked,
    )  # fmt: skip
    downloads.chart(figure, key, alt)
