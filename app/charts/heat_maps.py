"""Figures of what a word reads of a picture: regions laid over it, or as a row of bars."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from app.charts.figure import Tone, bar, figure, plain

HEIGHT, BARS_HEIGHT = 420, 240
VEIL = [
    [0.0, "rgba(10,14,20,0.88)"],
    [1.0, "rgba(10,14,20,0)"],
]  # the picture keeps its own colours where it is lit
GREYS = [[0.0, "#1C2026"], [1.0, "#FFFFFF"]]  # the same on the colour bar, which stands over no picture


def regions_over_picture(
    values: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    picture: str,
    aspect: float,
    bounds: tuple[float, float],
    box: np.ndarray,
    unit: str,
    colours: Tone,
) -> go.Figure:
    """Regions laid over a picture as light: low values are dark.

    Args:
        values: (rows, columns), NaN where no region lies. x: (columns + 1,) and y: (rows + 1,) edges as shares of the
            picture's sides. picture: a data URL. aspect: height ÷ width. bounds: ends of the colour bar. box: (4,) of
            the region to frame. unit: the name of a value.
    """
    cells = {
        "type": "heatmap",
        "z": values,
        "x": x,
        "y": y,
        "zmin": bounds[0],
        "zmax": bounds[1],
        "colorscale": VEIL,
        "hoverongaps": False,
        "hovertemplate": plain(unit)
        + " = %{z:.3f}, %{x:.0%} from the left, %{y:.0%} from the top<extra></extra>",
        "showscale": False,
    }
    bar_only = {
        "type": "scatter",
        "x": [None],
        "y": [None],
        "hoverinfo": "skip",
        "marker": {
            "cmin": bounds[0],
            "cmax": bounds[1],
            "color": [bounds[0]],
            "colorscale": GREYS,
            "showscale": True,
            "colorbar": {
                "orientation": "h",
                "x": 0.5,
                "y": 1.0,
                "yanchor": "bottom",
                "len": 0.7,
                "thickness": 8,
                "ypad": 6,
                "outlinewidth": 1,
                "outlinecolor": colours.faint,
                "nticks": 5,
                "tickfont": {"color": colours.faint, "size": 11},
            },
        },
    }
    hidden = {"visible": False, "showgrid": False, "constrain": "domain"}
    image = {
        "source": picture,
        "xref": "x",
        "yref": "y",
        "x": 0,
        "y": 0,
        "sizex": 1,
        "sizey": 1,
        "sizing": "stretch",
        "layer": "below",
    }
    left, top, right, bottom = box.tolist()
    frame = {
        "type": "rect",
        "x0": left,
        "y0": top,
        "x1": right,
        "y1": bottom,
        "line": {"color": colours.runs[0], "width": 2.5},
    }
    return figure(
        colours,
        [cells, bar_only],
        "",
        "",
        height=HEIGHT,
        images=[image],
        shapes=[frame],
        showlegend=False,
        xaxis=hidden | {"range": [0, 1]},
        yaxis=hidden | {"range": [1, 0], "scaleanchor": "x", "scaleratio": aspect, "constraintoward": "top"},
        margin={"l": 8, "r": 8, "t": 48, "b": 8, "pad": 0},
    )


def region_bars(values: np.ndarray, bounds: tuple[float, float], unit: str, colours: Tone) -> go.Figure:
    """(L,) regions as bars, where it is not known where they lie."""
    numbers = np.arange(1, len(values) + 1)
    hover = f"region %{{x}}: {plain(unit)} = %{{y:.3f}}"
    bars = bar(numbers, values, unit, colours.runs[1], hover)
    low, high = min(bounds[0], 0.0), max(bounds[1], 0.0)
    return figure(
        colours, [bars], "region", unit, height=BARS_HEIGHT, showlegend=False, yaxis={"range": [low, high]}
    )
