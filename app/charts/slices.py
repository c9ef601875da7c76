"""Recall by slices, run beside run, with intervals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from app.charts.figure import Tone, figure, legend_room, plain, run_colour

ROW_HEIGHT, MARGINS = 34, 90


def slice_recalls(
    slices: Sequence[str], recalls: Mapping[str, np.ndarray], x: str, colours: Tone
) -> go.Figure:
    """A row a slice, a dot a run with its interval.

    Args:
        slices: expressions, the first on top.
        recalls: run → (slices, 3) recall, low and high end in percent.
        x: what the recall is.
    """
    traces, labels = (
        [],
        [plain(re.sub('"([^"]*)"', r"“\1”", one)) for one in slices],
    )  # Plotly shows no &quot;

    for position, (name, values) in enumerate(recalls.items()):
        colour = run_colour(position, len(recalls), colours)
        offset = (position - (len(recalls) - 1) / 2) * min(0.2, 0.7 / len(recalls))
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": plain(name),
                "x": values[:, 0],
                "y": np.arange(len(slices)) + offset,
                "marker": {"color": colour, "size": 9},
                "error_x": {
                    "type": "data",
                    "array": values[:, 2] - values[:, 0],
                    "arrayminus": values[:, 0] - values[:, 1],
                    "color": colour,
                    "thickness": 1.2,
                    "width": 0,
                },
                "customdata": [
                    [label, round(low, 1), round(high, 1)]
                    for label, (_, low, high) in zip(labels, values.tolist(), strict=True)
                ],
                "hovertemplate": "%{customdata[0]}: %{x:.1f} [%{customdata[1]}, %{customdata[2]}]<extra></extra>",
            }
        )
    return figure(
        colours,
        traces,
        x,
        "",
        height=MARGINS + ROW_HEIGHT * len(slices) + legend_room(len(recalls)),
        yaxis={
            "tickvals": list(range(len(slices))),
            "ticktext": labels,
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
        },
    )
