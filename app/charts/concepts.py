"""Figures of the Concepts page: the graph, how many concepts are read, an image beside its caption."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts.figure import Tone, bar, figure, plain, rings, run_colour

KINDS = {
    "object": (1, "circle", "objects"),
    "property": (0, "diamond", "properties"),
    "motion": (2, "square", "motions"),
}
GRAPH_HEIGHT = 620
BANDS = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, np.inf)
BANDS_HEIGHT = 260
ROW_HEIGHT = 27


def kind_colour(kind: str, colours: Tone) -> str:
    """Blue objects, vermilion properties, green motions."""
    return colours.runs[KINDS[kind][0]] if kind in KINDS else colours.faint


def concept_graph(nodes: pd.DataFrame, edges: pd.DataFrame, chosen: int | None, colours: Tone) -> go.Figure:
    """Concepts as marks (size: captions that hold them), arrows to the concepts they read; `chosen` has a ring.

    Args:
        nodes, edges: of `ConceptGraph`; arrows end where the mark of the neighbour begins.
    """
    sizes = _sizes(nodes["count"].to_numpy(dtype=float))
    size_of = dict(zip(nodes["concept"], sizes, strict=True))
    traces = []
    touching = (edges["concept"] == chosen) | (edges["neighbour"] == chosen)
    for part, colour, width, opacity in (
        (edges[~touching], colours.faint, 1.0, 0.38),
        (edges[touching], colours.ink, 1.5, 0.6),
    ):
        if len(part):
            traces.append(_arrows(nodes, part, size_of, colour, width, opacity))
    if chosen is not None and chosen in size_of:
        here = nodes[nodes["concept"] == chosen]
        traces.append(rings(here["x"], here["y"], colours, size_of[chosen] + 10))
    for kind, (_, symbol, label) in KINDS.items():
        of_kind = nodes[nodes["kind"] == kind]
        if not len(of_kind):
            continue
        words = [plain(word) for word in of_kind["word"]]
        traces.append(
            {
                "type": "scatter",
                "mode": "markers+text",
                "name": label,
                "x": of_kind["x"],
                "y": of_kind["y"],
                "text": words,
                "textposition": "top center",
                "textfont": {"color": colours.ink, "size": 12.5},
                "customdata": of_kind["concept"].to_numpy(),
                "marker": {
                    "color": kind_colour(kind, colours),
                    "symbol": symbol,
                    "opacity": 1,
                    "size": [size_of[number] for number in of_kind["concept"]],
                    "line": {"color": colours.paper, "width": 1.5},
                },
                "selected": {"marker": {"opacity": 1}},
                "unselected": {"marker": {"opacity": 1}},
                "hovertext": [
                    f"{word}: in {count:,} training captions, reads {reads}, read by {read_by}"
                    for word, count, reads, read_by in zip(
                        words, of_kind["count"], of_kind["reads"], of_kind["read_by"], strict=True
                    )
                ],
                "hovertemplate": "%{hovertext}<extra></extra>",
            }
        )
    bare = {"visible": False, "showgrid": False}
    return figure(
        colours,
        traces,
        "",
        "",
        height=GRAPH_HEIGHT,
        dragmode="pan",
        hovermode="closest",
        xaxis={**bare, "range": [-0.07, 1.07]},
        yaxis={**bare, "range": [-0.05, 1.09]},
        legend={"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "itemsizing": "constant"},
    )


def _arrows(
    nodes: pd.DataFrame,
    edges: pd.DataFrame,
    size_of: Mapping[int, float],
    colour: str,
    width: float,
    opacity: float,
) -> dict[str, object]:
    places = nodes.set_index("concept")[["x", "y"]]
    begin, end = (places.loc[edges[name]].to_numpy() for name in ("concept", "neighbour"))
    gap = np.full(len(edges), np.nan)
    x, y = (np.stack([begin[:, axis], end[:, axis], gap], axis=1).ravel() for axis in (0, 1))
    heads = np.tile([0.0, 8.0, 0.0], len(edges))
    short = np.stack(
        [np.zeros(len(edges)), [size_of[n] / 2 for n in edges["neighbour"]], gap * 0], axis=1
    ).ravel()
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": x,
        "y": y,
        "hoverinfo": "skip",
        "showlegend": False,
        "opacity": opacity,
        "line": {"color": colour, "width": width},
        "marker": {
            "symbol": "arrow",
            "angleref": "previous",
            "size": heads,
            "standoff": np.nan_to_num(short),
            "color": colour,
        },
    }


def _sizes(counts: np.ndarray) -> np.ndarray:
    """Diameters from 9 to 30 pixels, areas as the counts."""
    return np.asarray(9 + 21 * np.sqrt(counts / max(float(counts.max(initial=1.0)), 1.0)))


def concepts_read(numbers: Mapping[str, np.ndarray], unit: str, colours: Tone) -> go.Figure:
    """Share of samples by the effective number of concepts they read, of several runs."""
    labels = [f"{low:g}–{high:g}" if np.isfinite(high) else f"over {low:g}" for low, high in pairwise(BANDS)]
    traces = []
    for position, (name, values) in enumerate(numbers.items()):
        counts, _ = np.histogram(np.maximum(values, 1.0), np.array(BANDS))  # rounding may leave 0.9999…
        colour, hover = (
            run_colour(position, len(numbers), colours),
            "%{x} concepts: %{y:.1f} %, %{customdata:,} " + unit,
        )
        traces.append(bar(labels, 100 * counts / max(len(values), 1), name, colour, hover, customdata=counts))
    return figure(
        colours,
        traces,
        "effective number of concepts read",
        f"{unit}, %",
        height=BANDS_HEIGHT,
        showlegend=len(numbers) > 1,
        xaxis={"type": "category"},
        yaxis={"rangemode": "tozero"},
    )


def side_by_side(concepts: pd.DataFrame, colours: Tone) -> go.Figure:
    """Concepts that an image (left) and its caption (right) read: word, kind, image, text; first on top."""
    shown = concepts.iloc[::-1].reset_index(drop=True)
    words = [plain(word) for word in shown["word"]]
    traces = []
    for kind, (_, _, label) in KINDS.items():
        rows = np.flatnonzero((shown["kind"] == kind).to_numpy())
        if not len(rows):
            continue
        for side, sign in (("image", -1.0), ("text", 1.0)):
            share = 100 * shown[side].to_numpy(dtype=float)[rows]
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "x": sign * share,
                    "y": [words[row] for row in rows],
                    "name": label,
                    "legendgroup": kind,
                    "showlegend": side == "text",
                    "customdata": share,
                    "marker": {"color": kind_colour(kind, colours), "cornerradius": 3},
                    "hovertemplate": (
                        "%{y}: %{customdata:.1f} % of the "
                        + ("image" if side == "image" else "caption")
                        + "’s attention<extra></extra>"
                    ),
                }
            )
    ticks = [-100, -75, -50, -25, 0, 25, 50, 75, 100]
    middle = {"type": "line", "x0": 0, "x1": 0, "y0": 0, "y1": 1, "yref": "y domain"}
    return figure(
        colours,
        traces,
        "← image reads · attention, % · caption reads →",
        "",
        height=110 + ROW_HEIGHT * max(len(shown), 3),
        barmode="overlay",
        bargap=0.3,
        shapes=[{**middle, "line": {"color": colours.faint, "width": 1}}],
        xaxis={
            "range": [-104, 104],
            "tickvals": ticks,
            "ticktext": [str(abs(t)) for t in ticks],
            "showgrid": True,
        },
        yaxis={
            "type": "category",
            "showgrid": False,
            "categoryorder": "array",
            "categoryarray": words,
            "tickfont": {"size": 13, "color": colours.ink},
        },
    )
