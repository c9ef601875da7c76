"""Draw a finished table: R@sum of every row and seed, and the differences beside those of the paper.

One HTML file with Plotly inside, which opens offline.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from coder_core.ablation.results import SUM, ResultRow, Results, reported_sum

MEASURED, OTHER, PAPER, NOISE = "#0b6e8a", "#7a4f9a", "#b5651d", "#8a949b"
LINES = (MEASURED, OTHER, PAPER, "#4c7a34", "#a8325e", "#30475e", "#c08a00")
SEEDS = "rgba(11, 110, 138, 0.45)"
ROW_HEIGHT, MARGINS, SMALLEST = 46, 190, 330


def write_figure(results: Results, folder: Path) -> Path:
    """`results.html` in `folder`."""
    path = folder / "results.html"
    page = figure(results).to_html(include_plotlyjs=True, full_html=True, config={"displaylogo": False})
    title = html.escape(f"Ablation: {results.table.name}")
    path.write_text(page.replace("<head>", f"<head><title>{title}</title>", 1), "utf-8")
    return path


def figure(results: Results) -> go.Figure:
    """Left: R@sum, mean and spread, every seed a dot (a curve where the table is one). Right: R@sum minus the
    reference's with its 95% interval, and the paper's difference."""
    rows = results.rows
    curve = bool(results.table.x_name) and all(row.row.x is not None for row in rows)
    gains = curve and bool(results.table.compared_with)
    picture = make_subplots(
        cols=2,
        rows=1,
        horizontal_spacing=0.1 if gains else 0.24 if curve else 0.04,
        shared_yaxes=not curve,
        subplot_titles=(f"R@sum on {results.split}", f"R@sum − {html.escape(results.reference)}"),
    )
    if curve:
        _add_curves(picture, results)
    else:
        _add_dots(picture, rows)
    if gains:
        _add_gains(picture, results)
    else:
        _add_differences(picture, results)
    about = html.escape(results.table.about)
    height = SMALLEST + MARGINS if gains else max(SMALLEST, MARGINS + ROW_HEIGHT * len(rows))
    picture.update_layout(
        title={
            "text": f"<b>{html.escape(results.table.name)}</b><br><sup>{about}</sup>",
            "x": 0.01,
            "xanchor": "left",
        },
        height=height,
        template="plotly_white",
        margin={"t": 110, "l": 20},
        font={"size": 14},
        legend={"orientation": "h", "y": -70 / (height - MARGINS), "x": 0},
    )
    for axis in () if gains else ("yaxis2",) if curve else ("yaxis", "yaxis2"):
        picture.layout[axis].update(categoryorder="array", categoryarray=_labels(rows)[::-1])
    return picture


def _labels(rows: Sequence[ResultRow]) -> list[str]:
    return [html.escape(row.row.about or row.row.name) for row in rows]


def _means(rows: Sequence[ResultRow]) -> tuple[list[float], dict[str, Any]]:
    """R@sum of the rows, and error bars of one standard deviation."""
    spreads = [row.metrics[SUM].spread or 0.0 for row in rows]
    return [row.metrics[SUM].mean for row in rows], {"type": "data", "array": spreads}


def _add_dots(picture: go.Figure, rows: Sequence[ResultRow]) -> None:
    seeds = [
        (value, label, seed)
        for row, label in zip(rows, _labels(rows), strict=True)
        for seed, value in zip(row.seeds, row.sums, strict=True)
    ]
    values, labels, numbers = (list(column) for column in zip(*seeds, strict=True))
    picture.add_scatter(
        x=values,
        y=labels,
        mode="markers",
        name="one seed",
        marker={"size": 8, "color": SEEDS},
        customdata=numbers,
        hovertemplate="seed %{customdata}: %{x:.1f}<extra></extra>",
        row=1,
        col=1,
    )
    means, bars = _means(rows)
    picture.add_scatter(
        x=means,
        y=_labels(rows),
        mode="markers",
        name="mean ± spread",
        marker={"size": 13, "color": MEASURED},
        error_x=bars,
        hovertemplate="mean %{x:.1f}<extra></extra>",
        row=1,
        col=1,
    )


def _add_curves(picture: go.Figure, results: Results) -> None:
    """R@sum by `x`, a line for every group."""
    for colour, (group, rows) in zip(cycle(LINES), _groups(results.rows), strict=False):
        means, bars = _means(rows)
        picture.add_scatter(
            x=_positions(rows),
            y=means,
            mode="lines+markers",
            error_y=bars,
            name=html.escape(group) or "mean ± spread",
            line={"color": colour},
            marker={"size": 11},
            legendgroup=group,
            row=1,
            col=1,
        )
    _label_positions(picture, results, 1)
    picture.update_yaxes(title="R@sum", row=1, col=1)


def _add_gains(picture: go.Figure, results: Results) -> None:
    """R@sum minus that of the reference at the same `x`, with its 95% interval, a line for every group."""
    for colour, (group, rows) in zip(cycle(LINES), _groups(results.rows), strict=False):
        compared = [row for row in rows if row.against is not None]
        gains = [row.against for row in compared if row.against is not None]
        picture.add_scatter(
            x=_positions(compared),
            y=[gain.mean for gain in gains],
            mode="lines+markers",
            line={"color": colour},
            marker={"size": 11},
            legendgroup=group,
            name=html.escape(group),
            showlegend=False,
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [gain.high - gain.mean for gain in gains],
                "arrayminus": [gain.mean - gain.low for gain in gains],
            },
            hovertemplate="%{y:+.1f}",
            row=1,
            col=2,
        )
    _label_positions(picture, results, 2)
    picture.add_hline(y=0, line={"color": NOISE, "width": 1, "dash": "dot"}, row=1, col=2)


def _groups(rows: Sequence[ResultRow]) -> list[tuple[str, list[ResultRow]]]:
    """The rows of every line, by `x`."""
    ordered = sorted(rows, key=lambda row: row.row.x or 0.0)
    return [
        (name, [row for row in ordered if row.row.group == name])
        for name in dict.fromkeys(r.row.group for r in rows)
    ]


def _positions(rows: Sequence[ResultRow]) -> list[str]:
    return [f"{row.row.x:g}" for row in rows]


def _label_positions(picture: go.Figure, results: Results, column: int) -> None:
    positions = sorted({row.row.x or 0.0 for row in results.rows})
    picture.update_xaxes(
        title=html.escape(results.table.x_name),
        type="category",
        categoryorder="array",
        categoryarray=[f"{x:g}" for x in positions],
        row=1,
        col=column,
    )


def _add_differences(picture: go.Figure, results: Results) -> None:
    compared = [(row, row.against) for row in results.rows if row.against is not None]
    differences = [difference for _, difference in compared]
    picture.add_scatter(
        x=[difference.mean for difference in differences],
        y=_labels([row for row, _ in compared]),
        mode="markers",
        showlegend=False,
        marker={"size": 13, "color": [MEASURED if value.beyond_noise else NOISE for value in differences]},
        error_x={
            "type": "data",
            "symmetric": False,
            "color": NOISE,
            "array": [difference.high - difference.mean for difference in differences],
            "arrayminus": [difference.mean - difference.low for difference in differences],
        },
        hovertemplate="%{x:+.1f}<extra></extra>",
        row=1,
        col=2,
    )
    for colour, name in ((MEASURED, "beyond noise (95%)"), (NOISE, "within noise")):
        picture.add_scatter(
            x=[None], y=[None], mode="markers", marker={"size": 11, "color": colour}, name=name, row=1, col=2
        )
    reported = {row.name: reported_sum(row.reported) for row in results.table.rows}
    base = reported.pop(results.reference, None)
    rows = [row for row in results.rows if base is not None and reported.get(row.row.name) is not None]
    if rows:
        picture.add_scatter(
            x=[(reported[row.row.name] or 0.0) - (base or 0.0) for row in rows],
            y=_labels(rows),
            mode="markers",
            name="the paper's difference (Flickr30K)",
            marker={"size": 11, "color": PAPER, "symbol": "diamond-open", "line": {"width": 2}},
            hovertemplate="the paper: %{x:+.1f}<extra></extra>",
            row=1,
            col=2,
        )
    picture.add_vline(x=0, line={"color": NOISE, "width": 1, "dash": "dot"}, row=1, col=2)
