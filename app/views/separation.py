"""How far matching pairs stand from the others, for any number of runs: MD and both distributions of similarities."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app import charts
from app.backend import joint_space as backend_joint
from app.backend.runs import RunSummary
from app.ui import cards, downloads
from app.ui.glossary import tip
from app.ui.state import theme


def show(runs: Sequence[RunSummary], split: str) -> None:
    """Draw it for those of the runs that were evaluated on the split."""
    shown = [run for run in runs if split in run.splits]
    if not shown:
        return
    found = [backend_joint.score_distributions(run, split) for run in shown]
    part = max(found, key=lambda one: one.of_images - one.images)
    told = ""
    if part.images < part.of_images:
        told = f" Counted over {part.images:,} of {part.of_images:,} images, drawn at random; the means are of all."
    cards.heading(
        "How far do matching pairs stand from the others?",
        "A run whose curve stands at one place on both sides cannot tell matching pairs (left) from others (right); MD "
        f"is the distance of the two means.{told}",
    )
    colours, names = charts.tone(theme()), [run.name for run in shown]
    everything = [counts for one in found for counts in (one.positive, one.negative)]
    for column, kind, what in zip(
        st.columns(2, gap="large"), ("positive", "negative"), ("matching pairs", "all other pairs"), strict=True
    ):
        with column:
            counts = [getattr(one, kind) for one in found]
            figure = charts.similarity_densities(names, found[0].edges, counts, everything, what, colours)
            downloads.chart(figure, f"densities-{kind}", f"similarities of {what}")
    table = _means(shown, split)
    number = st.column_config.NumberColumn(format="%.3f", help=tip("mean similarity"))
    st.dataframe(
        table, hide_index=True, height="content",
        column_config={"matching pairs": number, "other pairs": number,
                       "MD": st.column_config.NumberColumn(format="%.3f", help=tip("mean distance"))},
    )  # fmt: skip
    downloads.table(table, f"separation-{split}", paper=True)


def _means(runs: Sequence[RunSummary], split: str) -> pd.DataFrame:
    found = [backend_joint.score_separation(run, split) for run in runs]
    return pd.DataFrame(
        {
            "run": [run.name for run in runs],
            "matching pairs": [one.positive for one in found],
            "other pairs": [one.negative for one in found],
            "MD": [one.mean_distance for one in found],
        }
    )
