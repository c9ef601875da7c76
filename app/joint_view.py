"""The joint space, explored: maps with one shared selection, the table behind it, its pictures, one sample opened."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import backend, cards, charts, downloads, links, maps
from app import backend_clusters as clusters
from app import backend_joint as joint
from app.anchor_view import show_sample
from app.controls import ROW_HEIGHT, picture_urls
from app.glossary import tip
from app.selection import selected_id
from app.state import Choice, bound, theme

AREA, FOCUS = "area", "focus"
CHART, TABLE = "joint-map", "joint-table"
MOST_DRAWN = 20_000
MOST_LINES = 400
ROWS_SHOWN, PICTURES_SHOWN, LABEL_LENGTH = 200, 10, 90
COLUMNS = ("modality", "rank", "gain", "diversity", "similarity", "hubness", "words", "cluster")
KINDS = ("modality", "cluster")
DIGITS = {"rank": "%d", "gain": "%+d", "diversity": "%.3f", "similarity": "%.3f", "hubness": "%d"}


def tables_of(choice: Choice) -> list[pd.DataFrame]:
    """All samples of every run; with two runs also by how many places the second one ranks them better."""
    tables = [joint.samples(run, choice.split) for run in choice.runs]
    if len(tables) == 2:
        gain = tables[0]["rank"] - tables[1]["rank"]
        tables = [table.assign(gain=gain) for table in tables]
    labels = [clusters.labels(run, choice.split) for run in choice.runs]
    if all(label is not None for label in labels):
        tables = [table.assign(cluster=label) for table, label in zip(tables, labels, strict=True)]
    return tables


@st.fragment
def explore(choice: Choice, planes: Sequence[np.ndarray], tables: Sequence[pd.DataFrame], remark: str) -> None:
    """Draw it. Only this part of the page runs again after a lasso. `remark`: how the maps were made."""
    count = len(planes[0])
    images = int((tables[0]["modality"] == "image").sum())
    owner = tables[0]["image"].to_numpy()[images:]
    names = [name for name in COLUMNS if name in tables[0]]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        column = str(st.selectbox("Colour", names, **bound("colour"), width=170))
        lines = st.toggle("Lines from images to their captions", True, **bound("lines"), help=tip("pair lines"))
        chosen = maps.read(st.query_params.get(AREA))
        st.button("Clear selection", icon=":material/deselect:", on_click=_clear, disabled=not chosen)
    points = maps.points_in(chosen, planes)
    focus = maps.focus_point(st.query_params.get(FOCUS), images, count - images)
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
        _table(choice, planes, tables, points)
        _pictures(choice, tables[-1], points)
    if focus is not None:
        cards.heading("One sample, opened")
        number = focus if focus < images else focus - images
        show_sample(choice, "image" if focus < images else "text", number, here="joint space")


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


def _table(choice: Choice, planes: Sequence[np.ndarray], tables: Sequence[pd.DataFrame], points: np.ndarray) -> None:
    images = int((tables[0]["modality"] == "image").sum())
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
    shown = points[: len(rows)]

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
