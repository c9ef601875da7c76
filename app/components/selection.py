"""Chart and table selections, filters and orders → sample ids. Pure functions, tested without a browser."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd


def selected_points(state: Mapping[str, Any] | None) -> list[int]:
    """Return the sample ids of a chart selection, from customdata, because a point's index depends on its trace."""
    values = []
    for point in (state or {}).get("selection", {}).get("points", []):
        data = point.get("customdata")
        value = data[0] if isinstance(data, (list, tuple)) and data else data
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            values.append(int(value))
    return list(dict.fromkeys(values))


def neighbour(ids: np.ndarray, current: int, step: int) -> int:
    """Return the id `step` positions after `current`, clamped to the ends; the first if `current` is not in `ids`."""
    if not len(ids):
        return current
    position = np.flatnonzero(np.asarray(ids) == current)
    return int(ids[np.clip(position[0] + step, 0, len(ids) - 1)]) if len(position) else int(ids[0])


def next_miss(ids: Sequence[int] | np.ndarray, missed: np.ndarray, current: int, step: int) -> int:
    """Return the next (step 1) or previous (−1) id with `missed` (a bool for each id of the split), going on at the
    other end; `current` if there is no other."""
    order = np.asarray(ids, dtype=np.int64)
    position = np.flatnonzero(order == current)
    start = int(position[0]) if len(position) else (-1 if step > 0 else len(order))
    misses = np.flatnonzero(missed[order])
    if step > 0:
        further = np.concatenate([misses[misses > start], misses[misses < start]])
    else:
        further = np.concatenate([misses[misses < start][::-1], misses[misses > start][::-1]])
    return int(order[further[0]]) if len(further) else current


def by_outcome(changes: pd.DataFrame, outcome: str | None) -> pd.DataFrame:
    """Return the queries of one outcome (None: all), the largest change of rank first."""
    queries = changes if outcome is None else changes[changes["outcome"] == outcome]
    return queries.iloc[np.argsort(-queries["change"].abs().to_numpy(), kind="stable")]


def recall_by_tenth(spread: np.ndarray, ranks: np.ndarray, at: int) -> pd.DataFrame:
    """Compute recall (%) at `at` by tenth of the anchors' diversity: columns `tenth`, `recall`, `anchors`. `spread`:
    any (Q,) values that order the anchors by diversity. `ranks`: (Q,) from 0."""
    if not len(spread):
        return pd.DataFrame({"tenth": [], "recall": [], "anchors": []})
    tenth = np.empty(len(spread), dtype=int)
    tenth[np.argsort(spread, kind="stable")] = np.arange(len(spread)) * 10 // len(spread)
    frame = pd.DataFrame({"tenth": tenth + 1, "recall": 100.0 * (np.asarray(ranks) < at)})
    grouped = frame.groupby("tenth")["recall"]
    return pd.DataFrame({"recall": grouped.mean(), "anchors": grouped.size()}).reset_index()


def matching(captions: Sequence[str], words: str) -> np.ndarray:
    """Return the numbers of captions that contain every word of a search, ignoring case; all for an empty search."""
    terms = words.lower().split()
    return np.array([i for i, c in enumerate(captions) if all(t in c.lower() for t in terms)], dtype=np.int64)
