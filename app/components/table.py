"""A table whose rows open something, by mouse, keyboard, touch and screen reader, 50 rows at a time.

Streamlit 1.67's own table is drawn on a canvas that exists only while it is in view, hides pictures and widths on touch
screens, and takes 1.5 MB of scripts. This one is an HTML table that `table.js` fills with text, never with markup.
Values from the browser are checked before use.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import repeat
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


def picking_table(
    frame: pd.DataFrame, columns: Columns, ids: np.ndarray, target: str, key: str, label: str, **more: Any
) -> np.ndarray:
    """Draw a `rows_table` whose opened row is the value of the number widget `target`."""
    value = value_of(target)
    current = int(value) if value.isdecimal() and len(value) < 12 else None
    return rows_table(frame, columns, ids, key, label, current, partial(put, target), **more)


def plain_table(frame: pd.DataFrame, columns: Columns, key: str, label: str) -> None:
    """Draw a `rows_table` whose rows open nothing, in its full height."""
    rows_table(frame, columns, np.arange(len(frame)), key, label, height=None)


def rows_table(
    frame: pd.DataFrame,
    columns: Columns,
    ids: np.ndarray,
    key: str,
    label: str,
    current: int | None = None,
    on_pick: Callable[[int], None] | None = None,
    *,
    height: int | None = 420,
    samples: Samples | None = None,
    address: Callable[[int], str] | None = None,
) -> np.ndarray:
    """Draw a table in which a click on a row, Enter or Space calls `on_pick` with the row's id before the page reruns.
    Return the row positions in the order shown, over all pages. `current` is the open id (None: the first); `label`
    names the rows in the plural. Above `height` in pixels, rows scroll. `samples` makes their first cells; `address`
    returns the page of the app that a row leads to, instead of `on_pick`."""
    ids = np.asarray(ids)
    names = list(columns)
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
    parts = samples(shown) if samples else []
    is_open = ids[shown] == (ids[order[0]] if current is None and len(order) else current)

    def report() -> None:
        value: Any = st.session_state.get(key) or {}
        clicked = value.get("row")
        if isinstance(clicked, dict) and is_index(clicked.get("row"), len(shown)):
            if on_pick is not None:
                on_pick(int(ids[shown[clicked["row"]]]))
            if parts and clicked.get("enlarge") is True:
                st.session_state[ENLARGED] = parts[clicked["row"]].image
        _turn(view, value, pages, names)

    script, style = (HERE.with_suffix(ending).read_text(encoding="utf-8") for ending in (".js", ".css"))
    content = _cells(frame.iloc[shown], columns, parts) | {
        "opens": on_pick is not None or address is not None,
        "addresses": [address(row) for row in ids[shown].tolist()] if address else [],
        "picked": int(is_open.argmax()) if is_open.any() else -1,
        "label": label,
        "sample": "sample" if samples else "",
        "sorted": [names.index(sort[0]), sort[1]] if sort else None,
        "page": page,
        "pages": pages,
        "range": _range(page, len(ids), label),
        "height": height,
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


def _cells(frame: pd.DataFrame, columns: Mapping[str, Column], parts: Sequence[SampleCell]) -> dict[str, Any]:
    shown = [(c.label, TERMS.get(c.term, ""), bool(c.digits) or c.right) for c in columns.values()]
    heads = [dict(zip(("label", "help", "number"), head, strict=True)) for head in shown]
    texts = [[_cell(value, column) for value in frame[name].tolist()] for name, column in columns.items()]
    samples = [asdict(part) for part in parts] or repeat(None, len(frame))
    rows = [{"cells": cells, "sample": sample} for *cells, sample in zip(*texts, samples, strict=True)]
    return {"columns": heads, "rows": rows}


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
    return f"{int(value) if column.digits.endswith('d') else value:{column.digits}}{column.suffix}"
