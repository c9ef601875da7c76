"""Judgements of people beside the data: which source is shown, and which results it calls matches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import judging
from app.ask import Direction, Modality, Run, RunSummary, ask
from app.choice import QUERIES, Choice, bound
from app.ui import cards
from app.ui.controls import choose_one
from app.ui.glossary import tip

KEY = "judged-by"


def choose_judgements(choice: Choice, controls: DeltaGenerator) -> judging.Source | None:
    """The source of judgements: a control where there is more than one; says which are damaged."""
    sources = judging.sources(choice.last, choice.split)
    sound = [source for source in sources if not source.fault]
    if len(sound) > 1:
        with controls:
            choose_one("Judged by", {source.key: source.label for source in sound}, KEY, tip("judged"))
    if damaged := [(source.label, source.fault) for source in sources if source.fault]:
        cards.faults(damaged)
    return judged_by(choice)


def judged_by(choice: Choice) -> judging.Source | None:
    """The chosen source of judgements; None where no sound one speaks of this split."""
    sound = [source for source in judging.sources(choice.last, choice.split) if not source.fault]
    chosen = st.session_state.get(KEY)
    return next((source for source in sound if source.key == chosen), sound[0] if sound else None)


def judged_candidates(choice: Choice, run: RunSummary, modality: Modality, query: int | None) -> set[int]:
    """The results of a sample that were judged to be matches though no label names them."""
    source = judged_by(choice) if query is not None else None
    if source is None:
        return set()
    direction, analysis = QUERIES[modality], ask(Run.analysis, run, choice.split)
    best = (analysis.text_best if modality == "text" else analysis.image_best)[query]
    return {int(candidate) for candidate in best[judging.judged_results(source, run, direction)[query]]}


def only_judged(choice: Choice, direction: Direction, at: int, queries: pd.DataFrame) -> pd.DataFrame:
    """The queries, or, when asked for, those that the last run answers by the judgements though not by the labels."""
    source = judged_by(choice)
    if source is None or not st.toggle(
        f"Only judged right in {cards.literal(choice.last.name)}",
        False,
        help=tip("judged"),
        **bound("judged"),
    ):
        return queries
    cards.note(f"Queries with a match by {source.label}, and none by the labels, within the first {at}.")
    return queries[judged_right(source, choice, direction, at)[queries["query"].to_numpy()]]


def judged_right(source: judging.Source, choice: Choice, direction: Direction, at: int) -> np.ndarray:
    """(Q,) bool: the last run has no label among the first `at` results, but a judged match."""
    judged = judging.judged_results(source, choice.last, direction)
    ranks = ask(Run.ranks, choice.last, choice.split)[direction]
    return np.asarray((ranks >= at) & judged[:, :at].any(1))
