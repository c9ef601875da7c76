"""The joint space: one or two maps in one figure, so that a lasso on one selects on both."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.colouring import Kinds, Ramp
from app.charts.figure import Part, Tone, bar, cells, colour_bar, figure, middles, plain, points, rings

# letters that fit above one of two maps on a phone
MAP_HEIGHT = 520
SHARES_HEIGHT = 210
BINS = 20
NAME_LINE = 24
GROUND_CELLS = 120
DIM = 0.10
FAINT_LINE = 0.55
SYMBOLS = ("diamond", "circle")
SIZES = ((8, 4.5), (6, 3.2))  # image and caption; few points, many points
MANY = 3_000


@dataclass(frozen=True)
class Map:
    """One run's map: (N, 2) all points, and their colouring."""

    name: str
    plane: np.ndarray
    colouring: Kinds | Ramp


@dataclass(frozen=True)
class Marks:
    """Marks and lines drawn over the maps: (N,) bool, the selected points (None: no selection); (k, 2) pairs of points
    to join by a line; a point to mark by a large ring; map and corners of every selected area; (k,) points found by a
    search, to mark by small rings."""

    selected: np.ndarray | None = None
    pairs: np.ndarray | None = None
    focus: int | None = None
    areas: tuple[tuple[int, Sequence[tuple[float, float]]], ...] = ()
    matches: np.ndarray | None = None


def joint_map(
    maps: Sequence[Map], images: int, plotted: np.ndarray, labels: Sequence[str], marks: Marks, colours: Tone
) -> go.Figure:
    """Draw images as diamonds and captions as dots on one or two maps; unselected points fade. Points below `images`
    are images; `plotted` are the points to draw, ascending, with hover texts in `labels`."""
    traces: list[Part] = []
    for number, panel in enumerate(maps):
        suffix = str(number + 1) if number else ""
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        if len(plotted) < len(panel.plane):
            traces.append(_density(panel.plane, colours) | axes)
        if marks.pairs is not None and len(marks.pairs):
            traces.append(_lines(panel.plane, marks.pairs, colours) | axes)
        traces += [trace | axes for trace in _points(panel, number == 0, images, plotted, labels, marks)]
        if marks.matches is not None and len(marks.matches):
            x, y = panel.plane[marks.matches].T
            traces.append(rings(x, y, colours, 12) | {"type": "scattergl"} | axes)
        if marks.focus is not None:
            x, y = panel.plane[marks.focus].tolist()
            traces.append(rings([x], [y], colours, 20) | axes)

    return figure(colours, traces, "", "", height=MAP_HEIGHT, **_layout(maps, marks, colours))


def _points(
    panel: Map, legend: bool, images: int, plotted: np.ndarray, labels: Sequence[str], marks: Marks
) -> list[Part]:
    colouring = panel.colouring
    size = np.asarray(SIZES[len(plotted) > MANY])
    is_caption = (plotted >= images).astype(int)
    symbols = np.asarray(SYMBOLS, dtype=object)
    texts = np.asarray(labels, dtype=object)
    # groups are drawn in reverse order, so that the most frequent kind, or the few images, are on top
    groups = colouring.codes[plotted] if isinstance(colouring, Kinds) else is_caption
    traces = []
    for group in np.unique(groups)[::-1].tolist():
        members = np.flatnonzero(groups == group)
        numbers = plotted[members]
        kind = is_caption[members] if np.ptp(is_caption[members]) else int(is_caption[members[0]])
        marker: Part = {"size": size[kind], "symbol": symbols[kind], "opacity": 0.85, "line": {"width": 0}}
        name = ""
        if isinstance(colouring, Kinds):
            name = colouring.names[group]
            marker["color"] = colouring.colours[group]
        else:
            marker |= {"color": colouring.values[numbers], "coloraxis": "coloraxis"}
        x, y = panel.plane[numbers].T
        more: Part = {"customdata": numbers.astype(np.int32), "text": texts[members]}
        trace = points(x, y, name, "%{text}", marker, **more)
        in_legend = {"legendgroup": plain(name), "showlegend": legend and isinstance(colouring, Kinds)}
        opacity = {"selected": {"marker": {"opacity": 1.0}}, "unselected": {"marker": {"opacity": DIM}}}
        selected = None if marks.selected is None else np.flatnonzero(marks.selected[numbers])
        trace |= {"type": "scattergl", "selectedpoints": selected, **in_legend, **opacity}
        traces.append(trace)

    return traces


def _density(plane: np.ndarray, colours: Tone) -> Part:
    """Draw the density of all points, for maps with more points than are plotted."""
    counts, x, y = np.histogram2d(plane[:, 0], plane[:, 1], bins=GROUND_CELLS)
    stops = [[0, colours.grid], [1, colours.faint]]
    heights = np.where(counts > 0, np.log1p(counts), np.nan).T
    return cells(heights, middles(x), middles(y), "", stops, opacity=0.5)


def _lines(plane: np.ndarray, pairs: np.ndarray, colours: Tone) -> Part:
    ends = np.full((len(pairs), 3, 2), np.nan)
    ends[:, :2] = plane[pairs]
    x, y = ends.reshape(-1, 2).T
    style = {"mode": "lines", "line": {"color": colours.faint, "width": 1}, "opacity": FAINT_LINE}
    return points(x, y, "", "", {}, showlegend=False, **style) | {"type": "scattergl"}


def _layout(maps: Sequence[Map], marks: Marks, colours: Tone) -> dict[str, Any]:
    bare = {"showgrid": False, "zeroline": False, "showticklabels": False, "ticks": "", "title": {"text": ""}}
    bare |= {"showline": True, "linecolor": colours.grid, "mirror": True}
    width = 1.0 if len(maps) == 1 else 0.495
    planes = np.concatenate([panel.plane for panel in maps])  # the axes show all points of both maps
    low = planes.min(0)
    high = planes.max(0)
    edge = 0.04 * np.maximum(high - low, 1e-6)
    x_range, y_range = np.stack([low - edge, high + edge], axis=1).tolist()
    dots = {"type": "path", "line": {"color": colours.ink, "width": 1, "dash": "dot"}, "layer": "above"}
    shapes = []
    for number, corners in marks.areas:
        if number < len(maps):
            path = "L".join(f"{x:g},{y:g}" for x, y in corners)
            suffix = str(number + 1) if number else ""
            shapes.append(dots | {"path": f"M{path}Z", "xref": f"x{suffix}", "yref": f"y{suffix}"})

    names = [wrap(panel.name, NAME_LINE) for panel in maps]
    layout: dict[str, Any] = {
        "font": {"color": colours.ink, "size": 13, "family": "Source Sans, sans-serif"},
        "xaxis": {**bare, "domain": [0, width], "range": x_range},
        "yaxis": {**bare, "scaleanchor": "x", "range": y_range},
        "dragmode": "lasso",
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "y": -0.02, "yanchor": "top", "itemsizing": "constant"},
        "margin": {"l": 4, "r": 4, "t": 12 + 18 * max(map(len, names)), "b": 8},
        "annotations": [_name(lines, 1 - width if n else 0, colours) for n, lines in enumerate(names)],
        "shapes": shapes,
    }
    if len(maps) > 1:  # one zoom for both
        layout["xaxis2"] = {**bare, "domain": [1 - width, 1], "anchor": "y2", "matches": "x"}
        layout["yaxis2"] = {**bare, "anchor": "x2", "matches": "y"}
    if isinstance(ramp := maps[0].colouring, Ramp):
        heading = {"text": plain(ramp.name), "side": "top", "font": {"size": 12, "color": colours.faint}}
        ticks = {"tickvals": ramp.ticks, "ticktext": ramp.labels, "title": heading, "ypad": 10}
        below = {"x": 0, "xanchor": "left", "y": -0.02, "yanchor": "top", "len": 0.4, "thickness": 9}
        bar = colour_bar(colours, **ticks, **below)
        scale = [list(step) for step in ramp.scale]
        layout["coloraxis"] = {"cmin": ramp.low, "cmax": ramp.high, "colorscale": scale, "colorbar": bar}

    return layout


def _name(lines: Sequence[str], x: float, colours: Tone) -> dict[str, Any]:
    above = {"xref": "paper", "yref": "paper", "x": x, "y": 1, "xanchor": "left", "yanchor": "bottom"}
    look: Part = {"showarrow": False, "align": "left", "font": {"size": 14, "color": colours.ink}}
    return {"text": f"<b>{'<br>'.join(map(plain, lines))}</b>", **look, **above}


def share_bars(colouring: Kinds | Ramp, selected: np.ndarray, name: str, colours: Tone) -> go.Figure:
    """Draw the shares (%) of kinds, or of twenty steps of a ramp, among all points and among the `selected` ones, which
    are called `name`."""
    axes: Part = {}
    if isinstance(colouring, Kinds):
        x: Any = [plain(kind) for kind in colouring.names]
        counts = [np.bincount(colouring.codes[rows], minlength=len(x)) for rows in (slice(None), selected)]
    else:
        edges = np.linspace(colouring.low, colouring.high, BINS + 1)
        x = middles(edges)
        values = np.clip(colouring.values, colouring.low, colouring.high)
        counts = [np.histogram(values[rows], edges)[0] for rows in (slice(None), selected)]
        axes["xaxis"] = {"tickvals": colouring.ticks, "ticktext": colouring.labels}

    shares = [100 * count / max(int(count.sum()), 1) for count in counts]
    looks = (("all", colours.faint), (name, colours.runs[1]))
    bars = [
        bar(x, share, label, colour, "%{y:.1f} %")
        for share, (label, colour) in zip(shares, looks, strict=True)
    ]
    return figure(colours, bars, "", "share (%)", height=SHARES_HEIGHT, barmode="group", **axes)
