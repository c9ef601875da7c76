"""Numbers, durations, progress and curves in words."""

import html
from collections.abc import Sequence
from datetime import timedelta

import pandas as pd

from app.ask import RunSummary


def count(number: int, noun: str, plural: str = "") -> str:
    """Format a number with its noun: "1 image", "2,000 images", "3 queries"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def number(value: float, form: str = ".3f") -> str:
    """Format a number; "–" for NaN."""
    return "–" if value != value else f"{value:{form}}"


def listed(names: Sequence[str]) -> str:
    """Join names: "a", "a and b", "a, b and c"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def duration(seconds: float) -> str:
    """Format a rough duration: "a few seconds", "about 20 seconds", "about 4 minutes"."""
    if seconds < 5:
        return "a few seconds"
    if seconds < 95:
        return f"about {max(round(seconds, -1), 10):.0f} seconds"
    return f"about {seconds / 60:.0f} minutes" if seconds < 5400 else f"about {seconds / 3600:.0f} hours"


def gain_cell(mean: float, low: float, high: float) -> str:
    """Format a gain: "+1.2 [-0.4, +2.8] may be noise", if the interval contains zero; "0" for no change."""
    if low == high == 0:
        return "0"
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]{'' if low > 0 or high < 0 else ' may be noise'}"


RSUM_COLUMNS = ("metrics.rsum", "rsum")
NOT_PLOTTED = {"time", "step", "epoch", "event"}
RECENT = 50  # records of steps from which the time left is estimated
GROUPS = {"losses": "loss", "since_last": "since the last evaluation", "since_start": "since the start"}
UNNAMED_GROUPS = ("", "metrics", "dev")
CURVES = {"rsum": "R@sum", "md": "mean distance MD"}
OF_WAY = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "mrr": "MRR", "ndcg10": "nDCG@10"}


def steps_done(run: RunSummary) -> tuple[float, str]:
    """Return the share of steps done, and the state in words (HTML). Unknown numbers count as nothing done."""
    step = run.status.get("step")
    steps = run.status.get("steps")
    if run.state == "finished":
        return 1.0, "finished"
    if not isinstance(step, int) or not isinstance(steps, int) or steps <= 0:
        return 0.0, html.escape(run.state)
    return min(step / steps, 1.0), html.escape(f"{run.state}: step {step:,} of {steps:,}")


def time_left(run: RunSummary, steps: pd.DataFrame) -> str:
    """Estimate " · about 0:03:20 left" from the pace of this process's newest steps, including evaluations; "" before
    it is known."""
    step = run.status.get("step")
    of = run.status.get("steps")
    if run.state != "running" or not isinstance(step, int) or not isinstance(of, int):
        return ""
    if not {"time", "step"} <= set(steps):
        return ""
    newest = steps[steps["time"] >= run.status.get("started", 0.0)][["time", "step"]].tail(RECENT)
    seconds, taken = (newest.iloc[-1] - newest.iloc[0]) if len(newest) else (0.0, 0)
    return f" · about {timedelta(seconds=round(seconds / taken * (of - step)))} left" if taken > 0 else ""


def latest(epochs: pd.DataFrame) -> str:
    """Return the newest dev R@sum and that of the best epoch, whose weights are saved; "" before the first evaluation.
    The epoch may be chosen on half of dev (`--choose-on half`), so the best need not have the highest R@sum on dev."""
    for column in RSUM_COLUMNS:
        if column in epochs and epochs[column].notna().any():
            evaluated = epochs[epochs[column].notna()]
            saved = evaluated.nlargest(1, column)
            if "best" in evaluated:
                saved = evaluated[evaluated["best"].eq(True)]
            text = f" · R@sum on dev {evaluated[column].iloc[-1]:.1f}"
            if saved.empty or saved.index[-1] == evaluated.index[-1]:
                return text
            return f"{text}, best {saved[column].iloc[-1]:.1f} (saved)"
    return ""


def curves(frames: list[pd.DataFrame]) -> list[str]:
    """List the columns that can be plotted, R@sum first, then losses."""
    names: dict[str, None] = {}
    for frame in frames:
        numbers = map(str, frame.select_dtypes("number"))
        names.update(dict.fromkeys(name for name in numbers if name not in NOT_PLOTTED))
    return sorted(names, key=lambda name: (name not in RSUM_COLUMNS, "loss" not in name, name))


def curve_label(column: str) -> str:
    """Label a column: "metrics.i2t_r1" → "i2t R@1", "losses.instance" → "loss: instance"."""
    group, _, name = column.rpartition(".")
    way, _, key = name.partition("_")
    shown = f"{way} {OF_WAY[key]}" if key in OF_WAY else name.replace("_", " ")
    shown = CURVES.get(name, shown)
    return shown if group in UNNAMED_GROUPS else f"{GROUPS.get(group, group)}: {shown}"
