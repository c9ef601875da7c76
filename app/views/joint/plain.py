"""The map as a Plotly figure, for browsers without WebGL: at most 20,000 of its points are plotted."""

import numpy as np
import plotly.graph_objects as go
import streamlit as st

from app import charts
from app.address import set_value
from app.ask import Run, joint_space
from app.components import downloads, map_selection
from app.components.samples import ids_text
from app.components.theme import tone
from app.views.joint.colouring import Colouring
from app.views.joint.points import Shown

CHART = "joint-map"
MOST_DRAWN = 20_000
LABEL_LENGTH = 90


def draw(shown: Shown, colouring: Colouring, marks: charts.Marks, alt: str, area: str) -> None:
    """Draw the map; a lasso, a box or clicked points go into the parameter `area` of the address."""

    def select() -> None:
        selection = map_selection.from_chart(st.session_state.get(CHART))
        set_value(area, map_selection.to_text(selection))

    modes = ("points", "box", "lasso")
    drawn = figure(shown, colouring, marks, tone())
    downloads.chart(drawn, CHART, alt, on_select=select, selection_mode=modes, theme=None)


def figure(shown: Shown, colouring: Colouring, marks: charts.Marks, colours: charts.Tone) -> go.Figure:
    """Return the map with its marks as a figure."""
    plotted = joint_space.draw_points(shown.images, shown.captions, MOST_DRAWN)
    runs = [run.name for run in shown.choice.runs]
    scales = [coloured.scale for coloured in colouring]
    parts = zip(runs, shown.planes, scales, strict=True)
    maps = [charts.Map(name, plane, scale) for name, plane, scale in parts]
    return charts.joint_map(maps, shown.images, plotted, _labels(shown, plotted), marks, colours)


def note(shown: Shown) -> str:
    """State how many of the points are plotted; "" for all."""
    if len(shown) <= MOST_DRAWN:
        return ""
    drawn = f"{MOST_DRAWN:,} of {len(shown):,} points are plotted, chosen at random"
    return (
        f"{drawn}; the shade behind them shows the density of all points, and selections apply to all points."
    )


def _labels(shown: Shown, plotted: np.ndarray) -> list[str]:
    names = shown.choice.ask(Run.image_names)
    numbers = shown.numbers(plotted).tolist()
    images = shown.owners(plotted).tolist()
    labels = []
    for point, number, image, text in zip(
        plotted.tolist(), numbers, images, shown.texts(plotted), strict=True
    ):
        ids = ids_text("image" if point < shown.images else "text", number, image, names[image])
        labels.append(f"{charts.plain(ids)}<br>{charts.plain(text[:LABEL_LENGTH])}")
    return labels
