"""Figures of the Overview: recall and training curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, plain, run_colour

LINE_STYLES = ("solid", "dash", "dot", "dashdot")
CURVE_HEIGHT = 250
EPOCH_TICKS = 8


def recall_bars(metrics: Mapping[str, Mapping[str, float]], colours: Tone) -> go.Figure:
    """R@1, R@5, R@10 of both directions, one bar a run."""
    directions = (("i2t", "image → text"), ("t2i", "text → image"))
    places = [(f"{d}_r{k}", label, f"R@{k}") for d, label in directions for k in (1, 5, 10)]
    traces = []
    for position, (name, values) in enumerate(metrics.items()):
        heights = [values.get(key, float("nan")) for key, _, _ in places]
        traces.append(
            {
                "type": "bar",
                "x": [[label for _, label, _ in places], [k for _, _, k in places]],
                "y": heights,
                "name": plain(name),
                "marker": {"color": run_colour(position, len(metrics), colours), "cornerradius": 3},
                "text": [f"{value:.1f}" for value in heights],
                "textposition": "outside",
                "cliponaxis": False,
                "textfont": {"size": 11, "color": colours.ink},
                "hovertemplate": "%{y:.1f} %<extra>" + plain(name) + "</extra>",
            }
        )
    return figure(
        colours, traces, "", "queries answered, %", xaxis={"dividercolor": colours.grid}, yaxis={"rangemode": "tozero"},
        bargroupgap=0.08,
    )  # fmt: skip


def training_curves(frames: Mapping[str, pd.DataFrame], column: str, label: str, colours: Tone) -> go.Figure:
    """One line a run over the epochs; `frames` hold the columns "epoch" and `column`."""
    traces: list[dict[str, Any]] = []
    last = 1.0
    for position, (name, frame) in enumerate(frames.items()):
        if column not in frame or "epoch" not in frame:
            continue
        kept = frame[["epoch", column]].dropna()
        last = max(last, float(kept["epoch"].max())) if len(kept) else last
        dash = LINE_STYLES[position // len(colours.runs) % len(LINE_STYLES)]
        traces.append(
            {
                "type": "scatter",
                "x": kept["epoch"].to_numpy(),
                "y": kept[column].to_numpy(),
                "name": plain(name),
                "mode": "lines+markers" if len(kept) <= 60 else "lines",
                "line": {"color": run_colour(position, len(frames), colours), "width": 2, "dash": dash},
                "marker": {"size": 6},
                "hovertemplate": "epoch %{x}: %{y:.4g}<extra>" + plain(name) + "</extra>",
            }
        )
    dtick = max(1, round(last / EPOCH_TICKS))
    return figure(colours, traces, "epoch", label, height=CURVE_HEIGHT, xaxis={"tick0": 0, "dtick": dtick})
