"""Hover texts of a figure as rows, for users of a keyboard, a touch screen or a screen reader."""

import html
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

_FIELD = re.compile(r"%\{(?P<name>\w+)(?:\[(?P<item>\d+)\])?(?::(?P<format>[^}]*))?\}")
_EXTRA = re.compile(r"<extra>.*?</extra>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")
_PLACES = ("x", "text", "hovertext")
MOST = 2_000


def hover_texts(figure: go.Figure, most: int = MOST) -> pd.DataFrame:
    """List the hover text and the series of every point, bar or cell; the first `most` of them. A text that does not
    contain its point's position begins with the position on the x axis."""
    return pd.DataFrame(islice(_rows(figure), most), columns=["series", "value"])


def _rows(figure: go.Figure) -> Iterator[tuple[str, str]]:
    for trace in figure.data:
        template = _EXTRA.sub("", trace.hovertemplate or "")
        if not template or trace.hoverinfo == "skip":
            continue
        named = trace.type == "heatmap" or getattr(trace, "orientation", None) == "h"
        named = named or any(field["name"] in _PLACES for field in _FIELD.finditer(template))
        for point in _cells(trace, figure.layout) if trace.type == "heatmap" else _points(trace):
            text = _TAG.sub("", _FIELD.sub(partial(_filled, point), template.replace("<br>", ", ")))
            where = "" if named else f"{point['x']}: "
            yield html.unescape(_TAG.sub("", trace.name or "")), html.unescape(where + text)


def _filled(point: dict[str, Any], field: re.Match[str]) -> str:
    value = point.get(field["name"], "")
    if field["item"] is not None:
        value = value[int(field["item"])]
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    return format(value, field["format"] or ("g" if isinstance(value, (float, np.floating)) else ""))


def _points(trace: Any) -> Iterator[dict[str, Any]]:
    """Yield points of a line or scatter plot, and bars; a position of two levels is joined: "image → text, R@1"."""
    x = trace.x
    y = trace.y
    if len(x) and isinstance(x[0], (list, tuple, np.ndarray)):
        x = [", ".join(map(str, levels)) for levels in zip(*x, strict=True)]
    more = {name: trace[name] for name in ("customdata", "text", "hovertext") if not _absent(trace[name])}
    for row in range(len(x)):
        of_row = {name: values if isinstance(values, str) else values[row] for name, values in more.items()}
        yield {"x": x[row], "y": y[row], **of_row}


def _cells(trace: Any, layout: Any) -> Iterator[dict[str, Any]]:
    """Yield the cells of a heat map that have a number; without positions they are named by the axes' tick texts."""
    z = np.asarray(trace.z, dtype=float)
    y = trace.y
    x = trace.x
    y = layout.yaxis.ticktext or range(z.shape[0]) if _absent(y) else y
    x = layout.xaxis.ticktext or range(z.shape[1]) if _absent(x) else x
    more = {name: trace[name] for name in ("customdata", "text") if not _absent(trace[name])}
    for row, column in zip(*np.nonzero(np.isfinite(z)), strict=True):
        of_cell = {name: values[row][column] for name, values in more.items()}
        yield {"x": x[column], "y": y[row], "z": z[row, column], **of_cell}


def _absent(values: Any) -> bool:
    return values is None or (not isinstance(values, str) and not len(values))
