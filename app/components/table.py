"""A table whose rows open something, by mouse, keyboard, touch and screen reader, 50 rows at a time.

Streamlit 1.67's own table is drawn on a canvas that exists only while it is in view, hides pictures and widths on touch
screens, and takes 1.5 MB of scripts. This one is an HTML table that `table.js` fills with text, never with markup.
Values from the browser are checked before use.
"""

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.address import put, value_of
from app.components import opened
from app.components.cards import TERMS
from app.components.events import is_index
from app.components.opened import View

PAGE = 50
HERE = Path(__file__)
NAME = "coder-table"
NOT_LISTED = "not listed"
SORTS = {None: "descending", "descending": "ascending", "ascending": None}  # order → next after a click
ENLARGED = "enlarged-image"  # session key of the image to enlarge next


@dataclass(frozen=True)
class Column:
    """A column of a table: its label, the format of its numbers (such as ",d" or "+.1f"; "" for text), and the glossary
    term that explains it. `suffix` follows every number; `right` aligns text like numbers."""

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


Columns = Mapping[str, Column]
Samples = Callable[[np.ndarray], list[SampleCell]]
_TABLES = tomllib.loads(HERE.with_name("columns.toml").read_text(encoding="utf-8"))


def columns_of(table: str) -> dict[str, Column]:
    """Return the columns of a table in columns.toml: name in the frame → label, format, glossary term and suffix."""
    return {name: Column(*fields) for name, fields in _TABLES[table].items()}


@dataclass(frozen=True)
class Table:
    """Rows of a frame and their columns. `key`: of the component; `label` names the rows in the plural; `ids`: what a
    row opens (None: its position). Above `height` in pixels, rows scroll. `samples` makes their first cells; `address`
    returns the page of the app that a row leads to. `best`: columns whose largest number is bold; `colours`: name of a
    run in the first column → the colour of its dot. `narrow`: for a table beside something wide."""

    frame: pd.DataFrame
    columns: Columns
    key: str
    label: str
    ids: np.ndarray | None = None
    height: int | None = 420
    samples: Samples | None = None
    address: Callable[[int], str] | None = None
    best: Sequence[str] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    narrow: bool = False


def picking_table(table: Table, target: str) -> np.ndarray:
    """Draw a `rows_table` whose opened row is the value of the number widget `target`."""
    value = value_of(target)
    current = int(value) if value.isdecimal() and len(value) < 12 else None
    return rows_table(table, current, partial(put, target))


def plain_table(frame: pd.DataFrame, columns: Columns, key: str, label: str) -> None:
    """Draw a `rows_table` whose rows open nothing, in its full height."""
    rows_table(Table(frame, columns, key, label, height=None))


def rows_table(
    table: Table, current: int | None = None, on_pick: Callable[[int], None] | None = None
) -> np.ndarray:
    """Draw a table in which a click on a row, Enter or Space calls `on_pick` with the row's id before the page reruns.
    Return the row positions in the order shown, over all pages. `current` is the open id (None: the first)."""
    frame = table.frame
    key = table.key
    ids = np.arange(len(frame)) if table.ids is None else np.asarray(table.ids)
    names = list(table.columns)
    view = opened.view_of(key)
    sort = view.sort if view.sort and view.sort[0] in names else None
    order = _sorted_rows(frame, sort)
    now_open = (hash(ids.tobytes()), current)
    if view.opened != now_open:  # other rows, or opened elsewhere: turn to the page with the open row
        position = np.flatnonzero(ids[order] == current)
        view.opened = now_open
        view.page = int(position[0]) // PAGE if len(position) else 0
    pages = max(1, -(-len(ids) // PAGE))
    page = min(view.page, pages - 1)
    shown = order[page * PAGE : (page + 1) * PAGE]
    parts = table.samples(shown) if table.samples else []
    shown_ids = ids[shown].tolist()  # all that `report` keeps for the session
    is_open = ids[shown] == (ids[order[0]] if current is None and len(order) else current)

    def report() -> None:
        value: Any = st.session_state.get(key) or {}
        clicked = value.get("row")
        if isinstance(clicked, dict) and is_index(clicked.get("row"), len(shown_ids)):
            if on_pick is not None:
                on_pick(int(shown_ids[clicked["row"]]))
            if parts and clicked.get("enlarge") is True:
                st.session_state[ENLARGED] = parts[clicked["row"]].image
        _turn(view, value, pages, names)

    script, style = (HERE.with_suffix(ending).read_text(encoding="utf-8") for ending in (".js", ".css"))
    address = table.address
    content = _cells(table, shown, parts) | {
        "opens": on_pick is not None or address is not None,
        "addresses": [address(row) for row in shown_ids] if address else [],
        "picked": int(is_open.argmax()) if is_open.any() else -1,
        "label": table.label,
        "sample": "sample" if table.samples else "",
        "sorted": [names.index(sort[0]), sort[1]] if sort else None,
        "page": page,
        "pages": pages,
        "range": _range(page, len(ids), table.label),
        "height": table.height,
        "narrow": table.narrow,
    }
    component = st.components.v2.component(NAME, js=script, css=style)
    component(key=key, on_row_change=report, on_page_change=report, on_sort_change=report, data=content)
    return order


def _turn(view: View, value: Any, pages: int, names: Sequence[str]) -> None:
    if is_index(value.get("page"), pages):
        view.page = value["page"]
    if is_index(value.get("sort"), len(names)):
        name = names[value["sort"]]
        direction = SORTS[view.sort[1] if view.sort and view.sort[0] == name else None]
        view.sort = (name, direction) if direction else None
        view.page = 0


def _cells(table: Table, shown: np.ndarray, parts: Sequence[SampleCell]) -> dict[str, Any]:
    """Return heads and rows of the positions `shown`."""
    heads = []
    for column in table.columns.values():
        number = bool(column.digits) or column.right
        heads.append({"label": column.label, "help": TERMS.get(column.term, ""), "number": number})

    best = {name: _largest(table.frame[name]) for name in table.best}
    rows = []
    for place, position in enumerate(shown.tolist()):
        values = {name: table.frame[name].iloc[position] for name in table.columns}
        bold = [name in best and bool(values[name] == best[name]) for name in table.columns]
        row: dict[str, Any] = {
            "cells": [_cell(values[name], column) for name, column in table.columns.items()],
            "sample": asdict(parts[place]) if parts else None,
        }
        if any(bold):
            row["bold"] = bold
        if table.colours:
            row["colour"] = table.colours.get(str(next(iter(values.values()))), "")
        rows.append(row)

    return {"columns": heads, "rows": rows}


def _largest(values: pd.Series) -> float:
    numbers = pd.to_numeric(values, errors="coerce").dropna()
    return float(numbers.max()) if len(numbers) > 1 else float("nan")


def _range(page: int, total: int, label: str) -> str:
    """Describe the rows shown: "51–100 of 5,000 captions"; without a second page "7 captions", or "one row"."""
    if total <= PAGE:
        return "one row" if total == 1 else f"{total:,} {label}"
    return f"{page * PAGE + 1:,}–{min((page + 1) * PAGE, total):,} of {total:,} {label}"


def _sorted_rows(frame: pd.DataFrame, sort: tuple[str, str] | None) -> np.ndarray:
    if sort is None:
        return np.arange(len(frame))
    values = frame[sort[0]].reset_index(drop=True)
    order = values.sort_values(ascending=sort[1] == "ascending", kind="stable", na_position="last").index
    return np.asarray(order, dtype=np.int64)


def _cell(value: Any, column: Column) -> str:
    if value is None or value != value:
        return "–"
    if not column.digits:
        return str(value)
    if value in (math.inf, -math.inf):  # of ranks and gains: not in another system's list
        return f"{'+' if value > 0 else '−'}∞" if column.digits.startswith("+") else NOT_LISTED
    return f"{int(value) if column.digits.endswith('d') else value:{column.digits}}{column.suffix}"
