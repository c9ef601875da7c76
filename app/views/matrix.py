"""The matrices of the Similarity page: before, after, the difference, the probabilities, and between two runs."""

from __future__ import annotations

import numpy as np
import streamlit as st

from app import charts
from app.backend.similarity import MatrixSamples, Scaled, Settings, labels
from app.ui import cards, downloads
from app.ui.state import theme

Cell = tuple[int, int]
AXES = {"i2t": ("images", "captions"), "t2i": ("captions", "images")}
# kind → (heading, how to read it, name of a value)
KINDS = {
    "similarity": ("Before: S", "Scores. Matching pairs lie on the diagonal. Vermilion is above γ, blue below.", "S"),
    "exponent": (
        "After: (S − γ) / (μ·div)",
        "The exponents of the loss. The row of an ambiguous anchor gains contrast. Matching pairs are left out.", "x",
    ),
    "change": (
        "The difference: what diversity adds to (S − γ) / μ",
        "Vermilion pairs are pushed away more than without diversity, blue pairs less.", "x − x without div",
    ),
    "share": (
        "Negative probabilities",
        "Each negative’s share of the anchor’s loss: the model learns from strong colours.", "p",
    ),
}  # fmt: skip


def draw_matrices(scaled: dict[str, Scaled], batch: MatrixSamples, settings: Settings, marked: Cell) -> list[str]:
    """Every matrix of every run with one colour scale per kind; returns the keys of the charts."""
    keys = []
    alone = len(scaled) == 1
    columns = st.columns(2, gap="medium") if alone else []
    for position, (kind, (heading, how, unit)) in enumerate(KINDS.items()):
        values = [getattr(matrices, kind) for matrices in scaled.values()]
        centre = {"similarity": settings.loss.gamma, "share": None}.get(kind, 0.0)
        limits = charts.heat_limits(values, centre)
        with columns[position % 2] if alone else st.container():
            cards.heading(heading, how)
            parts = [st.container()] if alone else st.columns(2, gap="medium")
        for number, (name, part) in enumerate(zip(scaled, parts, strict=True)):
            keys.append(f"matrix-{kind}-{number}")
            with part:
                if not alone:
                    cards.label(name)
                _draw(values[number], scaled[name], batch, settings, marked, limits, centre is not None, unit, keys[-1],
                      f"{heading.partition(':')[0].lower()}, run {number + 1}")  # fmt: skip
    if not alone:
        keys.append(_draw_difference(scaled, batch, settings, marked))
    return keys


def _draw_difference(scaled: dict[str, Scaled], batch: MatrixSamples, settings: Settings, marked: Cell) -> str:
    """The second run's similarities minus the first run's."""
    (first_name, first), (second_name, second) = scaled.items()
    heading = f"S of {second_name} minus S of {first_name}"
    cards.heading(heading, "Vermilion pairs are closer in the second run.")
    difference = second.similarity - first.similarity
    limits = charts.heat_limits([difference], 0.0)
    with st.columns(2)[0]:
        _draw(
            difference, second, batch, settings, marked, limits, True, "ΔS", "matrix-between", "second run minus first"
        )
    return "matrix-between"


def _draw(
    values: np.ndarray, scaled: Scaled, batch: MatrixSamples, settings: Settings, marked: Cell,
    limits: tuple[float, float], diverging: bool, unit: str, key: str, alt: str,
) -> None:  # fmt: skip
    rows, columns = labels(scaled, batch, settings.direction)
    anchors, candidates = AXES[settings.direction]
    figure = charts.heat_map(
        values, rows, columns, limits, charts.tone(theme()), unit=unit, row_name=f"anchors: {anchors}",
        column_name=candidates, diverging=diverging, marked=marked,
    )  # fmt: skip
    downloads.chart(figure, key, alt)
