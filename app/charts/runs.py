"""Figures of the Overview: recall and training curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import HEIGHT, MOST_NUMBERED, Tone, bar, figure, legend_room, line, plain, run_colour

LINE_STYLES = ("solid", "dash", "dot", "dashdot")
CURVE_HEIGHT = 250
EPOCH_TICKS = 8


def recall_bars(metrics: Mapping[str, Mapping[str, float]], colours: Tone) -> go.Figure:
    """R@1, R@5, R@10 of both directions, one bar per run."""
    directions = (("i2t", "image → text"), ("t2i", "text → image"))
    recalls = [(f"{d}_r{k}", label, f"R@{k}") for d, label in directions for k in (1, 5, 10)]
    groups = [[label for _, label, _ in recalls], [k for _, _, k in recalls]]
    traces = []
    for position, (name, values) in enumerate(metrics.items()):
        heights = [values.get(key, float("nan")) for key, _, _ in recalls]
        colour = run_colour(position, len(metrics), colours)
        traces.append(
            bar(
                groups,
                heights,
                name,
                colour,
                "%{y:.1f} %",
                text=[f"{value:.1f}" for value in heights] if len(metrics) <= MOST_NUMBERED else None,
                textposition="outside",
                cliponaxis=False,
                textfont={"size": 11, "color": colours.ink},
            )
        )
    return figure(
        colours,
        traces,
        "",
        "recall, %",
        xaxis={"dividercolor": colours.grid},
        yaxis={"rangemode": "tozero"},
        bargroupgap=0.08,
        height=HEIGHT + legend_room(len(metrics)),
    )


def training_curves(frames: Mapping[str, pd.DataFrame], column: str, label: str, colours: Tone) -> go.Figure:
    """One line per run over the epochs; `frames` hold the columns "epoch" and `column`."""
    traces: list[dict[str, Any]] = []
    last = 1.0
    for position, (name, frame) in enumerate(frames.items()):
        if column not in frame or "epoch" not in frame:
            continue
        values = frame[["epoch", column]].dropna()
        last = max(last, float(values["epoch"].max())) if len(values) else last
        dash = LINE_STYLES[position // len(colours.runs) % len(LINE_STYLES)]
        traces.append(
            line(
                values["epoch"].to_numpy(),
                values[column].to_numpy(),
                name,
                run_colour(position, len(frames), colours),
                "epoch %{x}: %{y:.4g}",
                dots=len(values) <= 60,
                dash=dash,
            )
        )
    dtick = max(1, round(last / EPOCH_TICKS))
    height = CURVE_HEIGHT + legend_room(len(traces))
    return figure(colours, traces, "epoch", plain(label), height=height, xaxis={"tick0": 0, "dtick": dtick})
