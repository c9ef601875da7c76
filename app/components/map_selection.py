"""Selections on a map: lasso, box and clicks → points, and back into a URL. Pure functions, tested without a browser.

A selection is stored as the areas that were drawn, in the map's own coordinates, so that it fits a URL and applies to
every point, plotted or not: "a:x,y,x,y,…" is an area on the first map, "b:" on the second, several joined by "!".
Clicked points are "p:12,77".
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.components import opened
from app.components.events import is_index
from app.components.selection import selected_points

MOST_CORNERS = 120
MOST_AREAS = 8
MOST_CLICKED = 200
MOST_REPORTED = 20_000  # corners of a lasso
MAPS = "ab"
_AREA = re.compile(r"[ab]:-?\d{1,7}(\.\d{1,5})?(,-?\d{1,7}(\.\d{1,5})?){5,}")
_CLICKED = re.compile(r"p:\d{1,9}(,\d{1,9})*")


@dataclass(frozen=True)
class Area:
    """A polygon on a map. map: 0 or 1. corners: (k, 2), k ≥ 3; the last corner is joined to the first."""

    map: int
    corners: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Selection:
    """Areas, clicked points, or nothing."""

    areas: tuple[Area, ...] = ()
    clicked: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.areas or self.clicked)


def to_text(selection: Selection) -> str:
    """Convert the selection to text for a URL."""
    parts = []
    for area in selection.areas:
        numbers = ",".join(f"{value:g}" for corner in area.corners for value in corner)
        parts.append(f"{MAPS[area.map]}:{numbers}")
    if selection.clicked:
        parts.append("p:" + ",".join(str(point) for point in selection.clicked))
    return "!".join(parts)


def from_text(text: str | None) -> Selection:
    """Parse a selection; parts that cannot be parsed are ignored."""
    areas = []
    clicked = []
    for part in (text or "").split("!")[: MOST_AREAS + 1]:
        if _AREA.fullmatch(part):
            values = [float(value) for value in part[2:].split(",")][: 2 * MOST_CORNERS]
            if len(values) % 2 == 0:
                areas.append(Area(MAPS.index(part[0]), tuple(zip(values[::2], values[1::2], strict=True))))
        elif _CLICKED.fullmatch(part):
            clicked = [int(value) for value in part[2:].split(",")][:MOST_CLICKED]
    return Selection(tuple(areas[:MOST_AREAS]), tuple(dict.fromkeys(clicked)))


def from_chart(state: Mapping[str, Any] | None) -> Selection:
    """Convert a chart's report, {"selection": {"lasso": […], "box": […], "points": […]}}; areas take precedence."""
    reported = (state or {}).get("selection", {})
    shapes = [_area(shape, shape.get("x", []), shape.get("y", [])) for shape in reported.get("lasso", [])]
    for shape in reported.get("box", []):
        x = shape.get("x") or [0.0]
        y = shape.get("y") or [0.0]
        shapes.append(_area(shape, [min(x), max(x), max(x), min(x)], [min(y), min(y), max(y), max(y)]))
    areas = tuple(area for area in shapes if area is not None)[:MOST_AREAS]
    return Selection(areas) if areas else Selection((), tuple(selected_points(state))[:MOST_CLICKED])


def from_lasso(number: object, corners: object, maps: int) -> Selection:
    """Convert the corners of a lasso, as the browser reports them, on one of the maps; anything else selects nothing."""
    if not is_index(number, maps) or not isinstance(corners, list) or len(corners) > MOST_REPORTED:
        return Selection()
    pairs = [corner for corner in corners if isinstance(corner, list) and len(corner) == 2]
    if not all(isinstance(value, (int, float)) for pair in pairs for value in pair):
        return Selection()
    x = [float(pair[0]) for pair in pairs]
    y = [float(pair[1]) for pair in pairs]
    area = _area({"xref": "x2" if number else "x"}, x, y)
    return Selection((area,) if area else ())


def _area(shape: Mapping[str, Any], x: Sequence[Any], y: Sequence[Any]) -> Area | None:
    if len(x) != len(y) or len(x) < 3:
        return None
    corners = np.array([x, y], dtype=float).T
    if not np.isfinite(corners).all():
        return None
    extent = float(np.ptp(corners, axis=0).max()) or 1.0
    digits = max(3 - int(np.floor(np.log10(extent))), 0)  # a thousandth of the extent, below a point's size
    corners = np.round(corners, min(digits, 5))
    if len(corners) > MOST_CORNERS:
        corners = corners[np.linspace(0, len(corners) - 1, MOST_CORNERS).round().astype(int)]
    return Area(int(shape.get("xref") == "x2"), tuple((float(a), float(b)) for a, b in corners))


def inside(plane: np.ndarray, corners: Sequence[tuple[float, float]]) -> np.ndarray:
    """Return (N,) bool: points of (N, 2) inside a polygon, by the even-odd rule. Points are sorted by height, so that
    each edge is compared only with those between the heights of its ends."""
    polygon = np.asarray(corners, dtype=np.float64)
    low = polygon.min(0)
    high = polygon.max(0)
    mask = np.zeros(len(plane), dtype=bool)
    near = np.flatnonzero(((plane >= low) & (plane <= high)).all(1))
    near = near[np.argsort(plane[near, 1], kind="stable")]
    x, y = np.asarray(plane[near], dtype=np.float64).T
    odd = np.zeros(len(near), dtype=bool)
    for (x1, y1), (x2, y2) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if y1 == y2:
            continue
        first, last = np.searchsorted(
            y, sorted((y1, y2))
        )  # the lower end belongs to the edge, the upper one does not
        between = slice(first, last)
        odd[between] ^= x[between] < (x2 - x1) * (y[between] - y1) / (y2 - y1) + x1

    mask[near] = odd
    return mask


def points_in(selection: Selection, planes: Sequence[np.ndarray]) -> np.ndarray:
    """Return the selected points, ascending: inside any area on its own map (N, 2), and the clicked ones."""
    mask = np.zeros(len(planes[0]), dtype=bool)
    for area in selection.areas:
        if area.map < len(planes):
            mask |= inside(planes[area.map], area.corners)
    mask[[point for point in selection.clicked if point < len(mask)]] = True
    return np.flatnonzero(mask)


def focus_point(text: str | None, images: int, captions: int) -> int | None:
    """Return the point named "image-3" or "caption-7"; None for anything else."""
    modality, number = opened.parse(text) or ("text", captions)
    if modality == "image":
        return number if number < images else None
    return images + number if number < captions else None


def focus_name(point: int, images: int) -> str:
    """Name a point "image-3" or "caption-7"."""
    return opened.name_of(*(("image", point) if point < images else ("text", point - images)))


def pairs_of(points: np.ndarray, owner: np.ndarray, images: int, most: int) -> tuple[np.ndarray, int]:
    """Return the image-caption pairs that include these points, (k, 2) points of image and caption, and their total
    number. Of more than `most`, an even selection is returned. `owner` is (m,) the image of each caption."""
    selected = np.zeros(images + len(owner), dtype=bool)
    selected[points] = True
    captions = np.flatnonzero(selected[images:] | selected[:images][owner])
    total = len(captions)
    if total > most:
        captions = captions[np.linspace(0, total - 1, most).round().astype(int)]
    return np.stack([owner[captions], captions + images], axis=1), total
