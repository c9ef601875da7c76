"""Figures of concepts and clusters: the graph, attention, and the words and agreement of clusters."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from app.charts import figure as draw
from app.charts.figure import HIDDEN, Part, Tone

KINDS = {"object": (1, "circle", "objects"), "property": (0, "diamond", "properties")}
KINDS |= {"motion": (2, "square", "motions")}  # kind → position of its colour, mark, name
GRAPH_HEIGHT = 410
GRAPH_PIXELS = np.array([880.0, 330.0])  # of one unit of x and of y, on a page of 1,440 pixels
LETTER = 7.0  # pixels of a letter of a word, and of its line
LINE = 15.0
# where a word stands → its side of the mark
PLACES = {"top center": (0, 1), "bottom center": (0, -1), "middle right": (1, 0), "middle left": (-1, 0)}
BANDS = (1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, np.inf)
BANDS_HEIGHT = 200
WORDS_HEIGHT = 300
ROW_HEIGHT = 27


def kind_colour(kind: str, colours: Tone) -> str:
    """Return the colour of a kind: blue for objects, vermilion for properties, green for motions."""
    return colours.runs[KINDS[kind][0]] if kind in KINDS else colours.faint


def concept_graph(nodes: pd.DataFrame, edges: pd.DataFrame, opened: int | None, colours: Tone) -> go.Figure:
    """Draw concepts as marks (size: captions that contain them) with arrows to the concepts they read, which end at the
    mark's edge; `opened` has a ring. Nodes and edges are those of `ConceptGraph`."""
    counts = nodes["count"].to_numpy(dtype=float)
    sizes = 9 + 21 * np.sqrt(counts / max(counts.max(initial=1.0), 1.0))  # pixels; areas grow with counts
    size_of = dict(zip(nodes["concept"], sizes, strict=True))
    traces = []
    touching = (edges["concept"] == opened) | (edges["neighbour"] == opened)
    looks = ((~touching, colours.faint, 1.0, 0.38), (touching, colours.ink, 1.5, 0.6))
    for rows, colour, width, opacity in looks:
        if rows.any():
            line = {"color": colour, "width": width}
            traces.append(_arrows(nodes, edges[rows], size_of, line) | {"opacity": opacity})
    if opened in size_of:
        concept = nodes[nodes["concept"] == opened]
        traces.append(draw.rings(concept["x"], concept["y"], colours, size_of[opened] + 10))
    placed = nodes.assign(place=_word_places(nodes, sizes))
    for kind, (_, symbol, label) in KINDS.items():
        of_kind = placed[placed["kind"] == kind]
        if len(of_kind):
            marks = _marks(of_kind, label, kind_colour(kind, colours), colours)
            marks["marker"] |= {"symbol": symbol, "size": [size_of[number] for number in of_kind["concept"]]}
            traces.append(marks)
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "itemsizing": "constant"}
    x = HIDDEN | {"range": [-0.07, 1.07]}
    y = HIDDEN | {"range": [-0.05, 1.09]}
    layout: Part = {"dragmode": "pan", "hovermode": "closest", "xaxis": x, "yaxis": y, "legend": legend}
    return draw.figure(colours, traces, "", "", height=GRAPH_HEIGHT, **layout)


def _word_places(nodes: pd.DataFrame, sizes: np.ndarray) -> list[str]:
    """Place every word above its mark or, where it covers less of other marks and of the words before it, below or beside
    it. `sizes`: (k,) pixels of the marks."""
    centres = nodes[["x", "y"]].to_numpy(dtype=float) * GRAPH_PIXELS
    reach = np.repeat(sizes[:, None] / 2, 2, axis=1)
    marks = np.concatenate([centres - reach, centres + reach], axis=1)
    words = np.empty((0, 4))
    places = []
    for row, word in enumerate(nodes["word"]):
        half = np.array([LETTER * len(word), LINE]) / 2
        others = np.concatenate([np.delete(marks, row, axis=0), words])
        boxes = [_box(centres[row] + np.array(side) * (reach[row] + half), half) for side in PLACES.values()]
        best = int(np.argmin([_covered(box, others) for box in boxes]))
        places.append(list(PLACES)[best])
        words = np.concatenate([words, boxes[best][None]])
    return places


def _box(middle: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Return left, low, right and high of a rectangle."""
    return np.concatenate([middle - half, middle + half])


def _covered(box: np.ndarray, others: np.ndarray) -> float:
    """Return the area that a rectangle has in common with others, (k, 4)."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return float(sides.clip(0).prod(axis=1).sum())


def _marks(concepts: pd.DataFrame, label: str, colour: str, colours: Tone) -> Part:
    """Draw concepts of one kind with their words; a selection does not fade the others."""
    words = [draw.plain(word) for word in concepts["word"]]
    numbers = zip(words, concepts["count"], concepts["reads"], concepts["read_by"], strict=True)
    hover = [
        f"{w}: in {n:,} training captions, edges to {reads} concepts and from {by}"
        for w, n, reads, by in numbers
    ]
    names = {"text": words, "hovertext": hover, "customdata": concepts["concept"].to_numpy()}
    style = {"textposition": concepts["place"].tolist(), "textfont": {"color": colours.ink, "size": 12.5}}
    marker = {"color": colour, "opacity": 1, "line": {"color": colours.paper, "width": 1.5}}
    opaque = {"marker": {"opacity": 1}}
    more = {**names, **style, "mode": "markers+text", "selected": opaque, "unselected": opaque}
    return draw.points(concepts["x"], concepts["y"], label, "%{hovertext}", marker, **more)


def _arrows(nodes: pd.DataFrame, edges: pd.DataFrame, size_of: Mapping[int, float], line: Part) -> Part:
    positions = nodes.set_index("concept")[["x", "y"]]
    begin, end = (positions.loc[edges[name]].to_numpy() for name in ("concept", "neighbour"))
    ends = np.stack([begin, end, np.full_like(end, np.nan)], axis=1).reshape(-1, 2)
    short = np.zeros((len(edges), 3))
    short[:, 1] = [size_of[number] / 2 for number in edges["neighbour"]]
    heads = {"symbol": "arrow", "angleref": "previous", "color": line["color"], "standoff": short.ravel()}
    heads["size"] = np.tile([0.0, 8.0, 0.0], len(edges))
    x, y = ends.T
    return draw.points(x, y, "", "", heads, showlegend=False, mode="lines+markers", line=line)


def concepts_read(samples: Mapping[str, Mapping[str, np.ndarray]], colours: Tone) -> list[go.Figure]:
    """Draw the share of samples by the effective number of concepts they attend to: unit → run → numbers. Return one
    figure per unit, on a common scale."""
    labels = [f"{low:g}–{high:g}" if np.isfinite(high) else f"over {low:g}" for low, high in pairwise(BANDS)]
    figures = []
    for unit, numbers in samples.items():
        traces = []
        hover = "%{x} concepts: %{y:.1f} %, %{customdata:,} " + unit
        for name, values, colour in draw.coloured(numbers, colours):
            counts, _ = np.histogram(np.maximum(values, 1.0), np.array(BANDS))  # rounding may leave 0.9999…
            shares = 100 * counts / max(len(values), 1)
            traces.append(draw.bar(labels, shares, name, colour, hover, customdata=counts))
        layout: Part = {"xaxis": {"type": "category"}, "height": BANDS_HEIGHT, "showlegend": len(numbers) > 1}
        x = "effective number of concepts attended to"
        y = f"{unit}, %"
        figures.append(draw.figure(colours, traces, x, y, **layout))
    top = 1.05 * max(float(max(bars.y)) for chart in figures for bars in chart.data)
    for chart in figures:
        chart.layout.yaxis.range = [0, max(top, 1.0)]
    return figures


def side_by_side(concepts: pd.DataFrame, colours: Tone) -> go.Figure:
    """Draw the concepts an image (left) and its caption (right) attend to: word, kind, image, text; first on top."""
    shown = concepts.iloc[::-1].reset_index(drop=True)
    words = [draw.plain(word) for word in shown["word"]]
    traces = []
    for kind, (_, _, label) in KINDS.items():
        rows = np.flatnonzero((shown["kind"] == kind).to_numpy())
        for side, unit, sign in (("image", "image", -1.0), ("text", "caption", 1.0)) if len(rows) else ():
            share = 100 * shown[side].to_numpy(dtype=float)[rows]
            hover = f"%{{y}}: %{{customdata:.1f}} % of the {unit}’s attention"
            legend = {"legendgroup": kind, "showlegend": side == "text"}
            names = [words[row] for row in rows]
            colour = kind_colour(kind, colours)
            look = {"orientation": "h", "customdata": share, **legend}
            bars = draw.bar(sign * share, names, label, colour, hover, **look)
            traces.append(bars | {"hovertemplate": f"{hover}<extra></extra>"})
    ticks = [-100, -75, -50, -25, 0, 25, 50, 75, 100]
    x: Part = {"tickvals": ticks, "ticktext": [str(abs(tick)) for tick in ticks]}
    x |= {"range": [-104, 104], "showgrid": True}
    y = _word_axis(colours) | {"categoryorder": "array", "categoryarray": words}
    middle = draw.vertical_line(0, colours.faint, 1, "solid")
    height = 110 + ROW_HEIGHT * max(len(shown), 3)
    layout: Part = {"xaxis": x, "yaxis": y, "shapes": [middle], "barmode": "overlay", "bargap": 0.3}
    title = "← the image attends to · attention, % · the caption attends to →"
    return draw.figure(colours, traces, title, "", height=height, **layout)


def _word_axis(colours: Tone) -> dict[str, Any]:
    return {"type": "category", "showgrid": False, "tickfont": {"size": 13, "color": colours.ink}}


def cluster_map(table: pd.DataFrame, opened: int | None, colours: Tone) -> go.Figure:
    """Draw every cluster as a dot, by its number of pairs and the share of them whose image and caption agree."""
    number, size, agreement = (table[name].to_numpy() for name in ("cluster", "size", "agreement"))
    texts = [f"cluster {c}: {draw.plain(words)}" for c, words in zip(number, table["words"], strict=True)]
    opacity = {"marker": {"opacity": 0.75}}
    marker = {"color": colours.runs[1], "size": 9, "opacity": 0.75, "line": {"width": 0}}
    hover = "%{text}<br>%{x:,} pairs, %{y:.0f} % agree"
    more = {"customdata": number, "text": texts, "selected": opacity, "unselected": opacity}
    traces = [draw.points(size, agreement, "", hover, marker, **more)]
    row = number == opened
    if row.any():
        traces.append(draw.rings(size[row], agreement[row], colours, 17))
    axes: Part = {"xaxis": {"rangemode": "tozero"}, "yaxis": {"range": [-4, 104]}}
    x = "pairs in the cluster"
    y = "image and caption agree, %"
    return draw.figure(colours, traces, x, y, showlegend=False, dragmode="pan", **axes)


def word_bars(words: pd.DataFrame, colours: Tone) -> go.Figure:
    """Draw the distinctive words of a cluster, the strongest on top."""
    shown = words.iloc[::-1]
    scores = shown["score"].to_numpy()
    names = [draw.plain(word) for word in shown["word"]]
    hover = "%{y}: z %{x:.1f}, %{customdata} times here"
    counts = shown["count"].to_numpy()
    bars = draw.bar(scores, names, "", colours.mark, hover, orientation="h", customdata=counts)
    layout: Part = {"height": WORDS_HEIGHT, "showlegend": False, "yaxis": _word_axis(colours)}
    return draw.figure(colours, [bars], "log-odds in the cluster, z", "", **layout)
