"""Separation of matching from other pairs, for any number of runs: MD and both similarity distributions."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app import charts
from app.ask import RunSummary, ask, joint_space, read_each
from app.choice import theme
from app.ui import cards, downloads
from app.ui.table import Column, plain_table


def show_separation(runs: Sequence[RunSummary], split: str) -> None:
    """Draw it for those of the runs that were evaluated on the split; damaged ones are named."""
    evaluated = [run for run in runs if split in run.splits]
    counted, faults = read_each(evaluated, lambda run: ask(joint_space.score_distributions, run, split))
    if faults:
        cards.faults(faults)
    if not counted:
        return
    names, distributions = list(counted), list(counted.values())
    sampled = max(distributions, key=lambda counts: counts.of_images - counts.images)
    note = ""
    if sampled.images < sampled.of_images:
        note = f" Counted over {sampled.images:,} of {sampled.of_images:,} images, drawn at random; the means are exact."
    cards.heading(
        "How well are matching pairs separated from the others?",
        "A run whose curves on the left (matching pairs) and on the right (other pairs) overlap cannot tell them "
        f"apart. MD is the difference of the two means.{note}",
    )
    colours = charts.tone(theme())
    all_counts = [counts for run in distributions for counts in (run.positive, run.negative)]
    kinds = {"positive": "matching pairs", "negative": "all other pairs"}
    for column, (kind, label) in zip(st.columns(2, gap="large"), kinds.items(), strict=True):
        with column:
            counts = [getattr(run, kind) for run in distributions]
            figure = charts.similarity_densities(
                names, distributions[0].edges, counts, all_counts, label, colours
            )
            downloads.chart(figure, f"densities-{kind}", f"similarities of {label}")
    means = [ask(joint_space.score_separation, run, split) for run in evaluated if run.name in counted]
    table = pd.DataFrame(
        {
            "run": names,
            "matching pairs": [mean.positive for mean in means],
            "other pairs": [mean.negative for mean in means],
            "MD": [mean.mean_distance for mean in means],
        }
    )
    columns = {
        "run": Column("run"),
        "matching pairs": Column("matching pairs", ".3f", "mean similarity"),
        "other pairs": Column("other pairs", ".3f", "mean similarity"),
        "MD": Column("MD", ".3f", "mean distance"),
    }
    plain_table(table, columns, "separation", "runs")
    downloads.table(table, f"separation-{split}", paper=True)
