"""Figures of the Clusters page: all clusters by size and agreement, the words that mark one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, plain

WORDS_HEIGHT = 300


def cluster_map(table: pd.DataFrame, opened: int | None, colours: Tone) -> go.Figure:
    """Every cluster as a dot: how many pairs it holds, and in how many of them image and caption agree."""
    number, size, agreement = (table[name].to_numpy() for name in ("cluster", "size", "agreement"))
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": size,
        "y": agreement,
        "customdata": number,
        "text": [f"cluster {c}: {plain(words)}" for c, words in zip(number, table["words"], strict=True)],
        "hovertemplate": "%{text}<br>%{x:,} pairs, %{y:.0f} % agree<extra></extra>",
        "marker": {"color": colours.runs[1], "size": 9, "opacity": 0.75, "line": {"width": 0}},
        "selected": {"marker": {"opacity": 0.75}},
        "unselected": {"marker": {"opacity": 0.75}},
    }
    traces = [dots]
    here = np.flatnonzero(number == opened) if opened is not None else np.zeros(0, dtype=int)
    if len(here):
        traces.append(
            {
                "type": "scatter", "mode": "markers", "x": size[here], "y": agreement[here],
                "hoverinfo": "skip",
                "marker": {"color": colours.ink, "size": 17, "symbol": "circle-open", "line": {"width": 2.5}},
            }
        )  # fmt: skip
    return figure(
        colours, traces, "pairs in the cluster", "image and caption agree, %", showlegend=False,
        xaxis={"rangemode": "tozero"}, yaxis={"range": [-4, 104]}, dragmode="pan",
    )  # fmt: skip


def word_bars(words: pd.DataFrame, colours: Tone) -> go.Figure:
    """The words that mark a cluster, the strongest on top."""
    shown = words.iloc[::-1]
    bars = {
        "type": "bar",
        "orientation": "h",
        "x": shown["score"].to_numpy(),
        "y": [plain(word) for word in shown["word"]],
        "customdata": shown["count"].to_numpy(),
        "marker": {"color": colours.mark, "cornerradius": 3},
        "hovertemplate": "%{y}: z %{x:.1f}, %{customdata} times here<extra></extra>",
    }
    return figure(
        colours, [bars], "how strongly the word marks the cluster, z", "", height=WORDS_HEIGHT, showlegend=False,
        yaxis={"type": "category", "showgrid": False, "tickfont": {"size": 13, "color": colours.ink}},
    )  # fmt: skip
