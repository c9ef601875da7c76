"""Figures of the Retrieval page: where true matches stand, and how they moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, plain, run_colour

RANK_EDGES = (1, 5, 10, 50, 100)
RANK_LABELS = ("1", "2–5", "6–10", "11–50", "51–100", "> 100")
RANK_HEIGHT = 360


def rank_band(ranks: np.ndarray) -> np.ndarray:
    """Ranks from 1 → index into RANK_LABELS."""
    return np.searchsorted(np.asarray(RANK_EDGES), np.asarray(ranks), side="left")


def rank_matrix(changes: pd.DataFrame, name_a: str, name_b: str, colours: Tone) -> go.Figure:
    """How many queries moved from one band of ranks (rows, first run) to another (columns, second run)."""
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
        "type": "line", "x0": -0.5, "y0": -0.5, "x1": size - 0.5, "y1": size - 0.5,
        "line": {"color": colours.faint, "width": 1, "dash": "dot"},
    }  # fmt: skip
    return figure(
        colours, [cells], f"rank in {plain(name_b)}", f"rank in {plain(name_a)}", height=RANK_HEIGHT,
        xaxis={"type": "category", "tickangle": 0, "tickfont": {"size": 11, "color": colours.faint}},
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False}, showlegend=False, shapes=[diagonal],
    )  # fmt: skip


def rank_distribution(ranks: Mapping[str, Sequence[int] | np.ndarray], colours: Tone) -> go.Figure:
    """How many queries lie in each band of ranks, one bar a run; ranks count from 1."""
    traces = []
    for position, (name, numbers) in enumerate(ranks.items()):
        counts = np.bincount(rank_band(np.asarray(numbers)), minlength=len(RANK_LABELS))
        traces.append(
            {
                "type": "bar",
                "x": RANK_LABELS,
                "y": counts,
                "name": plain(name),
                "text": counts,
                "textposition": "outside",
                "cliponaxis": False,
                "marker": {"color": run_colour(position, len(ranks), colours), "cornerradius": 3},
                "hovertemplate": "rank %{x}: %{y} queries<extra>" + plain(name) + "</extra>",
            }
        )
    return figure(
        colours, traces, "rank of the best true match", "queries", height=RANK_HEIGHT, xaxis={"type": "category"}
    )
