"""The maps of the Joint space page with one shared selection; beside them the opened sample and a list of samples."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import charts, judging
from app.address import bound, set_value
from app.ask import Run, ask, joint_space, keyed
from app.choice import Choice
from app.components import cards, downloads, map_selection, opened, own_columns, reviewing, samples
from app.components.controls import button, pick, row, switch
from app.components.events import is_index
from app.components.map_search import points_of_split
from app.components.samples import cells_of, show_sample
from app.components.space_map.columns import publish
from app.components.space_map.component import NO_WEBGL, Arrows, Panel, SpaceMap, space_map
from app.components.table import ENLARGED, Column, SampleCell, Table, rows_table
from app.components.theme import tone
from app.views.joint import plain
from app.views.joint.colouring import Colouring, codes, colouring, legend, palette
from app.views.joint.layouts import choose_map
from app.views.joint.points import AREA, FIND, FOCUS, SHARED, Shown

MAP = "space-map"
TABLE = "joint-table"
NEAREST = "joint-nearest"
SHARES = "joint-shares"
QUERY_LENGTH = 200
MOST_MATCHES = 2_000
MOST_LINES = 60
MOST_ARROWS = 3_000
NEIGHBOURS = 12
DIGITS = {
    "rank": ",d",
    "gain": "+,d",
    "diversity": ".3f",
    "similarity": ".3f",
    "hubness": ",d",
    "words": ",d",
}
IN_LIST = ("rank", "gain")  # columns of the list beside the map, besides that of the colours
NONE = -1  # of a list's rows is open
WIDTHS = (5, 3)  # of the map and the list


@dataclass(frozen=True)
class Lit:
    """What a person has singled out. `selection`: areas and clicked points; `base`: the selected points inside the
    slice, None for all; `points`: those of them that match `query`, None for all; `matches`: all that match."""

    selection: map_selection.Selection
    query: str
    base: np.ndarray | None
    points: np.ndarray | None
    matches: np.ndarray


@dataclass(frozen=True)
class View:
    """What the map and the list show: points, the column that colours them and their colours, what is lit, and the open
    sample's number among all points of the split."""

    shown: Shown
    column: str
    coloured: Colouring
    lit: Lit
    focus: int | None


@st.fragment
def explore(choice: Choice) -> None:
    """Draw the choice of a map, the map, and beside it the opened sample and a list. Only this part of the page reruns
    after a click; a verdict and an enlarged picture need the whole page, which then runs again."""
    if opened.state().drawn:  # only this part runs
        if ENLARGED in st.session_state or reviewing.is_new():
            st.rerun()
        judging.begin()
        opened.begin_fragment()

    has_webgl = NO_WEBGL not in st.session_state
    with row():
        chosen = choose_map(choice)
        shown = chosen.shown
        column = pick("Color", shown.columns, "colour", 130)
        query = _query(has_webgl)
        with chosen.menu:
            lines = shown.both and st.toggle(
                "Pair lines", True, help=cards.tip("pair lines"), **bound("lines")
            )
            arrows = len(shown.planes) == 2 and has_webgl and switch("Arrows", "arrows", "arrows")
        if not has_webgl:
            selected = bool(map_selection.from_text(st.query_params.get(AREA)))
            button("Clear selection", "clear-selection", "deselect", _clear, disabled=not selected)

    lit = _lit(shown, query)
    view = View(shown, column, colouring(shown, column), lit, _focus(shown, lit))
    left, right = st.columns(WIDTHS, gap="small")
    with left:
        remarks = [_summary(view, lines, has_webgl)]
        if has_webgl:
            remarks.append(_draw(view, lines=lines, arrows=arrows))
            make = partial(plain.figure, shown, view.coloured, _marks(view, lines), tone())
            downloads.offer_figure(make, _alt(view))
        else:
            reason = st.session_state[NO_WEBGL]
            cards.note(f"The map is drawn without WebGL, because {reason}. {plain.note(shown)}")
            plain.draw(shown, view.coloured, _marks(view, lines), _alt(view), AREA)
        if chosen.offer is not None:
            chosen.offer()
        cards.note(" ".join(part for part in [*remarks, chosen.remark] if part))

    with right, st.container(key="joint-beside", gap="small"):
        panel = st.container()
        _beside(view)
        samples.show_opened(choice, panel)


def _query(has_webgl: bool) -> str:
    """Return the search, for which the map has a field of its own."""
    if has_webgl:
        return str(st.query_params.get(FIND, ""))[:QUERY_LENGTH].strip()
    tip = cards.tip("find")
    example = "words, image 12, a file"
    text = st.text_input(
        "Find on the map", max_chars=QUERY_LENGTH, placeholder=example, help=tip, width=210, **bound(FIND)
    )
    return (text or "").strip()


def _lit(shown: Shown, query: str) -> Lit:
    choice = shown.choice
    selection = map_selection.from_text(st.query_params.get(AREA))
    inside = np.ones(len(shown), dtype=bool)
    if selection:
        inside = np.zeros(len(shown), dtype=bool)
        inside[map_selection.points_in(selection, shown.planes)] = True
    if choice.slice:
        images, captions = shown.of_split
        members = np.zeros(images + captions, dtype=bool)
        members[choice.members("image")] = True
        members[images + choice.members("text")] = True
        inside &= members[shown.first : shown.first + len(shown)]

    base = np.flatnonzero(inside) if selection or choice.slice else None
    if not query:
        return Lit(selection, query, base, base, np.zeros(0, dtype=np.int64))

    matches = points_of_split(choice.last, choice.split, query) - shown.first
    matches = matches[(matches >= 0) & (matches < len(shown))]
    return Lit(selection, query, base, matches[inside[matches]], matches)


def _focus(shown: Shown, lit: Lit) -> int | None:
    """Return the open sample's number among all points of the split: that of the address, or a search's only match."""
    focus = map_selection.focus_point(st.query_params.get(FOCUS), *shown.of_split)
    if focus is None and len(lit.matches) == 1:
        return int(lit.matches[0]) + shown.first
    return focus


def _nearest(shown: Shown, focus: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours of the open sample in the joint space of the last run, and their cosines."""
    if focus is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    choice = shown.choice
    return ask(joint_space.nearest_points, choice.last, choice.split, focus, NEIGHBOURS)


def _pairs(shown: Shown, lit: Lit, focus: int | None) -> tuple[np.ndarray, int]:
    """Return the pairs of the selected points and of the open one, at most `MOST_LINES`, and their total number."""
    points = np.zeros(0, np.int64) if lit.base is None or not lit.selection else lit.base
    place = shown.point(focus)
    with_lines = np.union1d(points, [] if place is None else [place]).astype(np.int64)
    if not shown.both or not len(with_lines):
        return np.zeros((0, 2), dtype=np.int64), 0
    return map_selection.pairs_of(with_lines, shown.choice.ask(Run.image_of_text), shown.images, MOST_LINES)


def _draw(view: View, *, lines: bool, arrows: bool) -> str:
    """Draw the map; return a remark about its arrows."""
    shown = view.shown
    lit = view.lit
    focus = view.focus
    choice = shown.choice
    colours = tone()
    near, _ = _nearest(shown, focus)
    place = shown.point(focus)
    on_map = near - shown.first
    on_map = on_map[(on_map >= 0) & (on_map < len(shown))]
    drawn, remark = _arrows(shown, lit) if arrows else (None, "")
    panels = []
    for run, plane, of_run in zip(choice.runs, shown.planes, view.coloured, strict=True):
        labels = ask(joint_space.area_labels, run, choice.split, keyed(publish(plane), plane), shown.first)
        places = [(", ".join(label.words), label.x, label.y) for label in labels]
        alt = f"Map of {' and '.join(shown.counted(np.arange(len(shown))))} of {run.name}, colored by {view.column}. "
        alt += "The list beside it has the same samples."
        panels.append(Panel(run.name, alt, plane, of_run.codes, places))
    content = SpaceMap(
        run=choice.last.name,
        split=choice.split,
        first=shown.first,
        images_of_split=shown.of_split[0],
        images=shown.images,
        panels=panels,
        palette=palette(view.coloured[0].scale, colours),
        legend=legend(view.coloured[-1].scale),
        lit=lit.points,
        base=lit.base,
        query=lit.query,
        note=_matched(shown, lit) if lit.query else "",
        areas=[{"map": area.map, "corners": area.corners} for area in lit.selection.areas],
        clicked=bool(lit.selection.clicked),
        focus=place,
        near=on_map.tolist(),
        lines=_pairs(shown, lit, focus)[0].tolist() if lines else (),
        arrows=drawn,
    )

    def handle(value: Mapping[str, Any]) -> None:
        _handle(shown, value)

    with st.container(key="joint-map"):
        space_map(content, MAP, colours, handle)
    return remark


def _handle(shown: Shown, value: Mapping[str, Any]) -> None:
    """Put what a person did on the map into the address."""
    kind = value.get("kind")
    if kind == "area":
        area = map_selection.from_lasso(value.get("map"), value.get("corners"), len(shown.planes))
        set_value(AREA, map_selection.to_text(area))
    elif kind == "open" and is_index(value.get("point"), len(shown)):
        set_value(FOCUS, map_selection.focus_name(value["point"] + shown.first, shown.of_split[0]))
    elif kind == "find":
        set_value(FIND, str(value.get("text") or "")[:QUERY_LENGTH].strip())
    elif kind == "clear":
        _clear()


def _arrows(shown: Shown, lit: Lit) -> tuple[Arrows, str]:
    """Return the arrows of the lit points whose rank changes most, and a remark about them."""
    points = np.arange(len(shown)) if lit.points is None else lit.points
    gains = shown.values(shown.choice.last, "gain").to_numpy()[points]
    known = np.isfinite(gains)
    points = points[known]
    gains = gains[known]
    total = len(points)
    if total > MOST_ARROWS:
        largest = np.argpartition(-np.abs(gains), MOST_ARROWS)[:MOST_ARROWS]
        points = points[largest]
        gains = gains[largest]

    first, last = (run.name for run in shown.choice.runs)
    of = (
        f"the {len(points):,} of {total:,} samples whose rank changes most"
        if total > len(points)
        else f"{total:,} samples"
    )
    remark = (
        f"Arrows lead from the place in {first} to that in {last}, for {of}, colored by the gain in rank."
    )
    ramp = charts.ramp("gain", gains, tone())
    return Arrows(points, codes(ramp), palette(ramp, tone())), remark


def _marks(view: View, lines: bool) -> charts.Marks:
    """Return what the Plotly figure of the map marks."""
    shown = view.shown
    lit = view.lit
    areas = tuple((area.map, area.corners) for area in lit.selection.areas)
    mask = np.isin(np.arange(len(shown)), lit.base) if lit.selection and lit.base is not None else None
    marked = lit.matches if lit.query or lit.base is None or not shown.choice.slice else lit.base
    pairs = _pairs(shown, lit, view.focus)[0] if lines else None
    return charts.Marks(mask, pairs, shown.point(view.focus), areas, marked[:MOST_MATCHES])


def _alt(view: View) -> str:
    return (
        f"joint space of {' and '.join(run.name for run in view.shown.choice.runs)}, colored by {view.column}"
    )


def _matched(shown: Shown, lit: Lit) -> str:
    """Describe the number of samples that a search found on the map."""
    if not len(lit.matches):
        return f"Nothing on the map matches “{lit.query}”: no number, file name, or caption with all these words."
    parts = [part for part in shown.counted(lit.matches) if not part.startswith("0 ")]
    return f"“{lit.query}” matches {' and '.join(parts)}."


def _summary(view: View, lines: bool, has_webgl: bool) -> str:
    """Describe the search, the slice and pair lines, and how to select points of a map without WebGL."""
    shown = view.shown
    lit = view.lit
    parts = []
    if lit.query:
        parts.append(_matched(shown, lit))
    if shown.choice.slice:
        parts.append("Samples of the slice are highlighted; selections include only these.")
    pairs = _pairs(shown, lit, None)[1]
    if lines and pairs > MOST_LINES:
        parts.append(f"Lines connect {MOST_LINES} of their {pairs:,} pairs.")
    if not lit.selection and not has_webgl:
        parts.append(
            "Diamonds are images, dots captions. Select points by lasso or box, or switch to Pan and click."
        )
    return " ".join(parts)


def _clear() -> None:
    set_value(AREA, "")
    set_value(FOCUS, "")


def _beside(view: View) -> None:
    """Draw the neighbours of the open sample, or the list of the lit samples, else of all."""
    shown = view.shown
    lit = view.lit
    focus = view.focus
    choice = shown.choice
    images = shown.of_split[0]
    if focus is not None:
        if shown.point(focus) is None:
            cards.note("The open sample is not on the map: its modality is hidden.")
        if focus < images:
            show_sample(choice, "image", focus, FOCUS)
        else:
            show_sample(choice, "text", focus - images, FOCUS)
        if lit.points is None:
            _list_nearest(shown, focus)
            return

    points = _listed(view)
    total = f"{len(shown):,}"
    if lit.points is None:
        cards.label(f"All {total} samples")
    elif not len(points):
        cards.empty(
            "This area contains no point." if not lit.query else _matched(shown, lit),
            "Select other points, or clear the selection.",
        )
        return
    else:
        how = "selected" if lit.selection else "found" if lit.query else "in the slice"
        cards.label(f"{len(points):,} of {total} {how}: {', '.join(shown.counted(points))}.")

    _list(view, points)
    if lit.points is not None:
        figure = charts.share_bars(view.coloured[-1].scale, points, "selected", tone())
        downloads.chart(figure, SHARES, f"{view.column} of the selected samples and of all", theme=None)


def _listed(view: View) -> np.ndarray:
    """Return the points of the list: those that are lit, else all."""
    return np.arange(len(view.shown)) if view.lit.points is None else view.lit.points


def _cells(shown: Shown, points: np.ndarray) -> list[SampleCell]:
    kinds = np.where(points < shown.images, "image", "text").tolist()
    rows = zip(
        kinds, shown.numbers(points).tolist(), shown.owners(points).tolist(), shown.texts(points), strict=True
    )
    return cells_of(shown.choice.last, shown.choice.split, rows)


def _open(shown: Shown, of_split: int) -> None:
    set_value(FOCUS, map_selection.focus_name(of_split, shown.of_split[0]))


def _list(view: View, points: np.ndarray) -> None:
    """List points, with ranks in every run and the values of the column that colours them."""
    shown = view.shown
    choice = shown.choice
    frame: dict[str, np.ndarray] = {}
    columns = {}
    wanted = dict.fromkeys([*IN_LIST, view.column])
    names = [name for name in wanted if name in shown.columns and name != "modality"]
    for name in names:
        shared = name in (*SHARED, *shown.own)
        for run in [choice.last] if shared else choice.runs:
            key = name if shared else f"{name}{_suffix(choice, run.name)}"
            values = shown.values(run, name).to_numpy()
            frame[key] = values if len(points) == len(shown) else values[points]
            columns[key] = Column(key, DIGITS.get(name, ""), name)

    if own := [name for name in names if name in shown.own]:
        of_own = own_columns.written(pd.DataFrame({name: frame[name] for name in own}))
        frame |= {name: of_own[name].to_numpy() for name in own}
        columns |= own_columns.table_columns(of_own)

    table = pd.DataFrame(frame, index=range(len(points)))
    ids = points + shown.first
    listed = Table(
        table, columns, TABLE, "samples", ids, 420, lambda rows: _cells(shown, points[rows]), narrow=True
    )
    rows_table(listed, NONE if view.focus is None else view.focus, lambda point: _open(shown, point))
    # the button stays with the session, so it must not hold the points
    downloads.table(lambda: selection_table(shown, _listed(view)), f"selection-{choice.split}")


def _list_nearest(shown: Shown, focus: int) -> None:
    """List the nearest neighbours of the open sample in the joint space, which the map may have separated."""
    choice = shown.choice
    near, cosines = _nearest(shown, focus)
    whole = Shown(choice, shown.planes, "both")
    table = pd.DataFrame({"cosine": cosines})
    cards.label(f"Nearest in the joint space of {choice.last.name}, by cosine")
    columns = {"cosine": Column("cosine", ".3f", "similarity")}
    listed = Table(
        table, columns, NEAREST, "samples", near, 420, lambda rows: _cells(whole, near[rows]), narrow=True
    )
    rows_table(listed, focus, lambda point: _open(shown, point))


def selection_table(shown: Shown, points: np.ndarray) -> pd.DataFrame:
    """Return points as one table: shared columns, then every run's numbers under "column (run)"."""
    choice = shown.choice
    kinds = np.where(points < shown.images, "image", "caption")
    named = {"modality": kinds, "number": shown.numbers(points), "image": shown.owners(points)}
    texts = {"text": np.array(shown.texts(points), dtype=object)}
    known = [name for name in shown.columns if name != "modality"]
    shared = [name for name in known if name in SHARED]
    own = [*shown.own]
    values = {name: shown.values(choice.last, name).iloc[points].to_numpy() for name in [*shared, *own]}
    table = own_columns.written(pd.DataFrame(named | texts | values))
    for run, plane in zip(choice.runs, shown.planes, strict=True):
        of_run = {
            name: shown.values(run, name).iloc[points].to_numpy()
            for name in known
            if name not in (*shared, *own)
        }
        numbers = pd.DataFrame(of_run | {"x": plane[points, 0], "y": plane[points, 1]})
        table = table.join(numbers.add_suffix(_suffix(choice, run.name)))

    return table


def _suffix(choice: Choice, name: str) -> str:
    return f" ({name})" if len(choice.runs) > 1 else ""
