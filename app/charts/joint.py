"""The joint space: one or two maps in one figure, so that a lasso on either is a lasso on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.colouring import Kinds, Ramp
from app.charts.figure import Tone, figure, plain, rings

MAP_HEIGHT = 520
GROUND_CELLS = 120
DIM, FAINT_LINE = 0.10, 0.55
SYMBOLS = ("diamond", "circle")
SIZES = ((8, 4.5), (6, 3.2))  # image and caption; few points, many points
MANY = 3_000


@dataclass(frozen=True)
class Map:
    """One run's map.

    Args:
        name: of the run. plane: (N, 2) all points. colouring: of all points.
    """

    name: str
    plane: np.ndarray
    colouring: Kinds | Ramp


@dataclass(frozen=True)
class Marks:
    """Marks and lines drawn over the maps.

    Args:
        selected: (N,) bool, or None when nothing is selected. pairs: (k, 2) points to be joined by a line.
        focus: a point with a large ring around it. areas: map and corners of every selected area.
        matches: (k,) points with a small ring around them: those a search found.
    """

    selected: np.ndarray | None = None
    pairs: np.ndarray | None = None
    focus: int | None = None
    areas: tuple[tuple[int, Sequence[tuple[float, float]]], ...] = ()
    matches: np.ndarray | None = None


def joint_map(
    maps: Sequence[Map],
    images: int,
    plotted: np.ndarray,
    labels: Sequence[str],
    marks: Marks,
    colours: Tone,
    title: str = "",
) -> go.Figure:
    """Images as diamonds, captions as dots; what is not selected fades.

    Args:
        maps: one or two. images: n; points below it are images. plotted: ascending points that are plotted.
        labels: (len(plotted),) hover text. title: of the colours.
    """
    traces: list[dict[str, Any]] = []
    for number, panel in enumerate(maps):
        axes = {"xaxis": f"x{number + 1 if number else ''}", "yaxis": f"y{number + 1 if number else ''}"}
        if len(plotted) < len(panel.plane):
            traces.append(_density(panel.plane, colours) | axes)
        if marks.pairs is not None and len(marks.pairs):
            traces.append(_lines(panel.plane, marks.pairs, colours) | axes)
        traces += [trace | axes for trace in _points(panel, number, images, plotted, labels, marks)]
        if marks.matches is not None and len(marks.matches):
            x, y = panel.plane[marks.matches].T
            traces.append(rings(x, y, colours, 12) | {"type": "scattergl"} | axes)
        if marks.focus is not None:
            x, y = panel.plane[marks.focus].tolist()
            traces.append(rings([x], [y], colours, 20) | axes)
    layout = _layout(maps, marks, colours, title)
    return figure(colours, traces, "", "", height=MAP_HEIGHT, **layout)


def _points(
    panel: Map, number: int, images: int, plotted: np.ndarray, labels: Sequence[str], marks: Marks
) -> list[dict[str, Any]]:
    size = SIZES[len(plotted) > MANY]
    caption = plotted >= images
    if isinstance(panel.colouring, Kinds):
        codes = panel.colouring.codes[plotted]
        # the last kind first: "other" lies at the bottom
        groups = [
            (np.flatnonzero(codes == code), code) for code in reversed(range(len(panel.colouring.names)))
        ]
    else:
        groups = [(np.flatnonzero(caption), -1), (np.flatnonzero(~caption), -1)]  # the few images on top
    text = np.asarray(labels, dtype=object)
    traces = []
    for members, code in groups:
        if not len(members):
            continue
        points = plotted[members]
        is_caption = caption[members].astype(int)
        marker: dict[str, Any] = {
            "size": np.asarray(size)[is_caption],
            "symbol": np.asarray(SYMBOLS, dtype=object)[is_caption],
            "opacity": 0.85,
            "line": {"width": 0},
        }
        name, legend = "", False
        if isinstance(panel.colouring, Kinds):
            marker["color"], name = panel.colouring.colours[code], plain(panel.colouring.names[code])
            legend = number == 0
        else:
            marker |= {"color": panel.colouring.values[points], "coloraxis": "coloraxis"}
        traces.append(
            {
                "type": "scattergl",
                "mode": "markers",
                "x": panel.plane[points, 0],
                "y": panel.plane[points, 1],
                "customdata": points,
                "text": text[members],
                "hovertemplate": "%{text}<extra></extra>",
                "marker": marker,
                "name": name,
                "legendgroup": name,
                "showlegend": legend,
                "selected": {"marker": {"opacity": 1.0}},
                "unselected": {"marker": {"opacity": DIM}},
                "selectedpoints": None if marks.selected is None else np.flatnonzero(marks.selected[points]),
            }
        )
    return traces


def _density(plane: np.ndarray, colours: Tone) -> dict[str, Any]:
    """Density of all points, for maps with more points than are plotted."""
    counts, x, y = np.histogram2d(plane[:, 0], plane[:, 1], bins=GROUND_CELLS)
    return {
        "type": "heatmap",
        "x": (x[:-1] + x[1:]) / 2,
        "y": (y[:-1] + y[1:]) / 2,
        "showscale": False,
        "z": np.where(counts > 0, np.log1p(counts), np.nan).T,
        "hoverinfo": "skip",
        "opacity": 0.5,
        "colorscale": [[0, colours.grid], [1, colours.faint]],
    }


def _lines(plane: np.ndarray, pairs: np.ndarray, colours: Tone) -> dict[str, Any]:
    ends = np.full((len(pairs), 3, 2), np.nan)
    ends[:, 0], ends[:, 1] = plane[pairs[:, 0]], plane[pairs[:, 1]]
    flat = ends.reshape(-1, 2)
    return {
        "type": "scattergl",
        "mode": "lines",
        "x": flat[:, 0],
        "y": flat[:, 1],
        "hoverinfo": "skip",
        "showlegend": False,
        "opacity": FAINT_LINE,
        "line": {"color": colours.faint, "width": 1},
    }


def _layout(maps: Sequence[Map], marks: Marks, colours: Tone, title: str) -> dict[str, Any]:
    bare: Mapping[str, Any] = {
        "showgrid": False,
        "zeroline": False,
        "showticklabels": False,
        "ticks": "",
        "showline": True,
        "linecolor": colours.grid,
        "mirror": True,
        "title": {"text": ""},
    }
    width = 1.0 if len(maps) == 1 else 0.495
    x_range, y_range = _ranges(maps)
    layout: dict[str, Any] = {
        "xaxis": {**bare, "domain": [0, width], "range": x_range},
        "yaxis": {**bare, "scaleanchor": "x", "range": y_range},
        "dragmode": "lasso",
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": -0.02, "yanchor": "top", "itemsizing": "constant"},
        "margin": {"l": 4, "r": 4, "t": 30, "b": 8},
        "annotations": [
            {
                "text": f"<b>{plain(panel.name)}</b>",
                "xref": "paper",
                "yref": "paper",
                "y": 1,
                "yanchor": "bottom",
                "x": 0 if number == 0 else 1 - width,
                "xanchor": "left",
                "showarrow": False,
                "font": {"size": 14, "color": colours.ink},
            }
            for number, panel in enumerate(maps)
        ],
        "shapes": [
            _outline(number, corners, colours) for number, corners in marks.areas if number < len(maps)
        ],
    }
    if len(maps) > 1:
        layout["xaxis2"] = {
            **bare,
            "domain": [1 - width, 1],
            "anchor": "y2",
            "matches": "x",
        }  # one zoom for both
        layout["yaxis2"] = {**bare, "anchor": "x2", "matches": "y"}
    colouring = maps[0].colouring
    if isinstance(colouring, Ramp):
        layout["coloraxis"] = {
            "cmin": colouring.low,
            "cmax": colouring.high,
            "colorscale": [list(step) for step in colouring.scale],
            "colorbar": {
                "orientation": "h",
                "x": 0,
                "xanchor": "left",
                "y": -0.02,
                "yanchor": "top",
                "len": 0.4,
                "thickness": 9,
                "outlinewidth": 0,
                "tickvals": colouring.ticks,
                "ticktext": colouring.labels,
                "title": {"text": title, "side": "top", "font": {"size": 12, "color": colours.faint}},
                "tickfont": {"color": colours.faint, "size": 11},
            },
        }
    return layout


def _ranges(maps: Sequence[Map]) -> tuple[list[float], list[float]]:
    """The range of axes that shows all points of both maps."""
    low = np.min([panel.plane.min(0) for panel in maps], axis=0)
    high = np.max([panel.plane.max(0) for panel in maps], axis=0)
    edge = 0.04 * np.maximum(high - low, 1e-6)
    (left, bottom), (right, top) = (low - edge).tolist(), (high + edge).tolist()
    return [left, right], [bottom, top]


def _outline(number: int, corners: Sequence[tuple[float, float]], colours: Tone) -> dict[str, Any]:
    path = "M" + "L".join(f"{x:g},{y:g}" for x, y in corners) + "Z"
    suffix = str(number + 1) if number else ""
    return {
        "type": "path",
        "path": path,
        "xref": f"x{suffix}",
        "yref": f"y{suffix}",
        "line": {"color": colours.ink, "width": 1, "dash": "dot"},
        "layer": "above",
    }
