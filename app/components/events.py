"""Clicks that Streamlit does not report: on thumbnails, on verdicts of cards, on cells of heat maps and bars.

There is one listener per page and one handler per kind of click ("image", "verdict", or the key of a chart). Values
from the browser are checked before use.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import streamlit as st

Cell = tuple[int, int]
Handler = Callable[[Mapping[str, Any]], None]
NAME = "coder-events"
_HANDLERS = "click-handlers"
_LISTEN = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def begin() -> None:
    """Forget the handlers of the last script run."""
    st.session_state[_HANDLERS] = {}


def on_click(kind: str, handler: Handler) -> None:
    """Call `handler` with every click of this kind, before the page reruns."""
    st.session_state.setdefault(_HANDLERS, {})[kind] = handler


def on_cell(charts: Sequence[str], shape: Cell, handler: Callable[[Cell], None]) -> None:
    """Call `handler` with the clicked cell of any of these charts: (row, column) of a heat map, (trace, bar) of bars."""

    def report(value: Mapping[str, Any]) -> None:
        if (cell := clicked_cell(value, shape)) is not None:
            handler(cell)

    for chart in charts:
        on_click(chart, report)


def listen() -> None:
    """Draw the invisible listener at the end of a page."""
    handlers: dict[str, Handler] = dict(st.session_state.get(_HANDLERS, {}))

    def report() -> None:
        value = (st.session_state.get(NAME) or {}).get("click")
        handler = handlers.get(str(value.get("kind"))) if isinstance(value, dict) else None
        if handler is not None:
            handler(value or {})

    component = st.components.v2.component(NAME, js=_LISTEN)
    component(key=NAME, data={"charts": list(handlers)}, on_click_change=report, height=1)


def clicked_cell(value: object, shape: Cell) -> Cell | None:
    """Return the cell (or bar) that a browser reports, if it exists."""
    cell = (value.get("row"), value.get("column")) if isinstance(value, dict) else (None, None)
    return cell if all(map(is_index, cell, shape)) else None  # type: ignore[return-value]


def is_index(value: object, count: int) -> bool:
    """True if a value from the browser is an index below `count`."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
