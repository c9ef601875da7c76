"""Figures of the Clusters page: all clusters by size and agreement, the words that mark one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import Tone, bar, figure, plain, rings

WORDS_HEIGHT = 300


def cluster_map(table: pd.DataFrame, opened: int | None, colours: Tone) -> go.Figure:
    """Every cluster as a dot: how many pairs it holds, and in how many of them image and caption agree."""
    number, size, agreement = (table[name].to_numpy() for name in ("cluster", "size", "agreement"))
    opacity = {"marker": {"opacity": 0.75}}
    traces = [
        {
            "type": "scatter",
            "mode": "markers",
            "x": size,
            "y": agreement,
            "customdata": number,
            "text": [f"cluster {c}: {plain(words)}" for c, words in zip(number, table["words"], strict=True)],
            "hovertemplate": "%{text}<br>%{x:,} pairs, %{y:.0f} % agree<extra></extra>",
            "marker": {"color": colours.runs[1], "size": 9, "opacity": 0.75, "line": {"width": 0}},
            "selected": opacity,
            "unselected": opacity,
        }
    ]
    here = np.flatnonzero(number == opened) if opened is not None else np.zeros(0, dtype=int)
    if len(here):
        traces.append(rings(size[here], agreement[here], colours, 17))
    return figure(
        colours,
        traces,
        "pairs in the cluster",
        "image and caption agree, %",
        showlegend=False,
        xaxis={"rangemode": "tozero"},
        yaxis={"range": [-4, 104]},
        dragmode="pan",
    )


def word_bars(words: pd.DataFrame, colours: Tone) -> go.Figure:
    """The words that mark a cluster, the strongest on top."""
    shown = words.iloc[::-1]
    words_bar = bar(
        shown["score"].to_numpy(),
        [plain(word) for word in shown["word"]],
        "",
        colours.mark,
        "%{y}: z %{x:.1f}, %{customdata} times here",
        orientation="h",
        customdata=shown["count"].to_numpy(),
    )
    return figure(
        colours,
        [words_bar],
        "log-odds of the word in the cluster, z",
        "",
        height=WORDS_HEIGHT,
        showlegend=False,
        yaxis={"type": "category", "showgrid": False, "tickfont": {"size": 13, "color": colours.ink}},
    )
