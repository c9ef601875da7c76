"""Colours of points by a column: a ramp for numbers, few colours for kinds; safe for colour-blind readers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from app.charts.figure import DARK, Tone

# Viridis, without the end that is invisible on the background
_RAMP_LIGHT = ("#440154", "#3E4C8A", "#24868E", "#35B779", "#A8DB34")
_RAMP_DARK = ("#5B62C0", "#2A8FA0", "#35B779", "#A8DB34", "#FDE725")
_DIVERGING = ("#D55E00", "#E9A46B", "#B9C0C7", "#6AAFDD", "#0072B2")
MOST_KINDS = 8
OTHER = "other"
LOGARITHMIC = ("rank", "hubness")
SIGNED = ("gain",)


@dataclass(frozen=True)
class Kinds:
    """A column of kinds. codes: (N,) index into names; names, colours: the kinds, most frequent first, "other" last."""

    codes: np.ndarray
    names: tuple[str, ...]
    colours: tuple[str, ...]


@dataclass(frozen=True)
class Ramp:
    """A column of numbers.

    Args:
        values: (N,) position on the ramp, NaN for missing values. low, high: ends of the ramp.
        scale: pairs of share and colour. ticks, labels: of the colour bar.
    """

    values: np.ndarray
    low: float
    high: float
    scale: tuple[tuple[float, str], ...]
    ticks: tuple[float, ...]
    labels: tuple[str, ...]


def frequent(values: pd.Series) -> tuple[str, ...]:
    """The kinds that get a colour of their own, most frequent first."""
    return tuple(str(name) for name in values.astype(str).value_counts().index[:MOST_KINDS])


def kinds(values: pd.Series, colours: Tone, order: tuple[str, ...] = ()) -> Kinds:
    """The most frequent kinds get a colour each, all others one grey.

    Args:
        order: kinds that come first, whatever their counts.
    """
    texts = values.astype(str).to_numpy(dtype=object)
    counted = pd.Series(texts).value_counts()
    names = list(order)
    names += [str(name) for name in counted.index if name not in names]
    shown = names[:MOST_KINDS]
    positions = {name: position for position, name in enumerate(shown)}
    codes = np.array([positions.get(text, len(shown)) for text in texts], dtype=np.int64)
    # vermilion and blue stand for the two runs, so the kinds begin with the others
    palette = [colours.runs[i] for i in (2, 3, 5, 4, 0, 1)] + ["#8C6BB1", "#7A5230"]
    labels, tones = list(shown), palette[: len(shown)]
    if len(names) > len(shown):
        labels.append(OTHER)
        tones.append(colours.faint)
    return Kinds(codes, tuple(labels), tuple(tones))


def ramp(name: str, values: np.ndarray, colours: Tone) -> Ramp:
    """Numbers on a ramp; ranks and counts logarithmically, changes around zero."""
    numbers = np.asarray(values, dtype=np.float64)
    steps = _RAMP_DARK if colours is DARK else _RAMP_LIGHT
    if name in SIGNED:
        placed = np.sign(numbers) * np.log10(1 + np.abs(numbers))
        end = max(float(np.nanmax(np.abs(placed), initial=0.0)), 1.0)
        powers = range(1, int(end) + 1)
        marks = [-(10**p) for p in reversed(powers)] + [0] + [10**p for p in powers]
        ticks = [float(np.sign(m) * np.log10(1 + abs(m))) for m in marks]
        return Ramp(
            placed,
            -end,
            end,
            _spaced(_DIVERGING),
            tuple(ticks),
            tuple(f"{m:+,}" if m else "0" for m in marks),
        )
    if name in LOGARITHMIC:
        placed = np.log10(np.maximum(numbers, 0) + (0 if name == "rank" else 1))
        end = max(float(np.nanmax(placed, initial=0.0)), 1.0)
        marks = [10**p for p in range(int(end) + 1)]
        shift = 0 if name == "rank" else 1
        if shift:
            marks = [0, *marks]
        ticks = [float(np.log10(m + shift)) for m in marks]
        return Ramp(placed, 0.0, end, _spaced(steps), tuple(ticks), tuple(f"{m:,}" for m in marks))
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(v) for v in np.quantile(finite, [0.01, 0.99])) if len(finite) else (0.0, 1.0)
    if not high > low:
        high = low + 1e-6
    even = tuple(float(t) for t in np.linspace(low, high, 5))
    return Ramp(numbers, low, high, _spaced(steps), even, tuple(f"{t:.3g}" for t in even))


def _spaced(steps: tuple[str, ...]) -> tuple[tuple[float, str], ...]:
    return tuple((position / (len(steps) - 1), colour) for position, colour in enumerate(steps))


def split_ramp(joined: Ramp, parts: int) -> tuple[Ramp, ...]:
    """A ramp over the numbers of several runs, split by run, so that they share one scale."""
    return tuple(replace(joined, values=values) for values in np.split(joined.values, parts))
