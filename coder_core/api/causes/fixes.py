"""What would fix the misses: R@K with complete labels, without wrong ones, without hubs, or with two runs averaged."""

from __future__ import annotations

import numpy as np
import pandas as pd

from coder_core.api.causes.budget import COPY, PROBABLE, Misses
from coder_core.api.causes.evidence import PICTURE, averaged_ranks
from coder_core.api.run import Run
from coder_core.api.sides import Array, Direction
from coder_core.evaluation.bootstrap import mean_change, mean_intervals

NOW = "as it is"
COMPLETE = "labels complete"
LEFT_OUT = "no wrong labels"
HUBS = "hubs corrected"
AVERAGED = "both runs averaged"
IN_WORDS = {
    COMPLETE: "complete labels",
    LEFT_OUT: "leaving out wrong labels",
    HUBS: "hub correction",
    AVERAGED: "averaging both runs",
}
LEAST_SHOWN = 0.05  # points of R@K
NOISE = " (may be noise)"
ENDS = ("recall", "low", "high", "change", "change_low", "change_high")


def what_would_fix(misses: Misses, averaged: Array | None = None) -> pd.DataFrame:
    """Compute R@K as it is and under every fix, in percent. Return one row per fix, "as it is" first: fix, recall, low and
    high (its 95% interval, a bootstrap over images), change (points, with change_low and change_high, the ends of its 95%
    interval, a paired bootstrap over the same images), and fixed (% of the misses that become hits; of wrong labels: that
    are left out).

    With complete labels, probable matches and copies count as matches. A query whose labels are all wrong is left out.

    Args:
        averaged: (q,) ranks of the queries by the sum of two runs' scores; None leaves that row out.
    """
    way = misses.way
    at = misses.at
    hit = way.ranks < at
    probable = (misses.unlabelled[:, :at] >= PROBABLE) | (way.copies[:, :at] == PICTURE)
    is_match = probable.any(1) | (misses.cause == COPY)
    of_fixes = {NOW: hit, COMPLETE: hit | is_match, LEFT_OUT: hit, HUBS: way.corrected < at}
    if averaged is not None:
        of_fixes[AVERAGED] = averaged < at

    missed = max(int(misses.missed.sum()), 1)
    rows = []
    for fix, hits in of_fixes.items():
        counted = ~misses.wrong if fix == LEFT_OUT else np.ones(len(hits), bool)
        fixed = misses.missed & (hits | ~counted)
        ends = np.full(3, np.nan)
        change = np.full(3, np.nan)
        if counted.any():
            ends = 100 * mean_intervals(hits[counted, None].astype(float), way.images[counted])[0]
            change = 100 * mean_change(hit, hits, counted, way.images)
        rows.append((fix, *ends, *change, 100 * float(fixed.sum()) / missed))

    return pd.DataFrame(rows, columns=["fix", *ENDS, "fixed"])


def gain_sentence(fixes: pd.DataFrame, at: int) -> str:
    """Say which two fixes would raise R@K most, K being `at`: "Complete labels would raise R@1 by 4.2 points, hub
    correction by 2.6 (may be noise)." What a fix breaks is subtracted; a gain whose interval contains 0 may be noise."""
    gains = fixes[fixes["change"] >= LEAST_SHOWN].sort_values("change", ascending=False, kind="stable")
    parts = []
    for place, row in enumerate(gains.head(2).to_dict("records")):
        by, unit = (f"would raise R@{at} by", " points") if place == 0 else ("by", "")
        noise = "" if row["change_low"] > 0 else NOISE
        parts.append(f"{IN_WORDS[row['fix']]} {by} {row['change']:.1f}{unit}{noise}")
    if not parts:
        return f"None of the fixes would raise R@{at}."
    sentence = ", ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def averaged_with(run: Run, other: Run, split: str, misses: Misses, direction: Direction) -> Array:
    """Return (q,) ranks of the queries of `misses` by both runs' scores; errors as for `averaged_ranks`."""
    return averaged_ranks(run, other, split, direction, misses.way.queries)


def fixes_of_run(
    run: Run, other: Run | None, split: str, misses: Misses, direction: Direction
) -> pd.DataFrame:
    """Return `what_would_fix` for the misses of a run, with another run also if both are averaged. Of a split of which only
    a sample is ranked, the fixes that compare all images with all captions are left out: hub correction and averages."""
    if run.ranked_images(split) is not None:
        fixes = what_would_fix(misses)
        return fixes[fixes["fix"] != HUBS].reset_index(drop=True)
    averaged = None if other is None else averaged_with(run, other, split, misses, direction)
    return what_would_fix(misses, averaged)
