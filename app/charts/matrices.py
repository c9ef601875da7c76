"""Figures of the Similarity page: a matrix as a heat map, all with one rule of colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, plain

HEIGHT = 400
MOST_TICKS, TICK_ROOM = 5, 0.2  # two runs side by side leave a bar of 150 pixels each
SHARP_HEIGHT = 520  # more than 128 cells a side: a cell should be two pixels or more


@dataclass(frozen=True)
class HeatScale:
    """Meaning of the colours, common to all matrices beside each other.

    Args:
        low, high: ends of the colour bar.
        centre: blue below it, vermilion above; None for a single ramp from low to high.
        name: what the colour bar calls the centre; "" marks it like any other value.
    """

    low: float
    high: float
    centre: float | None = None
    name: str = ""


def heat_scale(matrices: Sequence[np.ndarray], centre: float | None = 0.0, name: str = "") -> HeatScale:
    """A scale that ends where the values end; without a centre it begins at 0.

    The ends hold 99.8 % of the cells, so that a single cell does not bleach the rest.
    """
    cells = np.concatenate([matrix[np.isfinite(matrix)].ravel() for matrix in matrices] or [np.zeros(0)])
    if not len(cells):
        return HeatScale(0.0, 1.0, centre, name)
    low, high = (float(value) for value in np.quantile(cells, [0.001, 0.999]))
    low = 0.0 if centre is None else low
    return HeatScale(low, max(high, low + 1e-9), centre, name)


def colour_stops(scale: HeatScale, colours: Tone) -> list[list[float | str]]:
    """Colours from the lower end to the upper one.

    A colour is as strong as the value is far from the centre, and full at the end that is further away. A centre
    beyond an end counts as that end: the values on its one side then share all shades of one colour.
    """
    ground, blue, vermilion = colours.ramp[0], colours.runs[1], colours.runs[0]
    if scale.centre is None:
        return [[0.0, ground], [1.0, colours.ramp[1]]]
    middle = (min(max(scale.centre, scale.low), scale.high) - scale.low) / (scale.high - scale.low)
    longer = max(middle, 1 - middle)
    below, above = _mixed(ground, blue, middle / longer), _mixed(ground, vermilion, (1 - middle) / longer)
    return [[0.0, below], [middle, ground], [1.0, above]]


def _mixed(ground: str, full: str, share: float) -> str:
    """The colour `share` of the way from one "#RRGGBB" to another."""
    ends = [[int(colour[start : start + 2], 16) for start in (1, 3, 5)] for colour in (ground, full)]
    return "#" + "".join(f"{round(a + share * (b - a)):02X}" for a, b in zip(*ends, strict=True))


def _ticks(scale: HeatScale) -> dict[str, Any]:
    """Round numbers on the colour bar, and the centre by its name; an arrow where it lies beyond an end."""
    low, high, centre = scale.low, scale.high, scale.centre
    step = 10 ** np.floor(np.log10(high - low) - 1)
    step *= next(
        factor for factor in (1, 2, 5, 10, 20, 50, 100) if (high - low) / (step * factor) <= MOST_TICKS
    )
    marks = {round(float(value), 10): "" for value in np.arange(np.ceil(low / step), high / step) * step}
    if scale.name and centre is not None:
        at, label = min(max(centre, low), high), f"{plain(scale.name)} {centre:g}"
        label = f"{label} →" if centre > high else f"← {label}" if centre < low else label
        marks = {value: "" for value in marks if abs(value - at) > TICK_ROOM * (high - low)} | {
            at: f"<b>{label}</b>"
        }
    return {
        "tickmode": "array",
        "tickvals": list(marks),
        "ticktext": [text or f"{value:g}" for value, text in marks.items()],
    }


def heat_map(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    scale: HeatScale,
    colours: Tone,
    *,
    unit: str,
    row_name: str,
    column_name: str,
    marked: tuple[int, int] | None = None,
) -> go.Figure:
    """One matrix; missing cells show the background.

    Args:
        values: (R, C), the first row on top. rows, columns: what a cell is called on hover.
        scale: of the colours. unit: the name of a value on hover. marked: the selected cell.
    """
    cells = {
        "type": "heatmap",
        "z": values,
        "zmin": scale.low,
        "zmax": scale.high,
        "colorscale": colour_stops(scale, colours),
        "colorbar": {
            "orientation": "h",
            "x": 0.5,
            "y": 1.0,
            "yanchor": "bottom",
            "len": 0.9,
            "thickness": 8,
            "ypad": 6,
            "outlinewidth": 0,
            "tickangle": 0,
            "tickfont": {"color": colours.faint, "size": 11},
            **_ticks(scale),
        },
        "hoverongaps": False,
        "hovertemplate": "%{y} · %{x}<br>" + plain(unit) + " = %{z:.4f}<extra></extra>",
    }
    # On a hidden axis the text of a tick is what %{x} shows: ids on hover without a table of them for every cell
    axes = [
        {
            "tickmode": "array",
            "tickvals": list(range(len(names))),
            "ticktext": [plain(name) for name in names],
            "showticklabels": False,
            "ticks": "",
            "showgrid": False,
            "constrain": "domain",
        }
        for names in (columns, rows)
    ]
    below = {  # a title of the axis would lie over the cells: Plotly places it before the matrix has its proportions
        "text": column_name,
        "x": 0.5,
        "y": 0,
        "xref": "x domain",
        "yref": "y domain",
        "yshift": -6,
        "yanchor": "top",
        "showarrow": False,
        "font": {"color": colours.faint},
    }
    tall, wide = values.shape
    axes[0]["range"], axes[1]["range"] = [-0.5, wide - 0.5], [tall - 0.5, -0.5]  # the first row on top
    if max(tall, wide) <= 2 * min(tall, wide):
        axes[1] |= {"scaleanchor": "x", "scaleratio": wide / tall, "constraintoward": "top"}
    height = SHARP_HEIGHT if max(tall, wide) > 128 else HEIGHT
    return figure(
        colours,
        [cells],
        "",
        row_name,
        height=height,
        xaxis=axes[0],
        yaxis=axes[1],
        showlegend=False,
        shapes=_cross(marked, colours),
        annotations=[below],
        margin={"l": 8, "r": 8, "t": 48, "b": 30, "pad": 0},
        plot_bgcolor=colours.grid,
    )


def _cross(marked: tuple[int, int] | None, colours: Tone) -> list[dict[str, Any]]:
    """A frame around the selected cell, and lines along its row and column."""
    if marked is None:
        return []
    row, column = marked
    line = {"color": colours.ink, "width": 2}
    frame = {
        "type": "rect",
        "x0": column - 0.5,
        "x1": column + 0.5,
        "y0": row - 0.5,
        "y1": row + 0.5,
        "line": line,
    }
    faint = {"color": colours.ink, "width": 0.5, "dash": "dot"}
    return [
        frame,
        {"type": "line", "x0": 0, "x1": 1, "xref": "x domain", "y0": row, "y1": row, "line": faint},
        {"type": "line", "x0": column, "x1": column, "y0": 0, "y1": 1, "yref": "y domain", "line": faint},
    ]
