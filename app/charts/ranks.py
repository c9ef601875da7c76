"""Figures of the Retrieval page: ranks of the true matches, rank changes, hubs and margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.diversity import histogram
from app.charts.figure import MOST_NUMBERED, Tone, bar, figure, legend_room, plain, run_colour, vertical_line

RANK_EDGES = (1, 5, 10, 50, 100)
RANK_LABELS = ("1", "2–5", "6–10", "11–50", "51–100", "> 100")
RANK_HEIGHT = 360
OCCURRENCE_EDGES = (0, 5, 10, 20, 50, 100)
OCCURRENCE_LABELS = ("none", "1–5", "6–10", "11–20", "21–50", "51–100", "> 100")


def rank_band(ranks: np.ndarray) -> np.ndarray:
    """Ranks from 1 → index into RANK_LABELS."""
    return np.searchsorted(np.asarray(RANK_EDGES), np.asarray(ranks), side="left")


def rank_matrix(changes: pd.DataFrame, name_a: str, name_b: str, colours: Tone) -> go.Figure:
    """Number of queries that moved from one band of ranks (rows, first run) to another (columns, second run)."""
    size = len(RANK_LABELS)
    counts = np.zeros((size, size), dtype=int)
    np.add.at(counts, (rank_band(changes["rank_a"].to_numpy()), rank_band(changes["rank_b"].to_numpy())), 1)
    cells = {
        "type": "heatmap",
        "z": np.sqrt(counts),
        "x": RANK_LABELS,
        "y": RANK_LABELS,
        "customdata": counts,
        "showscale": False,
        "xgap": 3,
        "ygap": 3,
        "colorscale": [[0, colours.ramp[0]], [1, colours.ramp[1]]],
        "text": np.where(counts > 0, counts.astype(str), ""),
        "texttemplate": "%{text}",
        "textfont": {"size": 13},
        "hovertemplate": "%{y} → %{x}: %{customdata} queries<extra></extra>",
    }
    diagonal = {
        "type": "line",
        "x0": -0.5,
        "y0": -0.5,
        "x1": size - 0.5,
        "y1": size - 0.5,
        "line": {"color": colours.faint, "width": 1, "dash": "dot"},
    }
    return figure(
        colours,
        [cells],
        f"rank in {plain(name_b)}",
        f"rank in {plain(name_a)}",
        height=RANK_HEIGHT,
        xaxis={"type": "category", "tickangle": 0, "tickfont": {"size": 11, "color": colours.faint}},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        showlegend=False,
        shapes=[diagonal],
    )


def rank_distribution(ranks: Mapping[str, Sequence[int] | np.ndarray], colours: Tone) -> go.Figure:
    """Number of queries in each band of ranks, one bar per run; ranks count from 1."""
    bands = {name: rank_band(np.asarray(numbers)) for name, numbers in ranks.items()}
    return _bands(
        bands, RANK_LABELS, "rank of the best true match", "rank %{x}: %{y} queries", "queries", colours
    )


def occurrence_band(counts: np.ndarray) -> np.ndarray:
    """Occurrences → index into OCCURRENCE_LABELS."""
    return np.searchsorted(OCCURRENCE_EDGES, np.asarray(counts), side="left")


def occurrence_bands(counts: Mapping[str, np.ndarray], k: int, colours: Tone) -> go.Figure:
    """Number of candidates by their k-occurrences, one bar per run."""
    bands = {name: occurrence_band(numbers) for name, numbers in counts.items()}
    label = f"queries with the candidate among their first {k}"
    return _bands(
        bands, OCCURRENCE_LABELS, label, "retrieved by %{x} queries: %{y} candidates", "candidates", colours
    )


def margin_histogram(margins: Mapping[str, np.ndarray], colours: Tone) -> go.Figure:
    """Margins of all queries; left of the line a wrong candidate ranks first."""
    chart = histogram(margins, "margin of the true match", "queries", colours)
    chart.layout.shapes = [*chart.layout.shapes, vertical_line(0.0, colours.ink, 1.2, "dot")]
    return chart


def _bands(
    bands: Mapping[str, np.ndarray], labels: Sequence[str], x: str, hover: str, y: str, colours: Tone
) -> go.Figure:
    traces = []
    for position, (name, band) in enumerate(bands.items()):
        counts = np.bincount(band, minlength=len(labels))
        colour = run_colour(position, len(bands), colours)
        text = counts if len(bands) <= MOST_NUMBERED else None
        traces.append(
            bar(labels, counts, name, colour, hover, text=text, textposition="outside", cliponaxis=False)
        )
    height = RANK_HEIGHT + legend_room(len(bands))
    return figure(colours, traces, x, y, height=height, xaxis={"type": "category"})
