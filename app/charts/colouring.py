"""Colours of points by a column: a ramp for numbers, few colours for kinds; safe for colour-blind readers."""

from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from app.charts.figure import DARK, ROOM, ROUNDING, Tone, mixed

# Viridis, without the end that would be invisible on the background
_RAMP_LIGHT = ("#440154", "#3E4C8A", "#24868E", "#35B779", "#A8DB34")
_RAMP_DARK = ("#5B62C0", "#2A8FA0", "#35B779", "#A8DB34", "#FDE725")
_DIVERGING = ("#D55E00", "#E9A46B", "#B9C0C7", "#6AAFDD", "#0072B2")
MOST_KINDS = 8
OTHER = "other"
SIGNED = "gain"
LOGARITHMIC = ("rank", "hubness", SIGNED)


@dataclass(frozen=True)
class Kinds:
    """A column of kinds. codes: (N,) uint8 indices into names; names, colours: of kinds, most frequent first, "other" last."""

    codes: np.ndarray
    names: tuple[str, ...]
    colours: tuple[str, ...]


@dataclass(frozen=True)
class Ramp:
    """A named column of numbers: (N,) their positions on the ramp, NaN for missing values; ends of the ramp; pairs of
    share and colour; ticks and labels of the colour bar."""

    name: str
    values: np.ndarray
    low: float
    high: float
    scale: tuple[tuple[float, str], ...]
    ticks: tuple[float, ...]
    labels: tuple[str, ...]


def frequent(values: pd.Series) -> tuple[str, ...]:
    """Return the kinds that get their own colour, most frequent first."""
    return tuple(str(name) for name in values.astype(str).value_counts().index[:MOST_KINDS])


def kinds(values: pd.Series, colours: Tone, order: tuple[str, ...] = ()) -> Kinds:
    """Give a colour to each of the most frequent kinds, and one grey to all others; kinds in `order` come first."""
    numbers, different = pd.factorize(values, use_na_sentinel=False)
    texts = [str(value) for value in different]
    counts = pd.Series(np.bincount(numbers, minlength=len(texts)), index=texts, dtype=np.int64)
    counts = counts.groupby(level=0, sort=False).sum().sort_values(ascending=False, kind="stable")
    names = list(dict.fromkeys([*order, *map(str, counts.index)]))
    shown = names[:MOST_KINDS]
    places = {name: code for code, name in enumerate(shown)}
    codes = np.array([places.get(text, len(shown)) for text in texts], dtype=np.uint8)[numbers]
    # vermilion and blue mean the two runs, so kinds use the other colours first
    palette = [colours.runs[i] for i in (2, 3, 5, 4, 0, 1)] + ["#8C6BB1", "#7A5230"]
    tones = palette[: len(shown)]
    if len(names) > len(shown):
        shown = [*shown, OTHER]
        tones = [*tones, colours.faint]
    return Kinds(codes, tuple(shown), tuple(tones))


def ramp(name: str, values: np.ndarray, colours: Tone) -> Ramp:
    """Place numbers on a ramp; ranks and counts logarithmically, changes around zero."""
    numbers = np.asarray(values, dtype=np.float64)
    steps = _RAMP_DARK if colours is DARK else _RAMP_LIGHT
    if name in LOGARITHMIC:
        signed = name == SIGNED
        shift = 0 if name == "rank" else 1  # a rank is at least 1, a count may be 0
        scaled = np.sign(numbers) * np.log10(shift + np.abs(numbers))
        end = max(float(np.nanmax(np.abs(scaled), initial=0.0)), 1.0)
        marks = [0] * shift + [10**power for power in range(signed, int(end) + 1)]
        marks = [-mark for mark in reversed(marks[1:] if signed else [])] + marks
        ticks = tuple(float(np.sign(mark) * np.log10(shift + abs(mark))) for mark in marks)
        labels = tuple(f"{mark:+,}" if signed and mark else f"{mark:,}" for mark in marks)
        low, colour_steps = (-end, _DIVERGING) if signed else (0.0, steps)
        return Ramp(name, scaled, low, end, _spaced(colour_steps), ticks, labels)

    finite = numbers[np.isfinite(numbers)]
    low, high = np.quantile(finite, [0.01, 0.99]).tolist() if len(finite) else (0.0, 1.0)
    high = high if high - low > ROUNDING else low + ROOM
    even = tuple(np.linspace(low, high, 5).tolist())
    return Ramp(name, numbers, low, high, _spaced(steps), even, tuple(f"{tick:z.3g}" for tick in even))


def date_ramp(name: str, dates: np.ndarray, colours: Tone) -> Ramp:
    """Place (N,) datetime64 dates on a ramp, whose ticks are days; NaT is a missing value."""
    days = (dates.astype("datetime64[s]") - np.datetime64(0, "s")) / np.timedelta64(1, "D")
    of_days = ramp(name, days, colours)
    labels = tuple(str(np.datetime64(round(tick), "D")) for tick in of_days.ticks)
    return replace(of_days, labels=labels)


def _spaced(steps: tuple[str, ...]) -> tuple[tuple[float, str], ...]:
    return tuple((position / (len(steps) - 1), colour) for position, colour in enumerate(steps))


def split_ramp(joined: Ramp, parts: int) -> tuple[Ramp, ...]:
    """Split a ramp over the numbers of several runs by run, so that they share one scale."""
    return tuple(replace(joined, values=values) for values in np.split(joined.values, parts))


def on_ramp(scale: Sequence[tuple[float, str]], steps: int) -> list[str]:
    """Return `steps` colours evenly spaced on a ramp of pairs of share and colour.

    >>> on_ramp([(0.0, "#000000"), (0.5, "#101010"), (1.0, "#202020")], 3)
    ['#000000', '#101010', '#202020']
    """
    shares = [share for share, _ in scale]
    colours = []
    for share in np.linspace(0, 1, steps).tolist():
        right = min(max(bisect(shares, share), 1), len(scale) - 1)
        start, first = scale[right - 1]
        end, second = scale[right]
        colours.append(mixed(first, second, (share - start) / (end - start)))
    return colours
