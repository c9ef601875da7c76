"""Figures of the Similarity page: a matrix as a heat map, all with one rule of colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, plain

HEIGHT = 470
SHARP_HEIGHT = 560  # more than 128 cells a side: a cell should be two pixels or more


def heat_limits(matrices: Sequence[np.ndarray], centre: float | None) -> tuple[float, float]:
    """Ends of the colour scale, common to all matrices: symmetric about `centre`, or from 0 for None.

    The ends hold 99.9 % of the cells, so that a single cell does not bleach the rest.
    """
    cells = np.concatenate([matrix[np.isfinite(matrix)].ravel() for matrix in matrices] or [np.zeros(0)])
    if not len(cells):
        return 0.0, 1.0
    if centre is None:
        return 0.0, max(float(np.quantile(cells, 0.999)), 1e-9)
    reach = max(float(np.quantile(np.abs(cells - centre), 0.999)), 1e-9)
    return centre - reach, centre + reach


def heat_map(
    values: np.ndarray, rows: Sequence[str], columns: Sequence[str], limits: tuple[float, float], colours: Tone, *,
    unit: str, row_name: str, column_name: str, diverging: bool, marked: tuple[int, int] | None = None,
) -> go.Figure:  # fmt: skip
    """One matrix; missing cells show the background.

    Args:
        values: (R, C), the first row on top. rows, columns: what a cell is called on hover.
        limits: of the colours. diverging: blue below the middle and vermilion above; otherwise a single ramp.
        unit: the name of a value on hover. marked: the selected cell.
    """
    ground, blue, vermilion = colours.ramp[0], colours.runs[1], colours.runs[0]
    scale = [[0, blue], [0.5, ground], [1, vermilion]] if diverging else [[0, ground], [1, colours.ramp[1]]]
    cells = {
        "type": "heatmap",
        "z": values,
        "zmin": limits[0],
        "zmax": limits[1],
        "colorscale": scale,
        "colorbar": {
            "orientation": "h", "x": 0.5, "y": 1.0, "yanchor": "bottom", "len": 0.7, "thickness": 8, "ypad": 6,
            "outlinewidth": 0, "tickfont": {"color": colours.faint, "size": 11}, "nticks": 7,
        },
        "hoverongaps": False,
        "hovertemplate": "%{y} · %{x}<br>" + plain(unit) + " = %{z:.4f}<extra></extra>",
    }  # fmt: skip
    # On a hidden axis the text of a tick is what %{x} shows: ids on hover without a table of them for every cell
    axes = [
        {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": [plain(name) for name in names],
         "showticklabels": False, "ticks": "", "showgrid": False, "constrain": "domain"}
        for names in (columns, rows)
    ]  # fmt: skip
    tall, wide = values.shape
    axes[0]["range"], axes[1]["range"] = [-0.5, wide - 0.5], [tall - 0.5, -0.5]  # the first row on top
    if max(tall, wide) <= 2 * min(tall, wide):
        axes[1] |= {"scaleanchor": "x", "scaleratio": wide / tall, "constraintoward": "top"}
    height = SHARP_HEIGHT if max(tall, wide) > 128 else HEIGHT
    return figure(
        colours, [cells], column_name, row_name, height=height, xaxis=axes[0],
        yaxis=axes[1], showlegend=False, shapes=_cross(marked, colours),
        margin={"l": 8, "r": 8, "t": 48, "b": 8, "pad": 0}, plot_bgcolor=colours.grid,
    )  # fmt: skip


def _cross(marked: tuple[int, int] | None, colours: Tone) -> list[dict[str, Any]]:
    """A frame around the selected cell, and lines along its row and column."""
    if marked is None:
        return []
    row, column = marked
    line = {"color": colours.ink, "width": 2}
    frame = {"type": "rect", "x0": column - 0.5, "x1": column + 0.5, "y0": row - 0.5, "y1": row + 0.5, "line": line}
    faint = {"color": colours.ink, "width": 0.5, "dash": "dot"}
    return [
        frame,
        {"type": "line", "x0": 0, "x1": 1, "xref": "x domain", "y0": row, "y1": row, "line": faint},
        {"type": "line", "x0": column, "x1": column, "y0": 0, "y1": 1, "yref": "y domain", "line": faint},
    ]
