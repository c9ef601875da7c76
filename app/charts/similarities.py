"""Similarities of matching and other pairs: both kinds in one figure, or one kind of any number of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, legend_room, line, run_colour

HEIGHT = 300


def similarity_curves(
    names: Sequence[str],
    edges: np.ndarray,
    positive: Sequence[np.ndarray],
    negative: Sequence[np.ndarray],
    colours: Tone,
) -> go.Figure:
    """Matching pairs (filled) and all others (line): share of the pairs in each bin."""
    traces = []
    for number, name in enumerate(names):
        colour = run_colour(number, len(names), colours)
        for counts, what, fill in ((positive[number], "matching", True), (negative[number], "others", False)):
            share = 100 * counts / max(int(counts.sum()), 1)
            trace = _steps(edges, share, f"{name}: {what}", colour, "%{x:.2f}: %{y:.1f} %")
            trace["line"]["dash"] = "solid" if fill else "dot"
            traces.append(trace | {"fill": "tozeroy" if fill else None, "opacity": 0.9})
    return figure(
        colours,
        traces,
        "similarity of image and caption",
        "share of the pairs, %",
        height=HEIGHT,
        xaxis={"range": _occupied(edges, [*positive, *negative])},
        yaxis={"rangemode": "tozero"},
    )


def similarity_densities(
    names: Sequence[str],
    edges: np.ndarray,
    counts: Sequence[np.ndarray],
    shown: Sequence[np.ndarray],
    what: str,
    colours: Tone,
) -> go.Figure:
    """One kind of pairs of any number of runs, every curve of area 1. DBL's figures 6 and 7.

    Args:
        names: of the runs. edges: of the bins. counts: (BINS,) of every run, of the pairs that are drawn.
        shown: counts whose range the axis has, so that two figures beside each other share it. what: the pairs' name.
    """
    width = float(edges[1] - edges[0])
    traces = [
        _steps(
            edges,
            one / (max(int(one.sum()), 1) * width),
            name,
            run_colour(number, len(names), colours),
            "%{x:.2f}: %{y:.2f}",
        )
        | {"fill": "tozeroy"}
        for number, (name, one) in enumerate(zip(names, counts, strict=True))
    ]
    return figure(
        colours,
        traces,
        f"similarity of {what}",
        "density",
        height=HEIGHT + legend_room(len(names)),
        xaxis={"range": _occupied(edges, shown)},
        yaxis={"rangemode": "tozero"},
    )


def _steps(edges: np.ndarray, heights: np.ndarray, name: str, colour: str, hover: str) -> dict[str, Any]:
    return line((edges[:-1] + edges[1:]) / 2, heights, name, colour, hover, shape="hvh")


def _occupied(edges: np.ndarray, counts: Sequence[np.ndarray]) -> list[float]:
    """From the first to the last bin that is not empty."""
    bins = np.flatnonzero(np.sum(counts, axis=0))
    if not len(bins):
        return [float(edges[0]), float(edges[-1])]
    return [float(edges[max(bins[0] - 1, 0)]), float(edges[min(bins[-1] + 2, len(edges) - 1)])]
