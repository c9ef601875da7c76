"""Clicks that Streamlit does not report: on thumbnails, on verdicts of cards, on cells of heat maps and bars.

One listener a page. A kind of click ("image", "verdict", or the key of a chart) has one handler. What the browser
reports is checked before use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

Handler = Callable[[Mapping[str, Any]], None]
NAME = "coder-events"
_HANDLERS = "click-handlers"
_LISTEN = """
export default function ({ data, parentElement, setTriggerValue }) {
  parentElement.stop?.()
  const click = (event) => {
    const { image, review, pair } = event.target.closest?.("[data-image], [data-review]")?.dataset ?? {}
    if (review) setTriggerValue("click", { kind: "verdict", verdict: review, pair: pair.split(" ").map(Number) })
    else if (image) setTriggerValue("click", { kind: "image", image: Number(image) })
  }
  const charts = new Map()
  const listen = () => {
    for (const key of data.charts) {
      const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`)
      if (!chart || !chart.on || charts.get(key) === chart) continue
      charts.set(key, chart)
      chart.on("plotly_click", (event) => {
        const point = event.points && event.points[0]
        if (!point) return
        const cell = Array.isArray(point.pointIndex) ? point.pointIndex : [point.curveNumber, point.pointNumber]
        setTriggerValue("click", { kind: key, row: cell[0], column: cell[1] })
      })
    }
  }
  listen()
  document.addEventListener("click", click)
  const timer = setInterval(listen, 300)
  parentElement.stop = () => {
    clearInterval(timer)
    document.removeEventListener("click", click)
    for (const chart of charts.values()) chart.removeAllListeners?.("plotly_click")
  }
  return parentElement.stop
}
"""


def begin() -> None:
    """Forget the handlers of the last script run."""
    st.session_state[_HANDLERS] = {}


def on_click(kind: str, handler: Handler) -> None:
    """Call `handler` with every click of this kind, before the page reruns."""
    st.session_state.setdefault(_HANDLERS, {})[kind] = handler


def on_cell(
    charts: Sequence[str], shape: tuple[int, int], handler: Callable[[tuple[int, int]], None]
) -> None:
    """Call `handler` with the clicked cell of any of these charts: (row, column) of a heat map, (trace, bar) of bars."""

    def report(value: Mapping[str, Any]) -> None:
        if (cell := clicked_cell(value, shape)) is not None:
            handler(cell)

    for chart in charts:
        on_click(chart, report)


def listen() -> None:
    """Draw the listener, which shows nothing, at the end of a page."""
    handlers: dict[str, Handler] = dict(st.session_state.get(_HANDLERS, {}))

    def report() -> None:
        value = (st.session_state.get(NAME) or {}).get("click")
        handler = handlers.get(str(value.get("kind"))) if isinstance(value, dict) else None
        if handler is not None:
            handler(value or {})

    component = st.components.v2.component(NAME, js=_LISTEN)
    component(key=NAME, data={"charts": list(handlers)}, on_click_change=report, height=1)


def clicked_cell(value: object, shape: tuple[int, int]) -> tuple[int, int] | None:
    """The cell (or bar) that a browser reports, if it exists."""
    cell = (value.get("row"), value.get("column")) if isinstance(value, dict) else (None, None)
    return cell if all(map(is_index, cell, shape)) else None  # type: ignore[return-value]


def is_index(value: object, count: int) -> bool:
    """True if a value from the browser is a position among `count` things."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count
