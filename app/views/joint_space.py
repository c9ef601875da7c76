"""Sections of the Joint space page: maps with one shared selection, its table and pictures, one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts, questions
from app.ask import Modality, Run, Sample, ask, ask_now, clusters, joint_space, thumbnails
from app.choice import Choice, bound, set_value, theme
from app.components import cards, downloads, links, map_selection, words
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.table import Column, SampleCell, rows_table
from app.views.samples import TABLE_PICTURE, ids_of, ids_text, name_of, sample_card, show_sample

AREA, FOCUS, FIND, SHOWN = "area", "focus", "find", "modalities"
MODALITIES = {"both": "Both", "images": "Images", "captions": "Captions", "centred": "Both, centred"}
QUERY_LENGTH, MOST_MATCHES = 200, 2_000
CHART, TABLE = "joint-map", "joint-table"
MOST_DRAWN = 20_000
MOST_LINES = 400
PICTURES_SHOWN, LABEL_LENGTH = 10, 90
COLUMNS = ("modality", "rank", "gain", "diversity", "similarity", "hubness", "words", "cluster")
KINDS = ("modality", "cluster")
DIGITS = {"rank": ",d", "gain": "+,d", "diversity": ".3f", "similarity": ".3f", "hubness": ",d"}
Planes = Sequence[np.ndarray]
Tables = Sequence[pd.DataFrame]


def choose_modalities() -> joint_space.Modalities:
    """The switch: both modalities, one alone, or both centred. A selection belongs to one map, so it is cleared."""
    return cast(
        joint_space.Modalities,
        choose_one("Points", MODALITIES, SHOWN, tip("modalities"), on_change=clear_area),
    )


def clear_area() -> None:
    """Forget the selection: areas and points of another map mean nothing on this one."""
    set_value(AREA, "")


def tables_of(choice: Choice, sample: Sample | None) -> list[pd.DataFrame]:
    """All samples of every run, or a random sample; with two runs also the gain in rank."""
    tables = [ask(joint_space.samples, run, choice.split, sample=sample) for run in choice.runs]
    if len(tables) == 2:
        gain = tables[0]["rank"] - tables[1]["rank"]
        tables = [table.assign(gain=gain) for table in tables]
    labels = [
        label
        for run in choice.runs
        if (label := ask_now(questions.cluster_labels, run, choice.split)) is not None
    ]
    if len(labels) == len(tables):
        rows = point_rows(choice, tables[0])
        tables = [table.assign(cluster=label[rows]) for table, label in zip(tables, labels, strict=True)]
    return tables


def point_rows(choice: Choice, table: pd.DataFrame) -> np.ndarray:
    """The rows of a table's samples among all points of the split, images first; ascending."""
    images = len(ask(Run.ranks, choice.first, choice.split)["i2t"])
    return np.asarray(table["number"].to_numpy() + np.where(table["modality"] == "image", 0, images))


def points_shown(table: pd.DataFrame, modalities: joint_space.Modalities) -> np.ndarray:
    """The rows of a table that the map shows."""
    if modalities in ("both", "centred"):
        return np.arange(len(table))
    return np.flatnonzero((table["modality"] == "image") == (modalities == "images"))


def position(rows: np.ndarray, point: int | None) -> int | None:
    """The index of a point of the split among these rows; None when it is not among them."""
    if point is None:
        return None
    index = int(np.searchsorted(rows, point))
    return index if index < len(rows) and rows[index] == point else None


@st.fragment
def explore(
    choice: Choice, planes: Planes, whole_tables: Tables, modalities: joint_space.Modalities, remark: str
) -> None:
    """Draw it. Only this part of the page reruns after a lasso.

    Args:
        planes: of the points that `modalities` shows. whole_tables: every run's samples of both modalities.
        remark: how the maps were made.
    """
    shown = points_shown(whole_tables[0], modalities)
    tables = [table.iloc[shown] for table in whole_tables]
    images, captions = (int((tables[0]["modality"] == kind).sum()) for kind in ("image", "caption"))
    both = bool(images and captions)
    rows, ranks = point_rows(choice, tables[0]), ask(Run.ranks, choice.first, choice.split)
    all_images, all_captions = len(ranks["i2t"]), len(ranks["t2i"])
    names = [name for name in COLUMNS if name in tables[0] and (both or name != "modality")]
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
        column = str(st.selectbox("Colour", names, **bound("colour"), width=150))
        query = st.text_input(
            "Find on the map",
            max_chars=QUERY_LENGTH,
            placeholder="words, image 12, a file",
            help=tip("find"),
            width=210,
            **bound(FIND),
        )
        label = "Lines between images and their captions"
        lines = st.toggle(label, True, **bound("lines"), help=tip("pair lines")) if both else False
        selection = map_selection.from_text(st.query_params.get(AREA))
        st.button("Clear selection", icon=":material/deselect:", on_click=_clear, disabled=not selection)
    points = map_selection.points_in(selection, planes)
    found = map_selection.matching_points(
        whole_tables[0], ask(Run.image_names, choice.first, choice.split), query or ""
    )
    if choice.slice:
        members = np.concatenate([choice.members("image"), choice.members("text") + all_images])
        points = points[np.isin(rows[points], members)]
        if not (query or "").strip():
            found = np.flatnonzero(np.isin(point_rows(choice, whole_tables[0]), members))
            cards.note("Samples of the slice are highlighted; selections include only these.")
    matches = np.flatnonzero(np.isin(shown, found))
    opened = map_selection.focus_point(st.query_params.get(FOCUS), all_images, all_captions)
    if opened is None and len(matches) == 1 and (query or "").strip():
        opened = int(rows[matches[0]])
    focus = position(rows, opened)
    pairs, total = np.zeros((0, 2), dtype=np.int64), 0
    if both:
        numbers, image = tables[0]["number"].to_numpy(), tables[0]["image"].to_numpy()
        owner = np.searchsorted(numbers[:images], image[images:])  # positions among the images
        with_lines = np.union1d(points, [] if focus is None else [focus]).astype(np.int64)
        pairs, total = map_selection.pairs_of(with_lines, owner, images, MOST_LINES)
    if query and query.strip():
        cards.note(_matched(query.strip(), matches, images))
    _summary(images, captions, points, total, lines, remark)
    mask = None
    if selection:
        mask = np.zeros(len(shown), dtype=bool)
        mask[points] = True
    areas = tuple((area.map, area.corners) for area in selection.areas)
    marks = charts.Marks(mask, pairs if lines else None, focus, areas, matches[:MOST_MATCHES])
    downloads.chart(
        _figure(choice, planes, tables, column, images, marks),
        CHART,
        f"joint space of {' and '.join(run.name for run in choice.runs)}, coloured by {column}",
        on_select=_select,
        selection_mode=("points", "box", "lasso"),
        theme=None,
    )
    if selection:
        _table(choice, planes, tables, points, rows)
        _pictures(choice, tables[-1], points)
    if opened is not None:
        cards.heading("One sample in detail")
        if focus is None:
            cards.note("The map does not show it: it is not in the random sample, or its modality is hidden.")
        is_image = opened < all_images
        number = opened if is_image else opened - all_images
        show_sample(choice, "image" if is_image else "text", number, here="joint space")


def selection_table(choice: Choice, tables: Tables, planes: Planes, points: np.ndarray) -> pd.DataFrame:
    """The selected samples as one table: what all runs share, then every run's numbers under "column (run)"."""
    names = ("modality", "number", "image", "text", "words", "gain")  # a gain compares two runs
    shared = [name for name in names if name in tables[0]]
    selection = tables[0].iloc[points][shared].reset_index(drop=True)
    for run, table, plane in zip(choice.runs, tables, planes, strict=True):
        suffix = f" ({run.name})" if len(choice.runs) > 1 else ""
        numbers = table.iloc[points].drop(columns=shared).reset_index(drop=True)
        numbers["x"], numbers["y"] = plane[points, 0], plane[points, 1]
        selection = selection.join(numbers.add_suffix(suffix))
    return selection


def _matched(query: str, matches: np.ndarray, images: int) -> str:
    """Number of samples that a search found on the map, in words."""
    if not len(matches):
        return (
            f"Nothing on the map matches “{query}”: no number, file name, or caption with all of these words."
        )
    of_images = int((matches < images).sum())
    parts = [
        words.count(number, name)
        for number, name in ((of_images, "image"), (len(matches) - of_images, "caption"))
        if number
    ]
    limit = f" The first {MOST_MATCHES:,} have a ring." if len(matches) > MOST_MATCHES else ""
    return f"“{query}” matches {' and '.join(parts)}, marked by rings.{limit}"


def _figure(
    choice: Choice, planes: Planes, tables: Tables, column: str, images: int, marks: charts.Marks
) -> go.Figure:
    colours = charts.tone(theme())
    plotted = joint_space.draw_points(images, len(planes[0]) - images, MOST_DRAWN)
    table = tables[0].iloc[plotted]
    names = ask(Run.image_names, choice.first, choice.split)
    columns = (table[name] for name in ("modality", "number", "image", "text"))
    labels = [
        f"{charts.plain(ids_text('image' if kind == 'image' else 'text', number, image, names[image]))}<br>"
        f"{charts.plain(text[:LABEL_LENGTH])}"
        for kind, number, image, text in zip(*columns, strict=True)
    ]
    colouring: list[charts.Kinds | charts.Ramp]
    if column in KINDS:
        values = [t[column] for t in tables]
        order: tuple[str, ...] = ("image", "caption") if column == "modality" else ()
        if (
            column == "cluster" and len(values) == 2
        ):  # the same colour for clusters that share the most samples
            values[1] = pd.Series(clusters.matched(values[0].to_numpy(), values[1].to_numpy()))
            order = charts.frequent(values[0])
        colouring = [charts.kinds(labels_of_run, colours, order) for labels_of_run in values]
    else:
        joined = charts.ramp(
            column, np.concatenate([t[column].to_numpy(dtype=float) for t in tables]), colours
        )
        colouring = list(charts.split_ramp(joined, len(tables)))
    maps = [
        charts.Map(run.name, plane, c) for run, plane, c in zip(choice.runs, planes, colouring, strict=True)
    ]
    return charts.joint_map(maps, images, plotted, labels, marks, colours, column)


def _summary(images: int, captions: int, points: np.ndarray, pairs: int, lines: bool, remark: str) -> None:
    """Count the plotted and the selected points."""
    parts, count = [], images + captions
    if count > MOST_DRAWN:
        parts.append(
            f"{MOST_DRAWN:,} of {count:,} points are plotted, chosen at random; the shade behind them shows the "
            "density of all points, and selections apply to all points."
        )
    if len(points):
        selected = int((points < images).sum())
        kinds = [
            words.count(number, name)
            for number, of_all, name in (
                (selected, images, "image"),
                (len(points) - selected, captions, "caption"),
            )
            if of_all
        ]
        parts.append(f"{len(points):,} of {count:,} selected: {', '.join(kinds)}.")
        if lines and pairs > MOST_LINES:
            parts.append(f"Lines show {MOST_LINES:,} of their {pairs:,} pairs.")
    else:
        kind = "Diamonds are images, dots captions." if images and captions else ""
        parts += [kind, "Select points by lasso or box, or switch to Pan and click."]
    cards.note(" ".join(part for part in [*parts, remark] if part))


def _select() -> None:
    """Put a lasso, a box or clicked points into the URL."""
    set_value(AREA, map_selection.to_text(map_selection.from_chart(st.session_state.get(CHART))))


def _clear() -> None:
    set_value(AREA, "")
    set_value(FOCUS, "")


def _table(choice: Choice, planes: Planes, tables: Tables, points: np.ndarray, all_rows: np.ndarray) -> None:
    images = len(ask(Run.ranks, choice.first, choice.split)["i2t"])
    selected = selection_table(choice, tables, planes, points)
    cards.heading(
        "Selected samples",
        "Click on a row to open the sample below and mark it on the map. The files contain every column.",
    )
    if not len(selected):
        cards.empty("This area contains no point.", "Select other points, or clear the selection.")
        return
    run, split = choice.last, choice.split
    columns = {"gain": Column("gain", DIGITS["gain"], "gain")} if "gain" in selected else {}
    for summary in choice.runs:
        suffix = f" ({summary.name})" if len(choice.runs) > 1 else ""
        for name, digits in DIGITS.items():
            if (key := f"{name}{suffix}") in selected:
                columns[key] = Column(key, digits, name)
    modalities, numbers = (selected[name].tolist() for name in ("modality", "number"))

    def page(rows: np.ndarray) -> list[SampleCell]:
        kinds: list[Modality] = ["image" if modalities[row] == "image" else "text" for row in rows.tolist()]
        pictures = thumbnails(choice.last, split, selected["image"].to_numpy()[rows], TABLE_PICTURE)
        return [
            SampleCell(
                int(selected["image"].iloc[row]),
                name_of(kind, numbers[row]),
                str(selected["text"].iloc[row]),
                ids_of(run, split, kind, numbers[row]),
                cards.data_url(picture),
            )
            for row, kind, picture in zip(rows.tolist(), kinds, pictures, strict=True)
        ]

    rows_table(
        selected,
        columns,
        all_rows[points],
        TABLE,
        "samples",
        map_selection.focus_point(
            st.query_params.get(FOCUS), images, len(ask(Run.image_of_text, run, split))
        ),
        lambda point: set_value(FOCUS, map_selection.focus_name(point, images)),
        height=360,
        samples=page,
    )
    downloads.table(selected, f"selection-{choice.split}")


def _pictures(choice: Choice, table: pd.DataFrame, points: np.ndarray) -> None:
    """The images of the selection, and of its captions, as cards."""
    images = pd.unique(table["image"].to_numpy()[points])
    if not len(images):
        return
    shown = f"{min(len(images), PICTURES_SHOWN)} of {words.count(len(images), 'picture')}"
    cards.heading(
        "Their pictures", f"{shown}: the image’s number, and its similarity to its best own caption."
    )
    best = table.groupby("image")["similarity"].max()  # of an image, and of its captions, to their best match
    items = [
        sample_card(
            choice.last,
            choice.split,
            "image",
            image,
            image,
            float(best[image]),
            links=links.of_sample(choice, "image", image, here="joint space"),
        )
        for image in images[:PICTURES_SHOWN].tolist()
    ]
    cards.results(items)
