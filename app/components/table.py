"""The app's tables: paged, sorted by a click on a column's name, read by keyboard; the rows of most open something.

Streamlit's own table opens a row by a small checkbox only, explains columns to a mouse only, is drawn on a canvas and
takes 1.5 MB of scripts; this one is an HTML table that `table.js` fills with text, never with markup. What the browser
reports is checked before use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.choice import put
from app.components.events import is_index
from app.components.glossary import TERMS

PAGE = 50
HERE = Path(__file__).parent
NAME = "coder-table"
ENLARGED = "enlarged-image"  # the image whose large picture the frame shows next


@dataclass(frozen=True)
class Column:
    """A column of a table: its label, how a number is printed (a format such as ",d" or "+.1f"; "" is text), and the
    glossary's term behind it. `suffix` follows every number; `right` sets a text as numbers are set."""

    label: str
    digits: str = ""
    term: str = ""
    suffix: str = ""
    right: bool = False


@dataclass(frozen=True)
class SampleCell:
    """Cell of a sample in a table: its name, its text, ids in small print, a picture as data URL ("" for none)."""

    image: int
    name: str
    text: str
    small: str
    picture: str = ""


Samples = Callable[[np.ndarray], list[SampleCell]]


def picking_table(
    frame: pd.DataFrame,
    columns: Mapping[str, Column],
    ids: np.ndarray,
    target: str,
    key: str,
    label: str,
    *,
    height: int = 420,
    samples: Samples | None = None,
) -> np.ndarray:
    """`rows_table` whose opened row is the value of the number widget `target`."""
    value = str(
        st.session_state.get(target, st.query_params.get(target, ""))
    )  # the URL's, before the widget is drawn
    current = int(value) if value.isdecimal() and len(value) < 12 else None
    return rows_table(
        frame,
        columns,
        ids,
        key,
        label,
        current,
        lambda chosen: put(target, chosen),
        height=height,
        samples=samples,
    )


def plain_table(frame: pd.DataFrame, columns: Mapping[str, Column], key: str, label: str) -> None:
    """`rows_table` whose rows open nothing, in its full height."""
    rows_table(frame, columns, np.arange(len(frame)), key, label, None, None, height=None)


def rows_table(
    frame: pd.DataFrame,
    columns: Mapping[str, Column],
    ids: np.ndarray,
    key: str,
    label: str,
    current: int | None,
    on_pick: Callable[[int], None] | None,
    *,
    height: int | None = 420,
    samples: Samples | None = None,
) -> np.ndarray:
    """A table in which a click on a row, Enter or Space calls `on_pick` with the row's id before the page reruns.

    Args:
        frame: all rows; a page of them is sent. columns: column of the frame → how it is shown.
        ids: one of every row. label: what the rows are, in the plural.
        current: the id that is open; None is the first row. on_pick: None where rows open nothing.
        height: in pixels, above which the rows scroll; None for no limit.
        samples: row positions → the sample each row is about, as its first cell.

    Returns:
        Row positions in the order shown, over all pages.
    """
    ids, names = np.asarray(ids), list(columns)
    view: dict[str, Any] = st.session_state.setdefault(f"{key}-view", {"page": 0, "sort": None})
    order = sorted_rows(frame, names, view["sort"])
    opened = (hash(ids.tobytes()), current)
    if view.get("opened") != opened:  # other rows, or opened from elsewhere: the page with the open row
        position = np.flatnonzero(ids[order] == current)
        view.update(opened=opened, page=int(position[0]) // PAGE if len(position) else 0)
    pages = max(1, -(-len(ids) // PAGE))
    page = min(int(view["page"]), pages - 1)
    shown = order[page * PAGE : (page + 1) * PAGE]
    first = int(ids[order[0]]) if len(order) else None
    picked = np.flatnonzero(ids[shown] == (first if current is None else current))
    cells = [[_cell(value, columns[name]) for value in frame[name].iloc[shown].tolist()] for name in names]
    parts = samples(shown) if samples else []

    def report() -> None:
        value = st.session_state.get(key) or {}
        row = clicked_row(value.get("row"), len(shown))
        if row is not None and on_pick is not None:
            chosen = int(ids[shown[row]])
            view["opened"] = (opened[0], chosen)  # a click leaves the page as it is
            on_pick(chosen)
            if parts and value["row"].get("enlarge") is True:
                st.session_state[ENLARGED] = parts[row].image
        if is_index(value.get("page"), pages):
            view["page"] = value["page"]
        if is_index(value.get("sort"), len(names)):
            view.update(sort=next_sort(view["sort"], names[value["sort"]]), page=0)

    draw = st.components.v2.component(
        NAME, js=(HERE / "table.js").read_text(), css=(HERE / "table.css").read_text()
    )
    sort = view["sort"] if view["sort"] and view["sort"][0] in names else None
    draw(
        key=key,
        on_row_change=report,
        on_page_change=report,
        on_sort_change=report,
        data={
            "columns": [
                {
                    "label": column.label,
                    "help": TERMS.get(column.term, ""),
                    "number": bool(column.digits) or column.right,
                }
                for column in columns.values()
            ],
            "rows": [
                {"cells": [column[row] for column in cells], "sample": asdict(parts[row]) if parts else None}
                for row in range(len(shown))
            ],
            "opens": on_pick is not None,
            "picked": int(picked[0]) if len(picked) else -1,
            "label": label,
            "sample": "sample" if samples else "",
            "sorted": [names.index(sort[0]), sort[1]] if sort else None,
            "page": page,
            "pages": pages,
            "range": page_range(page, len(ids), label),
            "height": height,
        },
    )
    return order


def page_range(page: int, total: int, label: str) -> str:
    """ "51–100 of 5,000 captions"; without a second page "7 captions", or "one row"."""
    if total <= PAGE:
        return "one row" if total == 1 else f"{total:,} {label}"
    return f"{page * PAGE + 1:,}–{min((page + 1) * PAGE, total):,} of {total:,} {label}"


def clicked_row(value: object, count: int) -> int | None:
    """The row a browser reports, if it is one of the `count` rows shown."""
    row = value.get("row") if isinstance(value, dict) else None
    return int(row) if is_index(row, count) else None  # type: ignore[arg-type]


def next_sort(sort: tuple[str, str] | None, column: str) -> tuple[str, str] | None:
    """Clicks on a column's name: largest first, smallest first, the table's own order."""
    if sort is None or sort[0] != column:
        return column, "descending"
    return (column, "ascending") if sort[1] == "descending" else None


def sorted_rows(frame: pd.DataFrame, columns: Sequence[str], sort: tuple[str, str] | None) -> np.ndarray:
    """Row positions by a column and a direction; missing values come last."""
    if sort is None or sort[0] not in columns:
        return np.arange(len(frame))
    values = frame[sort[0]].reset_index(drop=True)
    order = values.sort_values(ascending=sort[1] == "ascending", kind="stable", na_position="last").index
    return np.asarray(order, dtype=np.int64)


def _cell(value: Any, column: Column) -> str:
    if value is None or value != value:
        return "–"
    if not column.digits:
        return str(value)
    return f"{int(value) if column.digits.endswith('d') else value:{column.digits}}{column.suffix}"
