"""How far a run is, in words; no Streamlit."""

from __future__ import annotations

import html

import pandas as pd

from app.backend import RunSummary

RSUM_COLUMNS = ("metrics.rsum", "dev.rsum", "rsum")


def steps_done(run: RunSummary) -> tuple[float, str]:
    """Share of all steps, and a sentence. Unknown numbers count as nothing done."""
    step, steps = run.status.get("step"), run.status.get("steps")
    if run.state == "finished":
        return 1.0, "finished"
    if not isinstance(step, int) or not isinstance(steps, int) or steps <= 0:
        return 0.0, html.escape(run.state)
    return min(step / steps, 1.0), html.escape(f"{run.state}: step {step:,} of {steps:,}")


def latest(epochs: pd.DataFrame) -> str:
    """The newest dev R@sum, or nothing before the first evaluation."""
    for column in RSUM_COLUMNS:
        if column in epochs and epochs[column].notna().any():
            return f" · R@sum on dev {float(epochs[column].dropna().iloc[-1]):.1f}"
    return ""


def curves(frames: list[pd.DataFrame]) -> list[str]:
    """The columns that can be drawn over epochs, R@sum first, then losses."""
    skipped = {"time", "step", "epoch", "event"}
    names: dict[str, None] = {}
    for frame in frames:
        numeric = frame.select_dtypes("number").columns
        names.update(dict.fromkeys(str(name) for name in numeric if name not in skipped))
    return sorted(names, key=lambda name: (name not in RSUM_COLUMNS, "loss" not in name, name))


def curve_label(column: str) -> str:
    """"metrics.i2t_r1" → "i2t R@1"."""
    name = column.rsplit(".", 1)[-1] if column.startswith(("metrics.", "dev.")) else column
    if name == "rsum":
        return "R@sum"
    return name.replace("_r", " R@") if name[:4] in ("i2t_", "t2i_") and name[4:6] in ("r1", "r5") else name.replace("_", " ")
