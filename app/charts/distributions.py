"""Figures of distributions: diversity, similarities and margins of runs, and one anchor in detail."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts import figure as draw
from app.charts.figure import ROOM, ROUNDING, Part, Tone

ANCHOR_HEIGHT = 280
SIMILARITY_HEIGHT = 230
GRID = 44  # cells per side of a density
Values = Mapping[str, np.ndarray]  # run → values
Counts = Sequence[np.ndarray]


def histogram(values: Values, x: str, unit: str, colours: Tone, bins: int = 50) -> go.Figure:
    """Draw distributions of runs over the same bins, medians as dashed lines; more than two runs as lines."""
    everything = np.concatenate([np.zeros(0), *(np.asarray(v, dtype=float) for v in values.values())])
    everything = everything[np.isfinite(everything)]
    if not len(everything):
        return draw.figure(colours, [], x, f"{unit} per bin")

    low, high = _range(everything)
    edges = np.linspace(low, high, bins + 1)
    traces = []
    medians = []
    for name, numbers, colour in draw.coloured(values, colours):
        counts = np.histogram(numbers, edges)[0]
        if len(values) > 2:
            traces.append(_steps(edges, counts, name, colour, "%{x:.3f}: %{y} " + unit))
        else:
            traces.append(draw.histogram_bars(edges, counts, name, colour, 0.62, unit))
        medians.append(draw.vertical_line(float(np.median(numbers)), colour, 2, "dash"))

    layout: Part = {"barmode": "overlay", "bargap": 0, "shapes": medians}
    return draw.figure(colours, traces, x, f"{unit} per bin", runs=len(values), **layout)


def margin_histogram(margins: Values, colours: Tone) -> go.Figure:
    """Draw the margins of all queries; left of the line a wrong candidate ranks first."""
    chart = histogram(margins, "margin of the true match", "queries", colours)
    chart.layout.shapes = [*chart.layout.shapes, draw.vertical_line(0.0, colours.ink, 1.2, "dot")]
    return chart


def recall_by_diversity(recalls: Mapping[str, pd.DataFrame], at: int, colours: Tone) -> go.Figure:
    """Draw recall at `at` by tenth of the anchors, the most ambiguous first (columns `tenth`, `recall`)."""
    hover = "tenth %{x}: %{y:.1f} %"
    traces = []
    for name, frame, colour in draw.coloured(recalls, colours):
        x = frame["tenth"].to_numpy()
        y = frame["recall"].to_numpy()
        traces.append(draw.line(x, y, name, colour, hover, dots=True, width=2.5))
    label = "tenths of the anchors, most → least ambiguous"
    axes: Part = {"xaxis": {"dtick": 1}, "yaxis": {"rangemode": "tozero"}}
    return draw.figure(colours, traces, label, f"recall at {at}, %", runs=len(recalls), **axes)


def density(
    x: np.ndarray, y: np.ndarray, x_label: str, y_label: str, unit: str, colours: Tone, diagonal: bool = False
) -> go.Figure:
    """Draw the number of anchors with each pair of values as a grid; `diagonal`: one scale, and the line x = y."""
    finite = np.isfinite(x) & np.isfinite(y)
    x = np.asarray(x, dtype=float)[finite]
    y = np.asarray(y, dtype=float)[finite]
    if not len(x):
        return draw.figure(colours, [], x_label, y_label)

    ranges = [_range(np.concatenate([x, y]))] * 2 if diagonal else [_range(x), _range(y)]
    counts, x_edges, y_edges = np.histogram2d(x, y, GRID, ranges)
    ground, full = colours.ramp
    shades = np.where(counts > 0, np.sqrt(counts), np.nan)
    (x, y) = map(draw.middles, (x_edges, y_edges))
    hover = "%{x:.4g}, %{y:.4g}: %{customdata} " + unit
    stops = [[0, draw.mixed(ground, full, 0.3)], [1, full]]  # a cell with a single anchor is visible
    squares = draw.cells(shades.T, x, y, hover, stops, zmin=0, customdata=counts.T)
    shapes = [draw.segment(ranges[0], ranges[0], colours.faint, 1, "dot")] if diagonal else []
    layout: Part = {"showlegend": False, "shapes": shapes, "yaxis": {"showgrid": False}}
    return draw.figure(colours, [squares], x_label, y_label, **layout)


def _range(values: np.ndarray) -> tuple[float, float]:
    """Return the ends of the values, with room on both sides if they differ only by rounding."""
    low = float(values.min())
    high = float(values.max())
    return (low, high) if high - low > ROUNDING else (low - ROOM, high + ROOM)


def similarity_histograms(
    anchors: Mapping[str, tuple[np.ndarray, np.ndarray]], gamma: float, colours: Tone
) -> list[go.Figure]:
    """Draw one anchor's similarities to all negatives and to its own matches (diamonds), γ as a line: one figure per
    run, with common bins and axes, as by `common_ends`."""
    ends = [_range(np.concatenate([*values, [gamma]])) for values in anchors.values()]
    ends, note = draw.common_ends(ends)
    bins = [np.histogram(of_run[0], 40, end) for of_run, end in zip(anchors.values(), ends, strict=True)]
    tops, apart = draw.common_ends([(0.0, max(float(counts.max(initial=1)), 1.0)) for counts, _ in bins])
    x = f"similarity to the anchor{note}"
    y = f"negatives per bin{apart}"
    text = {"x": gamma, "y": 1, "yref": "y domain", "text": f"γ = {gamma:g}", "showarrow": False}
    text |= {"xanchor": "left", "font": {"color": colours.faint, "size": 12}}
    layout: Part = {"annotations": [text], "shapes": [draw.vertical_line(gamma, colours.faint, 1.5, "dot")]}
    marker = {"symbol": "diamond", "size": 11, "color": colours.mark}
    figures = []
    of_runs = zip(draw.coloured(anchors, colours), bins, tops, strict=True)
    for (name, (_, own), colour), (counts, edges), (_, top) in of_runs:
        bars = draw.histogram_bars(edges, counts, f"negatives · {name}", colour, 0.75, "negatives")
        heights = np.full(len(own), 0.12 * top)
        hover = "own match: %{x:.3f}"
        matches = draw.points(own, heights, "own matches", hover, marker, cliponaxis=False)
        axes: Part = {"xaxis": {"range": [edges[0], edges[-1]]}, "yaxis": {"range": [0, 1.05 * top]}}
        size: Part = {"height": ANCHOR_HEIGHT, "bargap": 0}
        figures.append(draw.figure(colours, [bars, matches], x, y, **size, **axes, **layout))

    return figures


def negative_weights(nearest: Sequence[pd.DataFrame], colours: Tone) -> list[go.Figure]:
    """Draw the nearest negatives' shares of the loss, without and with diversity: one figure per run."""
    kinds = {"plain": ("without diversity", colours.faint), "diversity": ("with diversity", colours.mark)}
    hover = "negative %{x}, similarity %{customdata:.3f}: %{y:.1f} %"
    shares = [{kind: 100 * table[f"weight_{kind}"].to_numpy() for kind in kinds} for table in nearest]
    highest = [float(np.max([values.max(initial=1e-9) for values in of_run.values()])) for of_run in shares]
    tops, note = draw.common_ends([(0.0, top) for top in highest])
    x = "nearest negatives, most similar first"
    y = f"share of the loss, %{note}"
    figures = []
    for table, of_run, (_, top) in zip(nearest, shares, tops, strict=True):
        ranks = [str(rank) for rank in range(1, len(table) + 1)]
        similarity = table["similarity"].to_numpy()
        bars = [draw.bar(ranks, of_run[kind], *style, hover) for kind, style in kinds.items()]
        traces = [bar | {"customdata": similarity} for bar in bars]
        axes: Part = {"xaxis": {"type": "category"}, "yaxis": {"range": [0, 1.05 * top]}}
        figures.append(draw.figure(colours, traces, x, y, height=ANCHOR_HEIGHT, bargroupgap=0.05, **axes))

    return figures


def similarity_curves(runs: Mapping[str, Counts], edges: np.ndarray, colours: Tone) -> go.Figure:
    """Draw matching pairs (filled) and all others (line) of every run: share of the pairs in each bin."""
    styles = (("matching", "tozeroy", "solid"), ("others", None, "dot"))
    traces = []
    for name, of_run, colour in draw.coloured(runs, colours):
        for counts, (kind, fill, dash) in zip(of_run, styles, strict=True):
            share = 100 * counts / max(int(counts.sum()), 1)
            trace = _steps(edges, share, f"{name}: {kind}", colour, "%{x:.2f}: %{y:.1f} %", dash=dash)
            traces.append(trace | {"fill": fill, "opacity": 0.9})
    counts = np.sum([counts for of_run in runs.values() for counts in of_run], axis=0)
    bins = np.flatnonzero(counts)
    last = len(edges) - 1
    ends = [max(bins[0] - 1, 0), min(bins[-1] + 2, last)] if len(bins) else [0, last]
    axes: Part = {"xaxis": {"range": [float(edges[end]) for end in ends]}, "yaxis": {"rangemode": "tozero"}}
    x = "similarity of image and caption"
    y = "share of the pairs, %"
    return draw.figure(colours, traces, x, y, height=SIMILARITY_HEIGHT, **axes)


def _steps(edges: np.ndarray, y: np.ndarray, name: str, colour: str, hover: str, dash: str = "solid") -> Part:
    return draw.line(draw.middles(edges), y, name, colour, hover, shape="hvh", dash=dash)
