"""Heat maps: similarity matrices with common colours, and the regions of a picture that a word attends to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from app.charts import figure as draw
from app.charts.figure import HIDDEN, Ends, Part, Tone

HEIGHT = 400
PICTURE_HEIGHT = 420
BARS_HEIGHT = 240
# two runs side by side leave a bar of 150 pixels each
MOST_TICKS = 5
TICK_ROOM = 0.2
SHARP_HEIGHT = 520  # for more than 128 cells per side: a cell should be two pixels or more
MARGIN = {"l": 8, "r": 8, "t": 48, "b": 8, "pad": 0}
VEIL = [[0.0, "rgba(10,14,20,0.88)"], [1.0, "rgba(10,14,20,0)"]]  # lit regions keep the picture's colours
Laid = tuple[np.ndarray, np.ndarray, np.ndarray]  # values of regions, and the x and y edges of their cells
GREYS = [[0.0, "#1C2026"], [1.0, "#FFFFFF"]]  # the same on the colour bar, which is not over a picture


@dataclass(frozen=True)
class HeatScale:
    """Colour scale shared by matrices beside each other: from low to high, blue below the centre and vermilion above,
    or a single ramp without a centre. The colour bar labels the centre with its name, unless that is ""."""

    low: float
    high: float
    centre: float | None = None
    name: str = ""


def heat_scale(matrices: Sequence[np.ndarray], centre: float | None = 0.0, name: str = "") -> HeatScale:
    """Fit a scale to the values; without a centre it begins at 0. It covers 99.8 % of the cells, so that a single cell
    does not bleach the rest."""
    cells = np.concatenate([matrix[np.isfinite(matrix)].ravel() for matrix in matrices] or [np.zeros(0)])
    if not len(cells):
        return HeatScale(0.0, 1.0, centre, name)
    low, high = (float(value) for value in np.quantile(cells, [0.001, 0.999]))
    low = 0.0 if centre is None else low
    return HeatScale(low, max(high, low + 1e-9), centre, name)


def colour_stops(scale: HeatScale, colours: Tone) -> list[list[float | str]]:
    """Return colours from the lower end to the upper one: stronger with distance from the centre, and full at the end
    that is further away. A centre beyond an end is treated as that end, so that all values share the shades of one
    colour."""
    ground = colours.ramp[0]
    blue = colours.runs[1]
    vermilion = colours.runs[0]
    if scale.centre is None:
        return [[0.0, ground], [1.0, colours.ramp[1]]]
    middle = (min(max(scale.centre, scale.low), scale.high) - scale.low) / (scale.high - scale.low)
    longer = max(middle, 1 - middle)
    below = middle / longer
    above = (1 - middle) / longer
    ends = draw.mixed(ground, blue, below), draw.mixed(ground, vermilion, above)
    return [[0.0, ends[0]], [middle, ground], [1.0, ends[1]]]


def _ticks(scale: HeatScale) -> dict[str, Any]:
    """Place round numbers on the colour bar, and the centre's name, with an arrow if it is beyond an end."""
    low = scale.low
    high = scale.high
    centre = scale.centre
    steps = 10 ** np.floor(np.log10(high - low) - 1) * np.array([1, 2, 5, 10, 20, 50, 100])
    step = next(step for step in steps if (high - low) / step <= MOST_TICKS)
    values = (np.arange(np.ceil(low / step), high / step) * step + 0.0).round(10).tolist()
    marks = dict.fromkeys(values, "")
    if scale.name and centre is not None:
        at = min(max(centre, low), high)
        label = f"{draw.plain(scale.name)} {centre:g}"
        label = f"{label} →" if centre > high else f"← {label}" if centre < low else label
        marks = {value: "" for value in marks if abs(value - at) > TICK_ROOM * (high - low)}
        marks[at] = f"<b>{label}</b>"
    texts = [text or f"{value:g}" for value, text in marks.items()]
    return {"tickmode": "array", "tickvals": list(marks), "ticktext": texts}


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
    """Draw a matrix (R, C), the first row on top; missing cells show the background. `rows`, `columns` and `unit` name
    a cell and its value on hover; `marked` is the selected cell."""
    hover = "%{y} · %{x}<br>" + draw.plain(unit) + " = %{z:.4f}"
    above = draw.colour_bar(colours, len=0.9, tickangle=0, **_ticks(scale))
    ends: Part = {"zmin": scale.low, "zmax": scale.high, "showscale": True, "colorbar": above}
    squares = draw.cells(values, None, None, hover, colour_stops(scale, colours), **ends)
    tall, wide = values.shape
    x = _named_axis(columns, [-0.5, wide - 0.5])
    y = _named_axis(rows, [tall - 0.5, -0.5])  # the first row on top
    if max(tall, wide) <= 2 * min(tall, wide):
        y |= {"scaleanchor": "x", "scaleratio": wide / tall, "constraintoward": "top"}

    # an axis title would overlap the cells: Plotly places it before the matrix has its proportions
    below = {"text": column_name, "x": 0.5, "y": 0, "xref": "x domain", "yref": "y domain", "yshift": -6}
    below |= {"yanchor": "top", "showarrow": False, "font": {"color": colours.faint}}
    height = SHARP_HEIGHT if max(tall, wide) > 128 else HEIGHT
    layout: Part = {"xaxis": x, "yaxis": y, "margin": MARGIN | {"b": 30}, "plot_bgcolor": colours.grid}
    marks: Part = {"shapes": [], "annotations": [below]}
    if marked is not None:  # a frame around the cell, and lines along its row and column
        row, column = marked
        marks["shapes"] = [
            draw.frame(column - 0.5, row - 0.5, column + 0.5, row + 0.5, colours.ink, 2),
            draw.segment((0, 1), (row, row), colours.ink, 0.5, "dot", xref="x domain"),
            draw.vertical_line(column, colours.ink, 0.5, "dot"),
        ]

    return draw.figure(colours, [squares], "", row_name, height=height, showlegend=False, **layout, **marks)


def _named_axis(names: Sequence[str], ends: list[float]) -> dict[str, Any]:
    """Make an axis without labels. Its tick texts supply %{x} on hover, so that not every cell needs a text."""
    texts = [draw.plain(name) for name in names]
    ticks = {"tickmode": "array", "tickvals": list(range(len(names))), "ticktext": texts}
    hidden = {"showticklabels": False, "ticks": "", "showgrid": False, "constrain": "domain"}
    return {**ticks, **hidden, "range": ends}


def regions_over_picture(
    laid: Laid, picture: tuple[str, float], box: np.ndarray, unit: str, scale: tuple[Ends, str], colours: Tone
) -> go.Figure:
    """Draw regions over a `picture` (a data URL, height ÷ width) as light: low values are dark. `laid` holds values
    (rows, columns), NaN outside the regions, and edges x (columns + 1,) and y (rows + 1,) as shares of the picture's
    sides. `box` (4,) is framed; `scale` holds the ends of the colour bar and a note to append to the unit above it."""
    (values, x, y) = laid
    (source, aspect) = picture
    ((low, high), note) = scale
    left, top, right, bottom = box.tolist()
    hover = draw.plain(unit) + " = %{z:.3f}, %{x:.0%} from the left, %{y:.0%} from the top"
    regions = draw.cells(values, x, y, hover, VEIL, zmin=low, zmax=high)
    above = draw.colour_bar(colours, len=0.7, nticks=5) | {"outlinewidth": 1, "outlinecolor": colours.faint}
    above["title"] = {"text": draw.plain(unit) + note, "side": "top", "font": above["tickfont"]}
    shades = {"cmin": low, "cmax": high, "color": [low], "colorscale": GREYS, "showscale": True}
    bar_only = draw.points([None], [None], "", "", shades | {"colorbar": above})
    image = {"source": source, "xref": "x", "yref": "y", "x": 0, "y": 0, "sizex": 1, "sizey": 1}
    across, down = (HIDDEN | {"constrain": "domain", "range": ends} for ends in ([0, 1], [1, 0]))
    down |= {"scaleanchor": "x", "scaleratio": aspect, "constraintoward": "top"}
    below = [image | {"sizing": "stretch", "layer": "below"}]
    box_frame = [draw.frame(left, top, right, bottom, colours.runs[0], 2.5)]
    layout: Part = {"images": below, "shapes": box_frame, "margin": MARGIN | {"t": 66}, "showlegend": False}
    axes: Part = {"xaxis": across, "yaxis": down, "height": PICTURE_HEIGHT}
    return draw.figure(colours, [regions, bar_only], "", "", **layout, **axes)


def region_bars(values: np.ndarray, unit: str, scale: tuple[Ends, str], colours: Tone) -> go.Figure:
    """Draw values (L,) of regions as bars, if their positions are unknown."""
    numbers = np.arange(1, len(values) + 1)
    bars = draw.bar(numbers, values, unit, colours.runs[1], f"region %{{x}}: {draw.plain(unit)} = %{{y:.3f}}")
    (low, high), note = scale
    layout: Part = {"height": BARS_HEIGHT, "yaxis": {"range": [min(low, 0.0), max(high, 0.0)]}}
    return draw.figure(colours, [bars], "region", unit + note, showlegend=False, **layout)
