"""Colours, layout, traces and escaping for all figures.

Colours are Okabe and Ito's, which colour-blind people can tell apart; the first run is vermilion, the second blue.
Names from outside go through `plain`, because Plotly renders a subset of HTML in every text.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

HEIGHT, LEGEND_LINE = 330, 19
MOST_NUMBERED = 3  # runs whose bars have room for their numbers


@dataclass(frozen=True)
class Tone:
    """The colours of one theme."""

    runs: tuple[str, ...]
    ink: str
    faint: str
    grid: str
    mark: str
    ramp: tuple[str, str]
    paper: str
    good: str
    bad: str


LIGHT = Tone(
    runs=("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#B58900", "#56B4E9"),
    ink="#1B2733",
    faint="#6B7885",
    grid="#E3E9EF",
    mark="#009E73",
    ramp=("#F3F6F9", "#0072B2"),
    paper="#FFFFFF",
    good="#00795A",
    bad="#B84A00",
)
DARK = Tone(
    runs=("#F0914A", "#56B4E9", "#2FC79B", "#E3A3C6", "#F0E442", "#B9A5F2"),
    ink="#E4EAF0",
    faint="#93A1AF",
    grid="#27323D",
    mark="#2FC79B",
    ramp=("#1A232D", "#56B4E9"),
    paper="#10161D",
    good="#2FC79B",
    bad="#F0914A",
)


def tone(theme: str | None) -> Tone:
    """The colours of "light" or "dark"; anything else is light."""
    return DARK if theme == "dark" else LIGHT


def plain(text: object) -> str:
    """Text escaped for Plotly: no link, no markup, no template variable."""
    return html.escape(str(text)).replace("%{", "%&#123;").replace("$", "&#36;")


def run_colour(position: int, runs: int, colours: Tone) -> str:
    """The first of several runs is vermilion, the last, or one alone, is blue."""
    if position == runs - 1:
        return colours.runs[1]
    return colours.runs[(position + (position > 0)) % len(colours.runs)]


def legend_room(runs: int) -> int:
    """Pixels that a figure needs in height for the legend of more than two runs."""
    return LEGEND_LINE * max(0, runs - 2)


def figure(
    colours: Tone,
    traces: Sequence[dict[str, Any]],
    x: str,
    y: str,
    *,
    height: int = HEIGHT,
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    **layout: Any,
) -> go.Figure:
    """Traces with the common layout. Built in one step, because Plotly's update_* methods take ten times as long."""
    axis = {
        "gridcolor": colours.grid,
        "zeroline": False,
        "automargin": True,
        "tickfont": {"color": colours.faint},
    }
    title = {"font": {"color": colours.faint}}
    shared = {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 34, "b": 8},
        "font": {"color": colours.ink, "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"align": "left", "font": {"size": 13}},
        "bargap": 0.25,
        "showlegend": True,
        "xaxis": {**axis, "title": {"text": x, **title}, "showgrid": False, **(xaxis or {})},
        "yaxis": {**axis, "title": {"text": y, **title}, **(yaxis or {})},
    }
    return go.Figure(data=list(traces), layout=shared | layout)


def vertical_line(x: float, colour: str, width: float, dash: str) -> dict[str, Any]:
    """A line over the whole height at `x`."""
    style = {"color": colour, "width": width, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "y domain", "line": style}


def bar(x: Any, y: Any, name: str, colour: str, hover: str, **more: Any) -> dict[str, Any]:
    """Bars of one run or kind; `hover` is Plotly's template for a bar."""
    return {
        "type": "bar",
        "x": x,
        "y": y,
        "name": plain(name),
        "marker": {"color": colour, "cornerradius": 3},
        "hovertemplate": f"{hover}<extra>{plain(name)}</extra>",
        **more,
    }


def line(
    x: Any, y: Any, name: str, colour: str, hover: str, *, dots: bool = False, **style: Any
) -> dict[str, Any]:
    """A line of one run or kind, with dots at its points; `style` is Plotly's for lines."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if dots else "lines",
        "x": x,
        "y": y,
        "name": plain(name),
        "line": {"color": colour, "width": 2, **style},
        "marker": {"size": 6},
        "hovertemplate": f"{hover}<extra>{plain(name)}</extra>",
    }


def rings(x: Any, y: Any, colours: Tone, size: Any) -> dict[str, Any]:
    """Rings around points; they show no hover text."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": x,
        "y": y,
        "hoverinfo": "skip",
        "showlegend": False,
        "marker": {"color": colours.ink, "size": size, "symbol": "circle-open", "line": {"width": 2.5}},
    }


def bars(
    edges: np.ndarray, counts: np.ndarray, name: str, colour: str, opacity: float, unit: str
) -> dict[str, Any]:
    """The bars of a histogram."""
    middles, marker = (edges[:-1] + edges[1:]) / 2, {"color": colour, "line": {"width": 0}}
    hover = "%{x:.3f}: %{y} " + unit
    return bar(middles, counts, name, colour, hover, width=np.diff(edges), opacity=opacity, marker=marker)
