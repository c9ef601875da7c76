"""The joint space, explored: maps with one shared selection, the table behind it, its pictures, one sample opened."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts
from app.backend import clusters
from app.backend import joint_space as joint
from app.backend import runs as backend
from app.ui import cards, downloads, links
from app.ui.controls import ROW_HEIGHT, picture_urls
from app.ui.glossary import tip
from app.ui.selection import selected_id
from app.ui.state import Choice, bound, theme
from app.views import maps
from app.views.anchor import show_sample

AREA, FOCUS = "area", "focus"
CHART, TABLE = "joint-map", "joint-table"
MOST_DRAWN = 20_000
MOST_LINES = 400
ROWS_SHOWN, PICTURES_SHOWN, LABEL_LENGTH = 200, 10, 90
COLUMNS = ("modality", "rank", "gain", "diversity", "similarity", "hubness", "words", "cluster")
KINDS = ("modality", "cluster")
DIGITS = {"rank": "%d", "gain": "%+d", "diversity": "%.3f", "similarity": "%.3f", "hubness": "%d"}


def tables_of(choice: Choice, part: bool) -> list[pd.DataFrame]:
    """All samples of every run, or a random part; with two runs also how many places the second ranks them better."""
    tables = [joint.samples(run, choice.split, part) for run in choice.runs]
    if len(tables) == 2:
        gain = tables[0]["rank"] - tables[1]["rank"]
        tables = [table.assign(gain=gain) for table in tables]
    labels = [clusters.labels(run, choice.split) for run in choice.runs]
    found = [label for label in labels if label is not None]
    if len(found) == len(tables):
        rows = point_rows(choice, tables[0])
        tables = [table.assign(cluster=label[rows]) for table, label in zip(tables, found, strict=True)]
    return tables


def point_rows(choice: Choice, table: pd.DataFrame) -> np.ndarray:
    """Where the samples of a table stand among all points of the split, images first; ascending."""
    images = len(backend.open_summary(choice.first).ranks(choice.split)["i2t"])
    return np.asarray(table["number"].to_numpy() + np.where(table["modality"] == "image", 0, images))


def position(rows: np.ndarray, point: int | None) -> int | None:
    """Where a point of the split stands among these rows; None when it is not among them."""
    if point is None:
        return None
    found = int(np.searchsorted(rows, point))
    return found if found < len(rows) and rows[found] == point else None


@st.fragment
def explore(choice: Choice, planes: Sequence[np.ndarray], tables: Sequence[pd.DataFrame], remark: str) -> None:
    """Draw it. Only this part of the page runs again after a lasso. `remark`: how the maps were made."""
    count = len(planes[0])
    images = int((tables[0]["modality"] == "image").sum())
    numbers = tables[0]["number"].to_numpy()
    owner = np.searchsorted(numbers[:images], tables[0]["image"].to_numpy()[images:])  # positions among the images
    rows, ranks = point_rows(choice, tables[0]), backend.open_summary(choice.first).ranks(choice.split)
    of_images, of_captions = len(ranks["i2t"]), len(ranks["t2i"])
    names = [name for name in COLUMNS if name in tables[0]]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        column = str(st.selectbox("Colour", names, **bound("colour"), width=170))
        lines = st.toggle("Lines from images to their captions", True, **bound("lines"), help=tip("pair lines"))
        chosen = maps.read(st.query_params.get(AREA))
        st.button("Clear selection", icon=":material/deselect:", on_click=_clear, disabled=not chosen)
    points = maps.points_in(chosen, planes)
    opened = maps.focus_point(st.query_params.get(FOCUS), of_images, of_captions)
    focus = position(rows, opened)
    around = np.union1d(points, [] if focus is None else [focus]).astype(np.int64)
    pairs, total = maps.pairs_of(around, owner, images, MOST_LINES)
    _said(count, points, images, total, lines, remark)
    mask = None
    if chosen:
        mask = np.zeros(count, dtype=bool)
        mask[points] = True
    marks = charts.Marks(
        mask, pairs if lines else None, focus, tuple((area.map, area.corners) for area in chosen.areas)
    )
    figure = _figure(choice, planes, tables, column, images, marks)
    downloads.chart(
        figure, CHART, "joint space", on_select=_picked, selection_mode=("points", "box", "lasso"), theme=None
    )
    if chosen:
        _table(choice, planes, tables, points, rows)
        _pictures(choice, tables[-1], points)
    if opened is not None:
        cards.heading("One sample, opened")
        if focus is None:
            cards.note("It is not among the samples drawn at random, so the map does not show it.")
        number = opened if opened < of_images else opened - of_images
        show_sample(choice, "image" if opened < of_images else "text", number, here="joint space")


def _figure(
    choice: Choice, planes: Sequence[np.ndarray], tables: Sequence[pd.DataFrame], column: str, images: int,
    marks: charts.Marks,
) -> go.Figure:  # fmt: skip
    colours = charts.tone(theme())
    count = len(planes[0])
    drawn = joint.draw_points(images, count - images, MOST_DRAWN)
    table = tables[0].iloc[drawn]
    labels = [
        f"{kind} {number}<br>{charts.plain(text[:LABEL_LENGTH])}"
        for kind, number, text in zip(table["modality"], table["number"], table["text"], strict=True)
    ]
    if column in KINDS:
        values = [t[column] for t in tables]
        order: tuple[str, ...] = ("image", "caption") if column == "modality" else ()
        if column == "cluster" and len(values) == 2:  # one colour for the groups that share most samples
            values[1] = pd.Series(clusters.matched(values[0].to_numpy(), values[1].to_numpy()))
            order = charts.frequent(values[0])
        colouring: list[charts.Kinds | charts.Ramp] = [charts.kinds(one, colours, order) for one in values]
    else:
        joined = charts.ramp(column, np.concatenate([t[column].to_numpy(dtype=float) for t in tables]), colours)
        colouring = list(charts.split_ramp(joined, len(tables)))
    shown = [
        charts.Map(run.name, plane, coloured)
        for run, plane, coloured in zip(choice.runs, planes, colouring, strict=True)
    ]
    return charts.joint_map(shown, images, drawn, labels, marks, colours, column)


def _said(count: int, points: np.ndarray, images: int, pairs: int, lines: bool, remark: str) -> None:
    """What is drawn and what is chosen, in numbers."""
    parts = []
    if count > MOST_DRAWN:
        parts.append(
            f"{MOST_DRAWN:,} of {count:,} points are drawn, at random; the shade behind them is all of them, and a "
            "selection is taken from all of them."
        )
    if len(points):
        shown = int((points < images).sum())
        parts.append(f"{len(points):,} of {count:,} selected: {shown:,} images, {len(points) - shown:,} captions.")
        if lines and pairs > MOST_LINES:
            parts.append(f"Lines of {MOST_LINES:,} of their {pairs:,} pairs.")
    else:
        parts.append("Diamonds are images, dots captions. Draw around points (lasso, box), or take Pan and click one.")
    cards.note(" ".join([*parts, remark]))


def _picked() -> None:
    """A lasso, a box or a click becomes the selection in the URL; a click also opens the sample."""
    chosen = maps.drawn_by_hand(st.session_state.get(CHART))
    _remember(AREA, maps.written(chosen))
    st.session_state.pop(TABLE, None)


def _clear() -> None:
    _remember(AREA, "")
    _remember(FOCUS, "")


def _remember(key: str, value: str) -> None:
    if value:
        st.query_params[key] = value
    else:
        st.query_params.pop(key, None)


def _table(
    choice: Choice, planes: Sequence[np.ndarray], tables: Sequence[pd.DataFrame], points: np.ndarray, of: np.ndarray
) -> None:
    images = len(backend.open_summary(choice.first).ranks(choice.split)["i2t"])
    everything = joint.table_of(choice.runs, tables, planes, points)
    rows = everything.head(ROWS_SHOWN)
    cards.heading(
        "The selection", f"{len(rows):,} of {len(everything):,} shown; a click on a row opens the sample below and "
        "rings it on the map. The files hold all of them with every column.",
    )  # fmt: skip
    if not len(rows):
        cards.empty("No point lies in this area.", "Draw around some points, or clear the selection.")
        return
    pictures = backend.thumbnails(choice.runs[-1], choice.split, rows["image"].to_numpy(), 72)
    columns = {"picture": picture_urls(pictures)} | {name: rows[name] for name in ("modality", "number", "text")}
    config = {
        "picture": st.column_config.ImageColumn("", width=64),
        "modality": st.column_config.TextColumn("", width=70),
        "number": st.column_config.NumberColumn("number", format="%d", width=70),
        "text": st.column_config.TextColumn("caption, or first caption", width=300),
    }
    for run in choice.runs:
        suffix = f" ({run.name})" if len(choice.runs) > 1 else ""
        for name, digits in DIGITS.items():
            if f"{name}{suffix}" in rows and not (name == "gain" and run is choice.runs[0]):
                columns[f"{name}{suffix}"] = rows[f"{name}{suffix}"]
                label = name if name == "gain" else f"{name}{suffix}"
                config[f"{name}{suffix}"] = st.column_config.NumberColumn(label, format=digits, help=tip(name))
    shown = of[points[: len(rows)]]

    def opened() -> None:
        point = selected_id(st.session_state.get(TABLE), shown)
        if point is not None:
            _remember(FOCUS, maps.focus_name(point, images))

    st.dataframe(
        pd.DataFrame(columns), hide_index=True, height=360, row_height=ROW_HEIGHT, column_config=config, key=TABLE,
        on_select=opened, selection_mode="single-row",
    )  # fmt: skip
    downloads.table(everything, f"selection-{choice.split}")


def _pictures(choice: Choice, table: pd.DataFrame, points: np.ndarray) -> None:
    """The images of the selection, and of its captions, as cards."""
    chosen = pd.unique(table["image"].to_numpy()[points])
    if not len(chosen):
        return
    cards.heading("Its pictures", f"{min(len(chosen), PICTURES_SHOWN)} of {len(chosen):,}: the image's number, and the "
                  "similarity to its best own caption.")  # fmt: skip
    items = [
        cards.Result(
            int(image), float(table["similarity"].iloc[int(image)]), False, str(table["text"].iloc[int(image)]),
            backend.thumbnail(choice.runs[-1], choice.split, int(image), 160), True,
            links=links.of_sample(choice, "image", int(image), here="joint space"),
        )
        for image in chosen[:PICTURES_SHOWN]
    ]  # fmt: skip
    cards.results(items)
