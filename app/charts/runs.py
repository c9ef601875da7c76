"""Figures of runs beside each other: recall, training curves, slices, ranks and occurrences."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts import figure as draw
from app.charts.figure import Part, Tone

Values = Mapping[str, np.ndarray]  # run → values
LINE_STYLES = ("solid", "dash", "dot", "dashdot")
MOST_NUMBERED = 3  # runs whose bars have room for their numbers
CURVE_HEIGHT = 220
RECALL_HEIGHT = 260
RANK_HEIGHT = 360
EPOCH_TICKS = 8
BEHIND_TEXT = 0.5  # of a ramp: darker cells would hide their numbers
FAINT = 0.3  # opacity of what may be noise
ROW_HEIGHT = 34
MARGINS = 90
RANK_EDGES = (1, 5, 10, 50, 100)
RANK_LABELS = ("1", "2–5", "6–10", "11–50", "51–100", "> 100")
LEAST_NUMBERED = 4  # percent of a bar that has room for its number
BUDGET_HEIGHT = 60
BUDGET_MARGINS = 122
OCCURRENCE_EDGES = (0, 5, 10, 20, 50, 100)
OCCURRENCE_LABELS = ("none", "1–5", "6–10", "11–20", "21–50", "51–100", "> 100")


def recall_bars(metrics: Mapping[str, Mapping[str, float]], colours: Tone) -> go.Figure:
    """Draw R@1, R@5, R@10 of both directions, one bar per run."""
    directions = (("i2t", "image → text"), ("t2i", "text → image"))
    recalls = [(f"{d}_r{k}", label, f"R@{k}") for d, label in directions for k in (1, 5, 10)]
    groups = [[label for _, label, _ in recalls], [k for _, _, k in recalls]]
    traces = []
    for name, values, colour in draw.coloured(metrics, colours):
        heights = [values.get(key, float("nan")) for key, _, _ in recalls]
        numbers = _numbers([f"{value:.1f}" for value in heights], len(metrics))
        font = {"size": 11, "color": colours.ink}
        traces.append(draw.bar(groups, heights, name, colour, "%{y:.1f} %", textfont=font, **numbers))
    axes: Part = {"xaxis": {"dividercolor": colours.grid}, "yaxis": {"rangemode": "tozero"}}
    return draw.figure(
        colours, traces, "", "recall, %", height=RECALL_HEIGHT, runs=len(metrics), bargroupgap=0.08, **axes
    )


def _numbers(texts: Any, runs: int) -> Part:
    """Place numbers above bars, if there is room."""
    return {"text": texts if runs <= MOST_NUMBERED else None, "textposition": "outside", "cliponaxis": False}


def error_budgets(budgets: Mapping[str, pd.DataFrame], colours: Tone) -> go.Figure:
    """Draw a bar per run that adds up to 100% of its misses, a part per cause. `budgets`: run → one row per cause, the same
    for all runs: cause, count, share, low, high (percent)."""
    names = [draw.plain(name) for name in budgets]
    tables = list(budgets.values())
    hover = (
        "%{customdata[0]}: %{customdata[1]:,} misses, %{x:.1f}% [%{customdata[2]:.1f}, %{customdata[3]:.1f}]"
    )
    traces = []
    for row, cause in enumerate(tables[0]["cause"]):
        of_runs = pd.DataFrame([table.iloc[row] for table in tables])
        numbers = of_runs[["cause", "count", "low", "high"]].to_numpy().tolist()
        shares = of_runs["share"].tolist()
        texts = [f"{share:.0f}%" if share >= LEAST_NUMBERED else "" for share in shares]
        style: Part = {"orientation": "h", "customdata": numbers, "text": texts, "textposition": "inside"}
        style |= {"insidetextanchor": "middle", "textangle": 0}
        traces.append(draw.bar(shares, names, cause, _cause_colour(row, colours), hover, **style))

    height = BUDGET_MARGINS + BUDGET_HEIGHT * len(names)
    legend = {
        "orientation": "h",
        "x": 0,
        "y": 1.04,
        "yanchor": "bottom",
        "traceorder": "normal",
        "entrywidth": 0,
    }
    axes: Part = {
        "xaxis": {"range": [0, 100], "ticksuffix": "%", "dtick": 20, "automargin": False},
        "legend": legend,
    }
    axes["margin"] = {"l": 0, "r": 12, "t": 88, "b": 34}  # four lines of the legend
    axes["yaxis"] = {"autorange": "reversed", "showgrid": False, "showticklabels": False, "automargin": False}
    above_bar: Part = {"x": 0, "xanchor": "left", "yshift": BUDGET_HEIGHT // 2 - 5, "showarrow": False}
    axes["annotations"] = [{"text": name, "y": name, **above_bar} for name in names]
    return draw.figure(colours, traces, "", "", height=height, barmode="stack", bargap=0.5, **axes)


def _cause_colour(row: int, colours: Tone) -> str:
    """Return the colour of a cause: vermilion and blue mean runs, and the last two, which no fix removes, are grey."""
    of_fixable = ("#9A7BC4", *colours.runs[2:6])
    greys = (draw.mixed(colours.faint, colours.paper, 0.35), draw.mixed(colours.faint, colours.paper, 0.7))
    return (*of_fixable, *greys)[row]


def training_curves(frames: Mapping[str, pd.DataFrame], column: str, label: str, colours: Tone) -> go.Figure:
    """Draw one line per run over the epochs; `frames` have the columns "epoch" and `column`."""
    traces: list[Part] = []
    last = 0.0
    for position, (name, frame, colour) in enumerate(draw.coloured(frames, colours)):
        if column not in frame or "epoch" not in frame:
            continue
        values = frame[["epoch", column]].dropna()
        last = max(last, float(values["epoch"].max())) if len(values) else last
        dash = LINE_STYLES[position // len(colours.runs) % len(LINE_STYLES)]
        x = values["epoch"].to_numpy()
        y = values[column].to_numpy()
        dots = len(values) <= 60
        traces.append(draw.line(x, y, name, colour, "epoch %{x}: %{y:.4g}", dots=dots, dash=dash))

    # steps of the first epoch are fractions of an epoch
    ticks = {"tick0": 0, "dtick": max(1, round(last / EPOCH_TICKS))} if last >= 2 else {"nticks": EPOCH_TICKS}
    size: Part = {"height": CURVE_HEIGHT, "runs": len(traces)}
    return draw.figure(colours, traces, "epoch", draw.plain(label), xaxis=ticks, **size)


def blend_curve(alphas: np.ndarray, values: np.ndarray, colours: Tone) -> go.Figure:
    """Draw R@sum against the share α of the tuned weights, ascending, with the best point marked."""
    best = int(values.argmax())
    curve = draw.line(alphas, values, "R@sum", colours.runs[1], "α = %{x:g}: R@sum %{y:.1f}", dots=True)
    marker = {"size": 14, "color": "rgba(0,0,0,0)", "line": {"color": colours.runs[1], "width": 2}}
    mark = draw.points(alphas[best : best + 1], values[best : best + 1], "best", "best: α = %{x:g}", marker)
    axis: Part = {
        "xaxis": {"range": [-0.04, 1.04], "dtick": 0.25},
        "height": CURVE_HEIGHT,
        "showlegend": False,
    }
    return draw.figure(colours, [curve, mark], "α, share of the tuned weights", "R@sum", **axis)


def slice_recalls(
    slices: Sequence[str], recalls: Values, overall: Mapping[str, float], x: str, colours: Tone
) -> go.Figure:
    """Draw a row per slice, a dot and an interval per run: run → (slices, 3) recall, low and high end in percent. A
    dashed line is a run's `overall` recall; slices whose interval contains it are faint."""
    labels = [draw.plain(label) for label in slices]
    hover = "%{customdata[0]}: %{x:.1f} [%{customdata[1]}, %{customdata[2]}]"
    traces = []
    lines = []
    for position, (name, values, colour) in enumerate(draw.coloured(recalls, colours)):
        recall, low, high = values.T
        offset = (position - (len(recalls) - 1) / 2) * min(0.2, 0.7 / len(recalls))
        interval = {"type": "data", "array": high - recall, "arrayminus": recall - low}
        interval |= {"color": colour, "thickness": 1.2, "width": 0}
        noise = (low <= overall[name]) & (overall[name] <= high)
        lines.append(draw.vertical_line(overall[name], colour, 1.5, "dash"))
        ends = list(zip(labels, low.round(1).tolist(), high.round(1).tolist(), strict=True))
        marker = {"color": colour, "size": 9, "opacity": np.where(noise, FAINT, 1.0).tolist()}
        rows = np.arange(len(slices)) + offset
        traces.append(draw.points(recall, rows, name, hover, marker, error_x=interval, customdata=ends))

    rows_axis = {"tickvals": list(range(len(slices))), "ticktext": labels, "autorange": "reversed"}
    height = MARGINS + ROW_HEIGHT * len(slices)
    shown = rows_axis | {"showgrid": False}
    return draw.figure(colours, traces, x, "", height=height, runs=len(recalls), yaxis=shown, shapes=lines)


def rank_band(ranks: Sequence[int] | np.ndarray) -> np.ndarray:
    """Map ranks, which count from 1, to indices into RANK_LABELS."""
    return np.searchsorted(RANK_EDGES, ranks)


def rank_matrix(changes: pd.DataFrame, name_a: str, name_b: str, colours: Tone) -> go.Figure:
    """Draw the number of queries that moved from a band of ranks (rows, first run) to another (columns, second run)."""
    size = len(RANK_LABELS)
    counts = np.zeros((size, size), dtype=int)
    np.add.at(counts, (rank_band(changes["rank_a"].to_numpy()), rank_band(changes["rank_b"].to_numpy())), 1)
    texts = {"customdata": counts, "text": np.where(counts > 0, counts.astype(str), "")}
    font = {"size": 13, "color": colours.ink}
    style = {"texttemplate": "%{text}", "textfont": font, "xgap": 3, "ygap": 3}
    stops = [[0, colours.ramp[0]], [1, draw.mixed(*colours.ramp, BEHIND_TEXT)]]
    hover = "%{y} → %{x}: %{customdata} queries"
    squares = draw.cells(np.sqrt(counts), RANK_LABELS, RANK_LABELS, hover, stops, **texts, **style)
    ends = (-0.5, size - 0.5)
    layout: Part = {
        "xaxis": {"type": "category", "tickangle": 0, "tickfont": {"size": 11, "color": colours.faint}},
        "yaxis": {"type": "category", "autorange": "reversed", "showgrid": False},
        "shapes": [draw.segment(ends, ends, colours.faint, 1, "dot")],
    }
    x, y = (f"rank in {draw.plain(name)}" for name in (name_b, name_a))
    return draw.figure(colours, [squares], x, y, height=RANK_HEIGHT, showlegend=False, **layout)


def rank_distribution(ranks: Mapping[str, Sequence[int] | np.ndarray], colours: Tone) -> go.Figure:
    """Draw the number of queries in each band of ranks, one bar per run; ranks count from 1."""
    bands = {name: rank_band(numbers) for name, numbers in ranks.items()}
    hover = "rank %{x}: %{y} queries"
    return _bands(bands, RANK_LABELS, "rank of the best true match", hover, "queries", colours)


def occurrence_band(counts: np.ndarray) -> np.ndarray:
    """Map occurrences to indices into OCCURRENCE_LABELS."""
    return np.searchsorted(OCCURRENCE_EDGES, counts)


def occurrence_bands(counts: Values, k: int, colours: Tone) -> go.Figure:
    """Draw the number of candidates by their k-occurrences, one bar per run."""
    bands = {name: occurrence_band(numbers) for name, numbers in counts.items()}
    label = f"queries with the candidate among their first {k}"
    hover = "retrieved by %{x} queries: %{y} candidates"
    return _bands(bands, OCCURRENCE_LABELS, label, hover, "candidates", colours)


def _bands(bands: Values, labels: Sequence[str], x: str, hover: str, y: str, colours: Tone) -> go.Figure:
    traces = []
    for name, band, colour in draw.coloured(bands, colours):
        counts = np.bincount(band, minlength=len(labels))
        traces.append(draw.bar(labels, counts, name, colour, hover, **_numbers(counts, len(bands))))
    return draw.figure(colours, traces, x, y, height=RANK_HEIGHT, runs=len(bands), xaxis={"type": "category"})
