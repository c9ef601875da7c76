"""The component in the browser: what it is sent, and what it reports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app import charts
from app.components.space_map.columns import extent, publish

HERE = Path(__file__).parent
NAME = "coder-space-map"
HEIGHT = 500
NO_WEBGL = "no-webgl"  # session key: why the browser cannot draw this map
Handler = Callable[[Mapping[str, Any]], None]
Place = tuple[str, float, float]  # a label and its place


@dataclass(frozen=True)
class Arrows:
    """Points to draw an arrow for, from their place on the first map to that on the last; (k,) their colours in a
    palette."""

    points: np.ndarray
    codes: np.ndarray
    palette: Sequence[str]


@dataclass(frozen=True)
class Panel:
    """One of the maps: its run, a text alternative, (N, 2) places of all points, (N,) uint8 their colours in the palette, and
    labels."""

    name: str
    alt: str
    plane: np.ndarray
    codes: np.ndarray
    labels: Sequence[Place] = ()


@dataclass(frozen=True)
class SpaceMap:
    """Contents of the map. The N points are those from `first` on among all points of a split, whose first
    `images_of_split` are images."""

    run: str
    split: str
    first: int
    images_of_split: int
    images: int  # of the N points
    panels: Sequence[Panel]
    palette: Sequence[str]
    legend: Mapping[str, Any]
    lit: np.ndarray | None  # points that do not fade; None: all
    base: np.ndarray | None  # the same without the search
    query: str = ""
    note: str = ""  # about the search
    areas: Sequence[Mapping[str, Any]] = ()
    clicked: bool = False
    focus: int | None = None
    near: Sequence[int] = ()
    lines: Sequence[Sequence[int]] = ()
    arrows: Arrows | None = None


def space_map(content: SpaceMap, key: str, colours: charts.Tone, handle: Handler) -> None:
    """Draw the map. `handle` is called, before the page reruns, with what a person did: {"kind": "area", "map",
    "corners"}, {"kind": "open", "point"}, {"kind": "find", "text"} or {"kind": "clear"}. Its values come from the
    browser."""

    def report() -> None:
        value = (st.session_state.get(key) or {}).get("act")
        if not isinstance(value, dict):
            return
        if value.get("kind") == "unavailable":
            st.session_state[NO_WEBGL] = str(value.get("reason"))[:200]
        else:
            handle(value)

    maps = [_map(panel) for panel in content.panels]
    ends = np.array([extent(panel["plane"]) for panel in maps])
    low = ends[:, :2].min(0)
    high = ends[:, 2:].max(0)
    centre = (low + high) / 2
    halves = np.maximum((high - low) / 2, 1e-6)
    arrows = content.arrows
    data = {
        "run": content.run,
        "split": content.split,
        "first": content.first,
        "imagesOfSplit": content.images_of_split,
        "images": content.images,
        "mixed": 0 < content.images < len(content.panels[0].plane),
        "count": len(content.panels[0].plane),
        "bounds": [*centre.tolist(), float(halves.max()), *halves.tolist()],
        "maps": maps,
        "alt": [panel.alt for panel in content.panels],
        "labels": [[{"text": t, "x": x, "y": y} for t, x, y in panel.labels] for panel in content.panels],
        "palette": list(content.palette),
        "legend": dict(content.legend),
        "lit": _points(content.lit),
        "base": _points(content.base),
        "query": content.query,
        "note": content.note,
        "areas": list(content.areas),
        "clicked": content.clicked,
        "focus": content.focus,
        "near": list(content.near),
        "lines": [list(map(int, pair)) for pair in content.lines],
        "arrows": None if arrows is None else _arrows(arrows),
        "ink": colours.ink,
        "faint": colours.faint,
        "paper": colours.paper,
        "height": HEIGHT,
    }
    script, style = ((HERE / name).read_text(encoding="utf-8") for name in ("map.js", "map.css"))
    # without a shadow root, because the library looks for its canvas below the pointer from the document
    component = st.components.v2.component(NAME, js=script, css=style, isolate_styles=False)
    component(key=key, data=data, on_act_change=report)


def _map(panel: Panel) -> dict[str, str]:
    plane = publish(panel.plane.astype(np.float32, copy=False))
    return {"name": panel.name, "plane": plane, "codes": publish(panel.codes)}


def _points(points: np.ndarray | None) -> str | None:
    return None if points is None else publish(points.astype(np.uint32))


def _arrows(arrows: Arrows) -> dict[str, Any]:
    column = np.stack([arrows.points, arrows.codes], axis=1).astype(np.uint32)
    return {"column": publish(column), "palette": list(arrows.palette)}
