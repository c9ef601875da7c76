"""Numbers and durations in words."""

from __future__ import annotations


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 image", "2,000 images"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A rough duration: "a few seconds", "about 20 seconds", "about 4 minutes"."""
    if seconds < 5:
        return "a few seconds"
    if seconds < 95:
        return f"about {max(round(seconds, -1), 10):.0f} seconds"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.0f} hours"
