"""Colours, layout, traces and escaping for all figures.

Colours are Okabe and Ito's, which colour-blind people can tell apart; the first run is vermilion, the second blue.
Names from outside go through `plain`, because Plotly renders a subset of HTML in every text.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import plotly.graph_objects as go

HEIGHT = 330
LEGEND_LINE = 19
T = TypeVar("T")
Ends = tuple[float, float]
Part = dict[str, Any]  # a trace, a shape or a part of the layout
HIDDEN: Part = {"visible": False, "showgrid": False}  # an axis
# largest difference due to rounding; room on either side of a single value
ROUNDING = 1e-5
ROOM = 0.05
SQUEEZED = 0.1  # if a figure would fill less of a common axis, all keep their own
OWN_SCALE = " · own scale"


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


_LIGHT_RUNS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#B58900", "#56B4E9")
_LIGHT_PAGE = {"paper": "#FFFFFF", "grid": "#E3E9EF", "faint": "#6B7885", "ink": "#1B2733"}
_LIGHT_SIGNS = {"mark": "#009E73", "good": "#00795A", "bad": "#B84A00"}
LIGHT = Tone(runs=_LIGHT_RUNS, ramp=("#F3F6F9", "#0072B2"), **_LIGHT_PAGE, **_LIGHT_SIGNS)
_DARK_RUNS = ("#F0914A", "#56B4E9", "#2FC79B", "#E3A3C6", "#F0E442", "#B9A5F2")
_DARK_PAGE = {"paper": "#10161D", "grid": "#27323D", "faint": "#93A1AF", "ink": "#E4EAF0"}
_DARK_SIGNS = {"mark": "#2FC79B", "good": "#2FC79B", "bad": "#F0914A"}
DARK = Tone(runs=_DARK_RUNS, ramp=("#1A232D", "#56B4E9"), **_DARK_PAGE, **_DARK_SIGNS)


def tone(theme: str | None) -> Tone:
    """Return the colours of "light" or "dark"; anything else is light."""
    return DARK if theme == "dark" else LIGHT


def plain(text: object) -> str:
    """Escape text for Plotly: no link, no markup, no template variable."""
    return html.escape(str(text)).replace("%{", "%&#123;").replace("$", "&#36;")


def run_colour(position: int, runs: int, colours: Tone) -> str:
    """Return a run's colour: the first of several is vermilion, the last, or a single one, is blue."""
    if position == runs - 1:
        return colours.runs[1]
    return colours.runs[(position + (position > 0)) % len(colours.runs)]


def coloured(runs: Mapping[str, T], colours: Tone) -> Iterator[tuple[str, T, str]]:
    """Yield name, values and colour of every run."""
    for position, (name, values) in enumerate(runs.items()):
        yield name, values, run_colour(position, len(runs), colours)


def mixed(first: str, second: str, share: float) -> str:
    """Return the colour `share` of the way from one "#RRGGBB" to another."""
    ends = [[int(colour[start : start + 2], 16) for start in (1, 3, 5)] for colour in (first, second)]
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in zip(*ends, strict=True))


def figure(
    colours: Tone,
    traces: Sequence[Part],
    x: str,
    y: str,
    *,
    height: int = HEIGHT,
    runs: int = 0,
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    **layout: Any,
) -> go.Figure:
    """Draw traces with the common layout; a legend of more than two `runs` adds to the height. The figure is built in
    one step, because Plotly's update_* methods take ten times as long."""
    faint = {"color": colours.faint}
    axis = {"gridcolor": colours.grid, "zeroline": False, "automargin": True, "tickfont": faint}
    shared = {
        "height": height + LEGEND_LINE * max(0, runs - 2),
        "margin": {"l": 8, "r": 12, "t": 34, "b": 8},
        "font": {"color": colours.ink, "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "hoverlabel": {"align": "left", "font": {"size": 13}},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": colours.faint, "activecolor": colours.ink},
        "bargap": 0.25,
        "showlegend": True,
        "xaxis": {**axis, "title": {"text": x, "font": faint}, "showgrid": False, **(xaxis or {})},
        "yaxis": {**axis, "title": {"text": y, "font": faint}, **(yaxis or {})},
    }
    return go.Figure(data=list(traces), layout=shared | layout)


def bar(x: Any, y: Any, name: str, colour: str, hover: str, **more: Any) -> Part:
    """Draw bars of one run or kind; `hover` is Plotly's template for a bar."""
    marker = {"color": colour, "cornerradius": 3}
    return _trace("bar", x, y, name, hover, plain(name), {"marker": marker, **more})


def line(x: Any, y: Any, name: str, colour: str, hover: str, *, dots: bool = False, **style: Any) -> Part:
    """Draw a line of one run or kind, with `dots` at its points if wanted; `style` is Plotly's for lines."""
    mode = "lines+markers" if dots else "lines"
    style = {"color": colour, "width": 2, **style}
    more = {"mode": mode, "line": style, "marker": {"size": 6}}
    return _trace("scatter", x, y, name, hover, plain(name), more)


def points(x: Any, y: Any, name: str, hover: str, marker: Mapping[str, Any], **more: Any) -> Part:
    """Draw marks of one run or kind; `marker` is Plotly's."""
    return _trace("scatter", x, y, name, hover, "", {"mode": "markers", "marker": marker, **more})


def cells(z: Any, x: Any, y: Any, hover: str, stops: Sequence[Any], **more: Any) -> Part:
    """Draw a heat map without a colour bar; cells without a number show the background."""
    bare = {"z": z, "colorscale": stops, "showscale": False, "hoverongaps": False}
    return _trace("heatmap", x, y, "", hover, "", bare | more)


def _trace(kind: str, x: Any, y: Any, name: str, hover: str, beside: str, more: Mapping[str, Any]) -> Part:
    """Make a trace with `beside` next to its hover text; an empty template means no hover text."""
    template = {"hovertemplate": f"{hover}<extra>{beside}</extra>"} if hover else {"hoverinfo": "skip"}
    return {"type": kind, "x": x, "y": y, "name": plain(name), **template, **more}


def rings(x: Any, y: Any, colours: Tone, size: Any) -> Part:
    """Draw rings around points, without hover text."""
    marker = {"color": colours.ink, "size": size, "symbol": "circle-open", "line": {"width": 2.5}}
    return points(x, y, "", "", marker, showlegend=False)


def histogram_bars(edges: np.ndarray, y: Any, name: str, colour: str, opacity: float, unit: str) -> Part:
    """Draw the bars of a histogram."""
    marker = {"color": colour, "line": {"width": 0}}
    hover = "%{x:.3f}: %{y} " + unit
    more: Part = {"width": np.diff(edges), "opacity": opacity, "marker": marker}
    return bar(middles(edges), y, name, colour, hover, **more)


def common_ends(ends: Sequence[Ends]) -> tuple[list[Ends], str]:
    """Return the axis ends of figures beside each other, and a note for the axis title. The ends are common, unless
    that would squeeze a figure into a tenth: then each keeps its own, and the note states it."""
    low = min(end for end, _ in ends)
    high = max(end for _, end in ends)
    if min(b - a for a, b in ends) < SQUEEZED * (high - low):
        return list(ends), OWN_SCALE
    return [(low, high)] * len(ends), ""


def middles(edges: np.ndarray) -> np.ndarray:
    """Return the middles of bins."""
    return np.asarray((edges[:-1] + edges[1:]) / 2)


def segment(x: Ends, y: Ends, colour: str, width: float, dash: str, **more: Any) -> Part:
    """Draw a straight line from (x[0], y[0]) to (x[1], y[1])."""
    style = {"color": colour, "width": width, "dash": dash}
    return {"type": "line", "x0": x[0], "x1": x[1], "y0": y[0], "y1": y[1], "line": style, **more}


def vertical_line(x: float, colour: str, width: float, dash: str) -> Part:
    """Draw a line over the whole height at `x`."""
    return segment((x, x), (0, 1), colour, width, dash, yref="y domain")


def frame(left: float, top: float, right: float, bottom: float, colour: str, width: float) -> Part:
    """Draw the outline of a rectangle."""
    style = {"color": colour, "width": width}
    return {"type": "rect", "x0": left, "y0": top, "x1": right, "y1": bottom, "line": style}


def colour_bar(colours: Tone, **more: Any) -> dict[str, Any]:
    """Draw a flat colour bar above the figure."""
    font = {"color": colours.faint, "size": 11}
    above = {"x": 0.5, "y": 1.0, "yanchor": "bottom", "ypad": 6, "thickness": 8}
    return {"orientation": "h", "outlinewidth": 0, "tickfont": font, **above, **more}
