"""Numbers and durations in words."""

from __future__ import annotations

import math


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 image", "2,000 images", "3 queries"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def number(value: float, digits: int = 3) -> str:
    """A number with this many decimals; "–" for none."""
    return "–" if value != value else f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """A rough duration: "a few seconds", "about 20 seconds", "about 4 minutes"."""
    if seconds < 5:
        return "a few seconds"
    if seconds < 95:
        return f"about {max(round(seconds, -1), 10):.0f} seconds"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.0f} hours"


def correlation(rho: float) -> str:
    """Spearman's ρ with two decimals; a dash where it is undefined."""
    return "–" if math.isnan(rho) else f"{rho:+.2f}"


def gain_cell(mean: float, low: float, high: float) -> str:
    """ "+1.2 [-0.4, +2.8] may be noise": a gain with its interval, marked where the interval holds zero; "0" where
    nothing changes."""
    if low == high == 0:
        return "0"
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]{'' if low > 0 or high < 0 else ' may be noise'}"
