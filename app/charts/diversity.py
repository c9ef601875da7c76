"""Figures of the Diversity page: distributions, recall by diversity, one anchor in detail."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import HEIGHT, Tone, bar, bars, figure, legend_room, line, run_colour, vertical_line

ANCHOR_HEIGHT = 280
GRID = 44  # cells a side of a density


def histogram(
    values: Mapping[str, np.ndarray], label: str, unit: str, colours: Tone, bins: int = 50
) -> go.Figure:
    """Distributions of several runs over one set of bins, as lines where they are more than two, with their medians as
    dashed lines."""
    everything = (
        np.concatenate([np.asarray(v, dtype=float) for v in values.values()]) if values else np.zeros(0)
    )
    everything = everything[np.isfinite(everything)]
    if not len(everything):
        return figure(colours, [], label, f"{unit} per bin")
    low, high = float(everything.min()), float(everything.max())
    edges = np.linspace(low, high if high > low else low + 1e-6, bins + 1)
    traces, medians = [], []
    for position, (name, numbers) in enumerate(values.items()):
        colour = run_colour(position, len(values), colours)
        counts = np.histogram(numbers, edges)[0]
        if len(values) > 2:
            middles, hover = (edges[:-1] + edges[1:]) / 2, "%{x:.3f}: %{y} " + unit
            traces.append(line(middles, counts, name, colour, hover, shape="hvh"))
        else:
            traces.append(bars(edges, counts, name, colour, 0.62, unit))
        medians.append(vertical_line(float(np.median(numbers)), colour, 2, "dash"))
    return figure(
        colours,
        traces,
        label,
        f"{unit} per bin",
        barmode="overlay",
        bargap=0,
        shapes=medians,
        height=HEIGHT + legend_room(len(values)),
    )


def recall_by_diversity(recalls: Mapping[str, pd.DataFrame], at: int, colours: Tone) -> go.Figure:
    """Recall at `at` by tenth of the anchors' diversity (columns `tenth`, `recall`)."""
    traces = [
        line(
            frame["tenth"].to_numpy(),
            frame["recall"].to_numpy(),
            name,
            run_colour(position, len(recalls), colours),
            "tenth %{x}: %{y:.1f} %",
            dots=True,
            width=2.5,
        )
        for position, (name, frame) in enumerate(recalls.items())
    ]
    label = "tenths of the anchors, low → high diversity"
    return figure(
        colours,
        traces,
        label,
        f"recall at {at}, %",
        xaxis={"dtick": 1},
        yaxis={"rangemode": "tozero"},
        height=HEIGHT + legend_room(len(recalls)),
    )


def density(
    x: np.ndarray,
    y: np.ndarray,
    x_label: str,
    y_label: str,
    unit: str,
    colours: Tone,
    *,
    diagonal: bool = False,
) -> go.Figure:
    """Number of anchors with each pair of values, as a grid of counts; `diagonal`: one scale, and the line x = y."""
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = np.asarray(x, dtype=float)[finite], np.asarray(y, dtype=float)[finite]
    if not len(x):
        return figure(colours, [], x_label, y_label)
    ranges = [_range(np.concatenate([x, y]))] * 2 if diagonal else [_range(x), _range(y)]
    counts, x_edges, y_edges = np.histogram2d(x, y, GRID, ranges)
    cells = {
        "type": "heatmap",
        "x": (x_edges[:-1] + x_edges[1:]) / 2,
        "y": (y_edges[:-1] + y_edges[1:]) / 2,
        "z": np.where(counts > 0, np.sqrt(counts), np.nan).T,
        "zmin": 0,
        "customdata": counts.T,
        "showscale": False,
        "colorscale": [[0, _mixed(colours.ramp[0], colours.ramp[1])], [1, colours.ramp[1]]],
        "hoverongaps": False,
        "hovertemplate": "%{x:.4g}, %{y:.4g}: %{customdata} " + unit + "<extra></extra>",
    }
    low, high = ranges[0]
    equality = {
        "type": "line",
        "x0": low,
        "y0": low,
        "x1": high,
        "y1": high,
        "line": {"color": colours.faint, "width": 1, "dash": "dot"},
    }
    return figure(
        colours,
        [cells],
        x_label,
        y_label,
        showlegend=False,
        shapes=[equality] if diagonal else [],
        yaxis={"showgrid": False},
    )


def _mixed(first: str, second: str, share: float = 0.3) -> str:
    """A mixture of two colours, so that a cell with a single anchor is visible."""
    parts = [(int(first[i : i + 2], 16), int(second[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(a + share * (b - a)):02x}" for a, b in parts)


def _range(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if high > low else (low - 1e-6, high + 1e-6)


def similarity_histogram(
    similarities: np.ndarray,
    positives: np.ndarray,
    gamma: float,
    name: str,
    position: int,
    runs: int,
    colours: Tone,
) -> go.Figure:
    """One anchor's similarities to all negatives, its own matches as diamonds, γ as a line."""
    counts, edges = np.histogram(similarities, bins=40)
    colour = run_colour(position, runs, colours)
    matches = {
        "type": "scatter",
        "x": positives,
        "y": np.full(len(positives), max(float(counts.max(initial=1)), 1.0) * 0.12),
        "mode": "markers",
        "name": "own matches",
        "marker": {
            "symbol": "diamond",
            "size": 11,
            "color": colours.mark,
            "line": {"color": colours.paper, "width": 1},
        },
        "hovertemplate": "own match: %{x:.3f}<extra></extra>",
    }
    note = {
        "x": gamma,
        "y": 1,
        "yref": "y domain",
        "text": f"γ = {gamma:g}",
        "showarrow": False,
        "xanchor": "left",
        "font": {"color": colours.faint, "size": 12},
    }
    return figure(
        colours,
        [bars(edges, counts, f"negatives · {name}", colour, 0.75, "negatives"), matches],
        "similarity to the anchor",
        "negatives per bin",
        height=ANCHOR_HEIGHT,
        bargap=0,
        annotations=[note],
        shapes=[vertical_line(gamma, colours.faint, 1.5, "dot")],
    )


def negative_weights(nearest: pd.DataFrame, colours: Tone) -> go.Figure:
    """The nearest negatives' shares of the loss, without and with diversity."""
    kinds = (
        ("weight_plain", "without diversity", colours.faint),
        ("weight_diversity", "with diversity", colours.mark),
    )
    ranks, similarity = [str(rank) for rank in range(1, len(nearest) + 1)], nearest["similarity"].to_numpy()
    hover = "negative %{x}, similarity %{customdata:.3f}: %{y:.1f} %"
    traces = [
        bar(ranks, 100 * nearest[column].to_numpy(), label, colour, hover, customdata=similarity)
        for column, label, colour in kinds
    ]
    return figure(
        colours,
        traces,
        "nearest negatives, most similar first",
        "share of the loss, %",
        height=ANCHOR_HEIGHT,
        xaxis={"type": "category"},
        bargroupgap=0.05,
    )
