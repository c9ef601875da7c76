"""Clicks on cells of a heat map, which Streamlit 1.67 does not report, and on bars.

The component draws nothing. Its JavaScript listens to the charts with the given keys and reports the clicked cell: row
and column of a heat map, trace and position of a bar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

_LISTEN = """
export default function ({ data, setTriggerValue }) {
  const listened = new Map()
  const listen = () => {
    for (const key of data.charts) {
      const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`)
      if (!chart || !chart.on || listened.get(key) === chart) continue
      listened.set(key, chart)
      chart.on("plotly_click", (event) => {
        const point = event.points && event.points[0]
        if (!point) return
        const cell = Array.isArray(point.pointIndex) ? point.pointIndex : [point.curveNumber, point.pointNumber]
        setTriggerValue("cell", { chart: key, row: cell[0], column: cell[1] })
      })
    }
  }
  listen()
  const timer = setInterval(listen, 300)
  return () => {
    clearInterval(timer)
    for (const chart of listened.values()) if (chart.removeAllListeners) chart.removeAllListeners("plotly_click")
  }
}
"""
NAME = "coder-clicks"


def clicked_cell(value: object, shape: tuple[int, int]) -> tuple[int, int] | None:
    """The cell (or bar) a browser reports, if there is one; browser input is not trusted."""
    if not isinstance(value, dict):
        return None
    row, column = value.get("row"), value.get("column")
    return (row, column) if is_index(row, shape[0]) and is_index(column, shape[1]) else None  # type: ignore[return-value]


def is_index(value: object, count: int) -> bool:
    """Whether a value from the browser is a position among `count` things."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def on_cell(charts: Sequence[str], key: str, on_click: Callable[[Any], None]) -> None:
    """Call `on_click` with the clicked cell or bar of any of these charts (by key) before the page reruns."""

    def report() -> None:
        on_click((st.session_state.get(key) or {}).get("cell"))

    listen = st.components.v2.component(NAME, js=_LISTEN)
    listen(key=key, data={"charts": list(charts)}, on_cell_change=report, height=1)
