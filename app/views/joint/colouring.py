"""Colours of the points of a map by a column."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.ask import clusters
from app.components.theme import tone
from app.views.joint.points import Shown

KINDS = ("modality", "cluster")
NO_VALUE = "no value"
STEPS = 128  # colours of a ramp


@dataclass(frozen=True)
class Coloured:
    """The colours of a run's points: their scale, and (N,) uint8 the place of every point's colour in `palette`."""

    scale: charts.Kinds | charts.Ramp
    codes: np.ndarray


Colouring = Sequence[Coloured]  # of every run
_LAST = "last-colouring-of-the-map"


def colouring(shown: Shown, column: str) -> Colouring:
    """Return the colours of every run's points, all on one scale. The last answer is kept, for reruns after a click."""
    runs = shown.choice.runs
    clustering = [shown.clusters(run) for run in runs] if column == "cluster" else []
    stamps = [(str(run.path), run.stamp) for run in runs]
    labels = [hash(labels.tobytes()) for labels in clustering if labels is not None]
    key = (stamps, labels, shown.choice.split, shown.modalities, column, st.context.theme.type)
    last = st.session_state.get(_LAST)
    if last is None or last[0] != key:
        last = key, [Coloured(scale, codes(scale)) for scale in _scales(shown, column)]
        st.session_state[_LAST] = last
    return last[1]


def _scales(shown: Shown, column: str) -> Sequence[charts.Kinds | charts.Ramp]:
    colours = tone()
    values = [shown.values(run, column) for run in shown.choice.runs]
    kind = values[0].dtype.kind
    if column in shown.own and kind not in "fM":  # categories, texts and tags
        return [charts.kinds(texts.fillna(NO_VALUE), colours) for texts in values]
    if kind == "M":
        dates = np.concatenate([of_run.to_numpy() for of_run in values])
        return charts.split_ramp(charts.date_ramp(column, dates, colours), len(values))
    if column in KINDS:
        order: tuple[str, ...] = ("image", "caption") if column == "modality" else ()
        if column == "cluster" and len(values) == 2:  # one colour for clusters that share the most samples
            values[1] = pd.Series(clusters.matched(values[0].to_numpy(), values[1].to_numpy()))
            order = charts.frequent(values[0])
        return [charts.kinds(kinds, colours, order) for kinds in values]

    numbers = np.concatenate([numbers.to_numpy(dtype=float) for numbers in values])
    return charts.split_ramp(charts.ramp(column, numbers, colours), len(values))


def codes(colours: charts.Kinds | charts.Ramp) -> np.ndarray:
    """Return (N,) uint8 the place of every point's colour in `palette`."""
    if isinstance(colours, charts.Kinds):
        return colours.codes
    share = (colours.values - colours.low) / max(colours.high - colours.low, 1e-12)
    steps = np.round(np.clip(np.nan_to_num(share), 0, 1) * (STEPS - 1)).astype(np.int64)
    return np.where(np.isfinite(colours.values), steps, STEPS).astype(np.uint8)


def palette(colours: charts.Kinds | charts.Ramp, tones: charts.Tone) -> list[str]:
    """Return the colours that codes name; of a ramp, grey for missing values comes last."""
    if isinstance(colours, charts.Kinds):
        return list(colours.colours)
    return [*charts.on_ramp(colours.scale, STEPS), tones.faint]


def legend(colours: charts.Kinds | charts.Ramp) -> Mapping[str, Any]:
    """Describe the colours: names of kinds, or title, colours and ticks of a ramp."""
    if isinstance(colours, charts.Kinds):
        return {"names": list(colours.names)}
    extent = max(colours.high - colours.low, 1e-12)
    places = ((tick - colours.low) / extent for tick in colours.ticks)
    ticks = [
        [place, label] for place, label in zip(places, colours.labels, strict=True) if -0.01 <= place <= 1.01
    ]
    missing = "" if np.isfinite(colours.values).all() else " (grey: none)"
    return {
        "title": f"{colours.name}{missing}",
        "stops": [colour for _, colour in colours.scale],
        "ticks": ticks,
    }
