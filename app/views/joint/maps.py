"""The maps of the Joint space page with one shared selection, its table and pictures, and one sample."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import charts, questions
from app.address import bound, set_value
from app.ask import Run, Sample, clusters, joint_space, opened_run
from app.choice import Choice
from app.components import cards, downloads, map_selection, own_columns, words
from app.components.controls import button, pick, row
from app.components.samples import OWN, cells_of, ids_text, sample_card, show_sample
from app.components.table import Column, SampleCell, Table, rows_table
from app.components.theme import tone

AREA = "area"
FOCUS = "focus"
CHART = "joint-map"
TABLE = "joint-table"
QUERY_LENGTH = 200
MOST_MATCHES = 2_000
MOST_DRAWN = 20_000
MOST_LINES = 60
PICTURES_SHOWN = 10
LABEL_LENGTH = 90
NO_VALUE = "no value"
OWN_SHOWN = 6  # of the user's columns, in the table of the selection; its download has all
COLUMNS = ("modality", "rank", "gain", "diversity", "similarity", "hubness", "words", "cluster")
KINDS = ("modality", "cluster")
SHARED = ("modality", "number", "image", "text", "words", "gain")  # the same in all runs; a gain compares two
DIGITS = {"rank": ",d", "gain": "+,d", "diversity": ".3f", "similarity": ".3f", "hubness": ",d"}
Planes = Sequence[np.ndarray]
Tables = Sequence[pd.DataFrame]
Modalities = joint_space.Modalities


def tables_of(choice: Choice, sample: Sample | None) -> list[pd.DataFrame]:
    """Return a table of all samples, or of a random sample, for every run; for two runs also the gain in rank."""
    tables = list(choice.ask_each(joint_space.samples, sample=sample).values())
    if len(tables) == 2:
        tables = [table.assign(gain=tables[0]["rank"] - tables[1]["rank"]) for table in tables]
    own = own_values(choice, tables[0])
    tables = [pd.concat([table, own.set_axis(table.index)], axis=1) for table in tables]
    labels = [questions.cluster_labels(opened_run(run), choice.split) for run in choice.runs]
    rows = point_rows(choice, tables[0])
    if any(label is None for label in labels):
        return tables
    return [table.assign(cluster=label[rows]) for table, label in zip(tables, labels, strict=True)]  # type: ignore[index]


def own_values(choice: Choice, table: pd.DataFrame) -> pd.DataFrame:
    """Return the user's columns of a table's samples, under their titles, or "column TITLE" beside a column of that
    name."""
    is_image = (table["modality"] == "image").to_numpy()
    numbers = table["number"].to_numpy()
    of_images = own_columns.values(choice.last, choice.split, "image", numbers[is_image])
    of_captions = own_columns.values(choice.last, choice.split, "text", numbers[~is_image])
    own = pd.concat([of_images, of_captions], ignore_index=True)
    taken = {title: f"{OWN}{title}" for title in own if title in (*table, *COLUMNS)}
    return own.rename(columns=taken)


def own_names(table: pd.DataFrame) -> list[str]:
    """Return the names of the user's columns in a table of `tables_of`."""
    return [str(name) for name in table if name not in (*SHARED, *COLUMNS)]


def point_rows(choice: Choice, table: pd.DataFrame) -> np.ndarray:
    """Return the rows of a table's samples among all points of the split, images first; ascending."""
    images = choice.ask(Run.count, "image")
    return np.asarray(table["number"].to_numpy() + np.where(table["modality"] == "image", 0, images))


def points_shown(table: pd.DataFrame, modalities: Modalities) -> np.ndarray:
    if modalities in ("both", "centred"):
        return np.arange(len(table))
    return np.flatnonzero((table["modality"] == "image") == (modalities == "images"))


@dataclass(frozen=True)
class Shown:
    """Contents of the maps: (N, 2) planes of every run; the same N samples of every run, images first; the first run's
    samples of both modalities, and the rows of the N in them."""

    choice: Choice
    planes: Planes
    tables: Tables
    whole: pd.DataFrame
    points: np.ndarray

    @cached_property
    def images(self) -> int:
        return int((self.tables[0]["modality"] == "image").sum())

    @property
    def captions(self) -> int:
        return len(self.points) - self.images

    @cached_property
    def rows(self) -> np.ndarray:
        """Numbers of the points among all points of the split."""
        return point_rows(self.choice, self.tables[0])

    @property
    def of_split(self) -> tuple[int, int]:
        return self.choice.ask(Run.count, "image"), self.choice.ask(Run.count, "text")

    def counted(self, points: np.ndarray) -> list[str]:
        images = int((points < self.images).sum())
        parts = ((images, self.images, "image"), (len(points) - images, self.captions, "caption"))
        return [words.count(number, name) for number, of_map, name in parts if of_map]


@st.fragment
def explore(choice: Choice, planes: Planes, tables: Tables, modalities: Modalities, remark: str) -> None:
    """Draw the maps of the points of `modalities`, with the `remark` on how they were made; `tables` are every run's
    samples of both modalities. Only this part of the page reruns after a lasso."""
    points = points_shown(tables[0], modalities)
    shown = Shown(choice, planes, [table.iloc[points] for table in tables], tables[0], points)
    both = bool(shown.images and shown.captions)
    own = own_names(shown.tables[0])
    names = [name for name in COLUMNS if name in shown.tables[0] and (both or name != "modality")]
    names += [name for name in own if shown.tables[0][name].notna().any()]
    with row():
        column = pick("Colour", names, "colour", 150)
        example = "words, image 12, a file"
        help_text = cards.tip("find")
        limit = QUERY_LENGTH
        query = st.text_input(
            "Find on the map",
            max_chars=limit,
            placeholder=example,
            help=help_text,
            width=210,
            **bound("find"),
        )
        label = "Lines between images and their captions"
        help_text = cards.tip("pair lines")
        lines = both and st.toggle(label, True, help=help_text, **bound("lines"))
        selection = map_selection.from_text(st.query_params.get(AREA))
        button("Clear selection", "clear-selection", "deselect", _clear, disabled=not selection)
    query = (query or "").strip()
    selected, matches = _selected(shown, selection, query)
    opened = map_selection.focus_point(st.query_params.get(FOCUS), *shown.of_split)
    if opened is None and len(matches) == 1 and query:
        opened = int(shown.rows[matches[0]])
    focus = None if opened is None else next(iter(np.flatnonzero(shown.rows == opened).tolist()), None)
    pairs, total = _pairs(shown, selected, focus) if both else (np.zeros((0, 2), dtype=np.int64), 0)
    if query:
        cards.note(_matched(shown, query, matches))
    _summary(shown, selected, total if lines else 0, remark)
    areas = tuple((area.map, area.corners) for area in selection.areas)
    mask = np.isin(np.arange(len(points)), selected) if selection else None
    marks = charts.Marks(mask, pairs if lines else None, focus, areas, matches[:MOST_MATCHES])
    alt = f"joint space of {' and '.join(run.name for run in choice.runs)}, coloured by {column}"
    figure = _figure(shown, column, marks)
    modes = ("points", "box", "lasso")
    downloads.chart(figure, CHART, alt, on_select=_select, selection_mode=modes, theme=None)
    if selection:
        _table(shown, selected)
        _pictures(shown, selected)
    if opened is not None:
        if focus is None:
            cards.note("The open sample is not on the map: it was not drawn, or its modality is hidden.")
        images = shown.of_split[0]
        if opened < images:
            show_sample(choice, "image", opened, FOCUS)
        else:
            show_sample(choice, "text", opened - images, FOCUS)


def _selected(shown: Shown, selection: map_selection.Selection, query: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the points selected on the maps, and those to mark for the search or the slice."""
    choice = shown.choice
    selected = map_selection.points_in(selection, shown.planes)
    marked = map_selection.matching_points(shown.whole, choice.ask(Run.image_names), query)
    if choice.slice:
        members = np.concatenate([choice.members("image"), choice.members("text") + shown.of_split[0]])
        selected = selected[np.isin(shown.rows[selected], members)]
        if not query:
            marked = np.flatnonzero(np.isin(point_rows(choice, shown.whole), members))
            cards.note("Samples of the slice are highlighted; selections include only these.")
    return selected, np.flatnonzero(np.isin(shown.points, marked))


def _pairs(shown: Shown, selected: np.ndarray, focus: int | None) -> tuple[np.ndarray, int]:
    """Return the pairs of the selected points and of the open one, at most `MOST_LINES`, and their total number."""
    numbers = shown.tables[0]["number"].to_numpy()
    image = shown.tables[0]["image"].to_numpy()
    owner = np.searchsorted(numbers[: shown.images], image[shown.images :])  # positions among the images
    with_lines = np.union1d(selected, [] if focus is None else [focus]).astype(np.int64)
    return map_selection.pairs_of(with_lines, owner, shown.images, MOST_LINES)


def selection_table(shown: Shown, selected: np.ndarray) -> pd.DataFrame:
    """Return the selected samples as one table: shared columns, then every run's numbers under "column (run)"."""
    first = shown.tables[0]
    shared = [*(name for name in SHARED if name in first), *own_names(first)]
    selection = own_columns.written(first.iloc[selected][shared].reset_index(drop=True))
    for run, table, plane in zip(shown.choice.runs, shown.tables, shown.planes, strict=True):
        numbers = table.iloc[selected].drop(columns=shared).reset_index(drop=True)
        numbers["x"] = plane[selected, 0]
        numbers["y"] = plane[selected, 1]
        selection = selection.join(numbers.add_suffix(_suffix(shown.choice, run.name)))
    return selection


def _suffix(choice: Choice, name: str) -> str:
    return f" ({name})" if len(choice.runs) > 1 else ""


def _matched(shown: Shown, query: str, matches: np.ndarray) -> str:
    """Describe the number of samples that a search found on the map."""
    if not len(matches):
        return f"Nothing on the map matches “{query}”: no number, file name, or caption with all these words."
    parts = [part for part in shown.counted(matches) if not part.startswith("0 ")]
    limit = f" Only the first {MOST_MATCHES:,} have a ring." if len(matches) > MOST_MATCHES else ""
    return f"“{query}” matches {' and '.join(parts)}, marked by rings.{limit}"


def _figure(shown: Shown, column: str, marks: charts.Marks) -> go.Figure:
    planes = shown.planes
    tables = shown.tables
    colours = tone()
    plotted = joint_space.draw_points(shown.images, shown.captions, MOST_DRAWN)
    samples = tables[0].iloc[plotted][["modality", "number", "image", "text"]]
    labels = []
    names = shown.choice.ask(Run.image_names)
    for kind, number, image, text in samples.itertuples(index=False):
        ids = ids_text("image" if kind == "image" else "text", number, image, names[image])
        labels.append(f"{charts.plain(ids)}<br>{charts.plain(text[:LABEL_LENGTH])}")
    colouring: Sequence[charts.Kinds | charts.Ramp]
    values = [table[column] for table in tables]
    kind = values[0].dtype.kind
    if column in own_names(tables[0]) and kind not in "fM":  # categories, texts and tags
        colouring = [charts.kinds(texts.fillna(NO_VALUE), colours) for texts in values]
    elif kind == "M":
        dates = np.concatenate([of_run.to_numpy() for of_run in values])
        colouring = charts.split_ramp(charts.date_ramp(column, dates, colours), len(tables))
    elif column in KINDS:
        order: tuple[str, ...] = ("image", "caption") if column == "modality" else ()
        if column == "cluster" and len(values) == 2:  # one colour for clusters that share the most samples
            values[1] = pd.Series(clusters.matched(values[0].to_numpy(), values[1].to_numpy()))
            order = charts.frequent(values[0])
        colouring = [charts.kinds(kinds, colours, order) for kinds in values]
    else:
        numbers = np.concatenate([numbers.to_numpy(dtype=float) for numbers in values])
        colouring = charts.split_ramp(charts.ramp(column, numbers, colours), len(tables))
    runs = [run.name for run in shown.choice.runs]
    maps = [charts.Map(*parts) for parts in zip(runs, planes, colouring, strict=True)]
    return charts.joint_map(maps, shown.images, plotted, labels, marks, colours)


def _summary(shown: Shown, selected: np.ndarray, pairs: int, remark: str) -> None:
    parts = []
    total = len(shown.points)
    if total > MOST_DRAWN:
        drawn = f"{MOST_DRAWN:,} of {total:,} points are plotted, chosen at random"
        shade = "the shade behind them shows the density of all points, and selections apply to all points"
        parts.append(f"{drawn}; {shade}.")
    if len(selected):
        parts.append(f"{len(selected):,} of {total:,} selected: {', '.join(shown.counted(selected))}.")
        if pairs > MOST_LINES:
            parts.append(f"Lines connect {MOST_LINES} of their {pairs:,} pairs.")
    else:
        kind = "Diamonds are images, dots captions." if shown.images and shown.captions else ""
        parts += [kind, "Select points by lasso or box, or switch to Pan and click."]
    cards.note(" ".join(part for part in [*parts, remark] if part))


def _select() -> None:
    """Put a lasso, a box or clicked points into the URL."""
    set_value(AREA, map_selection.to_text(map_selection.from_chart(st.session_state.get(CHART))))


def _clear() -> None:
    set_value(AREA, "")
    set_value(FOCUS, "")


def _table(shown: Shown, selected: np.ndarray) -> None:
    choice = shown.choice
    (images, captions) = shown.of_split
    table = selection_table(shown, selected)
    cards.heading("Selected samples")
    if not len(table):
        cards.empty("This area contains no point.", "Select other points, or clear the selection.")
        return
    columns = {"gain": Column("gain", DIGITS["gain"], "gain")} if "gain" in table else {}
    columns |= own_columns.table_columns(table[own_names(shown.tables[0])[:OWN_SHOWN]])
    for run in choice.runs:
        keys = {f"{name}{_suffix(choice, run.name)}": name for name in DIGITS}
        columns |= {key: Column(key, DIGITS[name], name) for key, name in keys.items() if key in table}

    def cells(rows: np.ndarray) -> list[SampleCell]:
        page = table.iloc[rows][["modality", "number", "image", "text"]]
        page = page.assign(modality=page["modality"].replace("caption", "text"))
        return cells_of(choice.last, choice.split, page.itertuples(index=False))

    def pick(point: int) -> None:
        set_value(FOCUS, map_selection.focus_name(point, images))

    focus = map_selection.focus_point(st.query_params.get(FOCUS), images, captions)
    ids = shown.rows[selected]
    listed = Table(table, columns, TABLE, "samples", ids, height=360, samples=cells)
    rows_table(listed, focus, pick)
    downloads.table(table, f"selection-{choice.split}")


def _pictures(shown: Shown, selected: np.ndarray) -> None:
    choice = shown.choice
    table = shown.tables[-1]
    images = pd.unique(table["image"].to_numpy()[selected])
    if not len(images):
        return
    some = f"{min(len(images), PICTURES_SHOWN)} of {words.count(len(images), 'picture')}"
    cards.heading("Their pictures", some=some)
    best = table.groupby("image")["similarity"].max()  # of an image, and of its captions, to their best match
    rows = images[:PICTURES_SHOWN].tolist()
    cards.results([sample_card(choice, choice.last, ("image", row), (row, float(best[row]))) for row in rows])
