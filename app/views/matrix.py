"""The matrices of the Similarity page: before, after, the difference, the probabilities, and between two runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import streamlit as st

from app import charts, questions
from app.ask import similarity
from app.choice import theme
from app.ui import cards, downloads

Cell = tuple[int, int]
Names = tuple[list[str], list[str]]
"""Of the rows and of the columns."""
AXES = {"i2t": ("images", "captions"), "t2i": ("captions", "images")}
# kind → (heading, how to read it, name of a value)
KINDS = {
    "similarity": (
        "Before: S",
        "Cosines. Vermilion is above γ, blue below; the colours end where the values end. Matching pairs lie on the "
        "diagonal of a batch in its own order.",
        "S",
    ),
    "exponent": (
        "After: (S − γ) / (μ·div)",
        "The exponents of the loss. The row of an ambiguous anchor gains contrast. Matching pairs are left out.",
        "x",
    ),
    "change": (
        "The difference: what diversity adds to (S − γ) / μ",
        "Vermilion pairs are pushed away more than without diversity, blue pairs less.",
        "x − x without div",
    ),
    "share": (
        "Negative probabilities",
        "Each negative’s share of the anchor’s loss: the model learns from strong colours.",
        "p",
    ),
}


def draw_matrices(
    scaled: dict[str, similarity.Scaled],
    batch: similarity.MatrixSamples,
    settings: questions.MatrixSettings,
    marked: Cell,
    captions: Sequence[str],
) -> list[str]:
    """Every matrix of every run with one colour scale per kind; returns the keys of the charts.

    Args:
        scaled: run -> matrices. batch: their samples. settings: of the page. marked: the open cell.
        captions: of the split, to name cells by on hover.
    """
    keys = []
    names = similarity.labels(next(iter(scaled.values())), batch, settings.direction, captions)
    alone = len(scaled) == 1
    columns = st.columns(2, gap="medium") if alone else []
    for position, (kind, (heading, how, unit)) in enumerate(KINDS.items()):
        values = [getattr(matrices, kind) for matrices in scaled.values()]
        if kind == "similarity":
            scale = charts.heat_scale(values, settings.loss.gamma, "γ")
        else:
            scale = charts.heat_scale(values, None if kind == "share" else 0.0)
        with columns[position % 2] if alone else st.container():
            cards.heading(heading, how)
            parts = [st.container()] if alone else st.columns(2, gap="medium")
        for number, (name, part) in enumerate(zip(scaled, parts, strict=True)):
            keys.append(f"matrix-{kind}-{number}")
            with part:
                if not alone:
                    cards.label(name)
                alt = f"{heading.partition(':')[0]}, {name}"
                _draw(values[number], names, settings, marked, scale, unit, keys[-1], alt)
    if not alone:
        keys.append(_draw_difference(scaled, names, settings, marked))
    return keys


def _draw_difference(
    scaled: dict[str, similarity.Scaled], names: Names, settings: questions.MatrixSettings, marked: Cell
) -> str:
    """The second run's similarities minus the first run's."""
    (first_name, first), (second_name, second) = scaled.items()
    heading = f"S of {second_name} minus S of {first_name}"
    cards.heading(heading, "Vermilion pairs are closer in the second run.")
    difference = second.similarity - first.similarity
    scale = charts.heat_scale([difference])
    with st.columns(2)[0]:
        _draw(difference, names, settings, marked, scale, "ΔS", "matrix-between", heading)
    return "matrix-between"


def _draw(
    values: np.ndarray,
    names: Names,
    settings: questions.MatrixSettings,
    marked: Cell,
    scale: charts.HeatScale,
    unit: str,
    key: str,
    alt: str,
) -> None:
    anchors, candidates = AXES[settings.direction]
    figure = charts.heat_map(
        values,
        *names,
        scale,
        charts.tone(theme()),
        unit=unit,
        row_name=f"anchors: {anchors}",
        column_name=candidates,
        marked=marked,
    )
    downloads.chart(figure, key, alt, height="stretch")  # style.css: as high as the column is wide
