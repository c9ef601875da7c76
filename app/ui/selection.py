"""Chart and table selections, filters and orders → sample ids. Pure functions: a browser is not needed to test them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd


def selected_rows(state: Mapping[str, Any] | None) -> list[int]:
    """Row positions a table reports: {"selection": {"rows": [2]}} → [2]."""
    if not state:
        return []
    rows = state.get("selection", {}).get("rows", [])
    return [int(row) for row in rows]


def selected_id(state: Mapping[str, Any] | None, ids: Sequence[int] | np.ndarray) -> int | None:
    """The id behind the first selected row; None for no selection or a row that is no longer there."""
    rows = selected_rows(state)
    return int(ids[rows[0]]) if rows and 0 <= rows[0] < len(ids) else None


def selected_points(state: Mapping[str, Any] | None) -> list[int]:
    """Sample ids of a chart selection. Ids travel in customdata; a point's index changes with every trace."""
    if not state:
        return []
    found: list[int] = []
    for point in state.get("selection", {}).get("points", []):
        data = point.get("customdata")
        value = data[0] if isinstance(data, (list, tuple)) else data
        if value is not None:
            found.append(int(value))
    return list(dict.fromkeys(found))


def neighbour(ids: Sequence[int] | np.ndarray, current: int, step: int) -> int:
    """The id `step` places after `current` in this order, staying inside; the first when `current` is not there."""
    order = np.asarray(ids)
    if not len(order):
        return current
    place = np.flatnonzero(order == current)
    return int(order[np.clip(place[0] + step, 0, len(order) - 1)]) if len(place) else int(order[0])


def next_failure(ids: Sequence[int] | np.ndarray, failed: np.ndarray, current: int, step: int) -> int:
    """The next (step 1) or previous (−1) id of this order that failed; `current` when there is none further on.

    Args:
        failed: for every id of the split, whether it failed.
    """
    order = np.asarray(ids, dtype=np.int64)
    found = np.flatnonzero(order == current)
    start = int(found[0]) if len(found) else (-1 if step > 0 else len(order))
    places = np.flatnonzero(failed[order])
    further = places[places > start] if step > 0 else places[places < start][::-1]
    return int(order[further[0]]) if len(further) else current


def lowest(frame: pd.DataFrame, column: str, count: int) -> pd.DataFrame:
    """The rows with the smallest values, smallest first; equal ones keep their order."""
    return frame.sort_values(column, kind="stable").head(count)


def most_moved(changes: pd.DataFrame | None, direction: int) -> np.ndarray:
    """Positions by how far the place moved, the largest fall (direction −1) or rise (+1) first."""
    if changes is None:
        return np.zeros(0, dtype=np.int64)
    return np.argsort(-direction * changes["change"].to_numpy(), kind="stable")


def outcome_counts(changes: pd.DataFrame, names: Sequence[str]) -> dict[str, int]:
    """How many queries had each outcome, in the given order."""
    counts = changes["outcome"].value_counts()
    return {name: int(counts.get(name, 0)) for name in names}


def by_outcome(changes: pd.DataFrame, outcome: str | None) -> pd.DataFrame:
    """The queries of one outcome (None: all), the largest change of rank first."""
    kept = changes if outcome is None else changes[changes["outcome"] == outcome]
    return kept.iloc[np.argsort(-kept["change"].abs().to_numpy(), kind="stable")]


def found_by_tenth(spread: np.ndarray, ranks: np.ndarray, at: int) -> pd.DataFrame:
    """Share (%) of anchors with a match among the first `at`, by tenth of their diversity: `tenth`, `found`, `anchors`.

    Args:
        spread: (Q,) any value that orders the anchors by diversity; ranks: (Q,) from 0.
    """
    if not len(spread):
        return pd.DataFrame({"tenth": [], "found": [], "anchors": []})
    tenth = np.empty(len(spread), dtype=int)
    tenth[np.argsort(spread, kind="stable")] = np.arange(len(spread)) * 10 // len(spread)
    frame = pd.DataFrame({"tenth": tenth + 1, "found": 100.0 * (np.asarray(ranks) < at)})
    grouped = frame.groupby("tenth")["found"]
    return pd.DataFrame({"found": grouped.mean(), "anchors": grouped.size()}).reset_index()


def matching(captions: Sequence[str], words: str) -> np.ndarray:
    """Numbers of the captions that hold every word of a search, ignoring case; all of them for an empty search."""
    wanted = words.lower().split()
    if not wanted:
        return np.arange(len(captions))
    return np.array([i for i, c in enumerate(captions) if all(w in c.lower() for w in wanted)], dtype=np.int64)
