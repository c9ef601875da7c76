"""A finished table as a picture: R@sum of every row and seed, and the differences beside those of the paper.

One HTML file that needs nothing else (Plotly inside), so that it opens offline and can be sent on.
"""

from __future__ import annotations

import html
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from coder_core.ablation.results import SUM, ResultRow, Results, reported_sum

OURS, OTHER, PAPER, NOISE = "#0b6e8a", "#7a4f9a", "#b5651d", "#8a949b"
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
    drawn = make_subplots(
        cols=2, rows=1, horizontal_spacing=0.04 if not curve else 0.24, shared_yaxes=not curve,
        subplot_titles=(f"R@sum on {results.split}", f"R@sum − {html.escape(results.reference)}"),
    )  # fmt: skip
    if curve:
        _curves(drawn, results)
    else:
        _dots(drawn, rows)
    _differences(drawn, results)
    about = html.escape(results.table.about)
    drawn.update_layout(
        title={"text": f"<b>{html.escape(results.table.name)}</b><br><sup>{about}</sup>", "x": 0.01, "xanchor": "left"},
        height=max(SMALLEST, MARGINS + ROW_HEIGHT * len(rows)), template="plotly_white", margin={"t": 110, "l": 20},
        font={"size": 14}, legend={"orientation": "h", "y": -70 / max(SMALLEST, ROW_HEIGHT * len(rows)), "x": 0},
    )  # fmt: skip
    for axis in ("yaxis2",) if curve else ("yaxis", "yaxis2"):
        drawn.layout[axis].update(categoryorder="array", categoryarray=[_label(row) for row in reversed(rows)])
    return drawn


def _label(row: ResultRow) -> str:
    return html.escape(row.row.about or row.row.name)


def _dots(drawn: go.Figure, rows: tuple[ResultRow, ...]) -> None:
    seeds = [(value, _label(row), seed) for row in rows for seed, value in zip(row.seeds, row.sums, strict=True)]
    drawn.add_scatter(
        x=[one[0] for one in seeds], y=[one[1] for one in seeds], mode="markers", name="one seed",
        marker={"size": 8, "color": SEEDS}, customdata=[one[2] for one in seeds],
        hovertemplate="seed %{customdata}: %{x:.1f}<extra></extra>", row=1, col=1,
    )  # fmt: skip
    drawn.add_scatter(
        x=[row.metrics[SUM].mean for row in rows], y=[_label(row) for row in rows], mode="markers",
        name="mean ± spread", marker={"size": 13, "color": OURS},
        error_x={"type": "data", "array": [_spread(row) for row in rows]},
        hovertemplate="mean %{x:.1f}<extra></extra>", row=1, col=1,
    )  # fmt: skip


def _curves(drawn: go.Figure, results: Results) -> None:
    groups = list(dict.fromkeys(row.row.group for row in results.rows))
    for number, group in enumerate(groups):
        rows = sorted((row for row in results.rows if row.row.group == group), key=lambda row: row.row.x or 0.0)
        drawn.add_scatter(
            x=[f"{row.row.x:g}" for row in rows], y=[row.metrics[SUM].mean for row in rows], mode="lines+markers",
            name=html.escape(group) or "mean ± spread", line={"color": OURS if number == len(groups) - 1 else OTHER},
            marker={"size": 11}, error_y={"type": "data", "array": [_spread(row) for row in rows]}, row=1, col=1,
        )  # fmt: skip
    order = sorted({row.row.x or 0.0 for row in results.rows})
    drawn.update_xaxes(
        title=html.escape(results.table.x_name), type="category", categoryorder="array",
        categoryarray=[f"{x:g}" for x in order], row=1, col=1,
    )  # fmt: skip
    drawn.update_yaxes(title="R@sum", row=1, col=1)


def _differences(drawn: go.Figure, results: Results) -> None:
    rows = [row for row in results.rows if row.against is not None]
    colours = [OURS if row.against is not None and row.against.beyond_noise else NOISE for row in rows]
    found = [row.against for row in rows if row.against is not None]
    drawn.add_scatter(
        x=[one.mean for one in found], y=[_label(row) for row in rows], mode="markers", showlegend=False,
        marker={"size": 13, "color": colours},
        error_x={
            "type": "data", "symmetric": False, "color": NOISE, "array": [one.high - one.mean for one in found],
            "arrayminus": [one.mean - one.low for one in found],
        },
        hovertemplate="%{x:+.1f}<extra></extra>", row=1, col=2,
    )  # fmt: skip
    for colour, name in ((OURS, "beyond noise (95%)"), (NOISE, "within noise")):
        drawn.add_scatter(
            x=[None], y=[None], mode="markers", marker={"size": 11, "color": colour}, name=name, row=1, col=2
        )
    base = next((reported_sum(row.reported) for row in results.table.rows if row.name == results.reference), None)
    told = [(row, reported_sum(row.row.reported)) for row in results.rows if row.row.name != results.reference]
    shown = [(row, total - base) for row, total in told if total is not None and base is not None]
    if shown:
        drawn.add_scatter(
            x=[value for _, value in shown], y=[_label(row) for row, _ in shown], mode="markers",
            name="the paper's difference (Flickr30K)",
            marker={"size": 11, "color": PAPER, "symbol": "diamond-open", "line": {"width": 2}},
            hovertemplate="the paper: %{x:+.1f}<extra></extra>", row=1, col=2,
        )  # fmt: skip
    drawn.add_vline(x=0, line={"color": NOISE, "width": 1, "dash": "dot"}, row=1, col=2)


def _spread(row: ResultRow) -> float:
    return row.metrics[SUM].spread or 0.0
