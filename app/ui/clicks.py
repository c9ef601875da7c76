"""A click on a cell of a heat map. Plotly knows it, Streamlit 1.67 does not pass it on: only points can be selected.

The component draws nothing. Its program, which is ours and holds no data, listens to the charts of the page by their
keys and reports which cell was clicked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

_LISTEN = """
export default function ({ data, setTriggerValue }) {
  const heard = new Map()
  const listen = () => {
    for (const key of data.charts) {
      const chart = document.querySelector(`.st-key-${key} .js-plotly-plot`)
      if (!chart || !chart.on || heard.get(key) === chart) continue
      heard.set(key, chart)
      chart.on("plotly_click", (event) => {
        const cell = event.points && event.points[0] && event.points[0].pointIndex
        if (Array.isArray(cell)) setTriggerValue("cell", { chart: key, row: cell[0], column: cell[1] })
      })
    }
  }
  listen()
  const timer = setInterval(listen, 300)
  return () => {
    clearInterval(timer)
    for (const chart of heard.values()) if (chart.removeAllListeners) chart.removeAllListeners("plotly_click")
  }
}
"""
NAME = "coder-clicks"


def clicked_cell(value: object, shape: tuple[int, int]) -> tuple[int, int] | None:
    """The cell a browser reports, if it is one of the matrix: what comes from there is not believed."""
    if not isinstance(value, dict):
        return None
    cell = value.get("row"), value.get("column")
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in cell):
        return None
    row, column = (int(place) for place in cell)  # type: ignore[arg-type]
    return (row, column) if 0 <= row < shape[0] and 0 <= column < shape[1] else None


def on_cell(charts: Sequence[str], key: str, picked: Callable[[Any], None]) -> None:
    """Call `picked` with the clicked cell of any of these charts (their keys) before the page is drawn again."""

    def report() -> None:
        picked((st.session_state.get(key) or {}).get("cell"))

    listen = st.components.v2.component(NAME, js=_LISTEN)
    listen(key=key, data={"charts": list(charts)}, on_cell_change=report, height=1)
