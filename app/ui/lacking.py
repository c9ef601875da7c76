"""Pages about something that not every run has: which runs have it, and a word about those that do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from app.backend.runs import RunSummary
from app.ui import cards


def those_with(
    runs: Sequence[RunSummary],
    has: Callable[[RunSummary], bool],
    *,
    trained: str,
    imported: str,
    way_out: str,
    preset: str = "",
) -> list[RunSummary]:
    """The runs that have it, after telling which do not; where none has it, how to come by one that does.

    Args:
        runs: the chosen ones, at least one.
        has: whether a run has it.
        trained: how a run without it was trained, for example "without a concept branch".
        imported: what imported embeddings lack, for example "which have no concept branch".
        way_out: how to come by a run that has it.
        preset: one on the built-in pictures that has it; the Train page opens with it.
    """
    found = [run for run in runs if has(run)]
    without = [run for run in runs if run not in found]

    def absent(run: RunSummary) -> str:
        lack = f"holds imported embeddings, {imported}" if run.imported else f"was trained {trained}"
        return f"{run.name} {lack}."

    if not found:
        both = len(without) == 2 and not any(run.imported for run in without)
        names = " and ".join(run.name for run in without)
        cards.empty(f"{names} were trained {trained}." if both else " ".join(map(absent, without)), way_out)
        label = f"Open the Train page with {preset}" if preset else "Open the Train page"
        asked = {"preset": preset} if preset else None
        st.page_link("pages/train.py", label=label, icon=":material/model_training:", query_params=asked)
    elif without:
        cards.note(f"{absent(without[0])} {found[0].name} is shown alone.")
    return found
