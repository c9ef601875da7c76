"""Judgements of people beside the labels: the source that is asked, and the results it calls matches."""

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import judging, questions
from app.ask import Direction, Modality, Run, RunSummary, ask, retrieval
from app.choice import DIRECTIONS, QUERIES, Choice
from app.components import cards, downloads
from app.components.controls import choose_one, switch
from app.components.table import Column, plain_table

KEY = "judged-by"
RECALLS = {
    "direction": Column("direction"),
    "run": Column("run"),
    "queries": Column("queries", ",d"),
    **{name: Column(f"labels R@{name.rpartition('_')[2]}", ".1f", "R@K") for name in judging.LABELLED},
    **{name: Column(f"judges R@{name.rpartition('_')[2]}", ".1f", "judged R@K") for name in judging.JUDGED},
    "map_at_r": Column("mAP@R", ".1f", "mAP@R"),
    "r_precision": Column("R-Prec.", ".1f", "R-Precision"),
}


def choose_source(choice: Choice, controls: DeltaGenerator) -> judging.Source | None:
    """The source of judgements: a control where there is more than one; says which are damaged."""
    sources = judging.sources(choice.last, choice.split)
    sound = {source.key: source.label for source in sources if not source.fault}
    if len(sound) > 1:
        with controls:
            choose_one("Judged by", sound, KEY, cards.tip("judged"))
    cards.faults([(source.label, source.fault) for source in sources if source.fault])
    return source_of(choice)


def source_of(choice: Choice) -> judging.Source | None:
    """The chosen source of judgements; None where no sound one speaks of this split."""
    sound = [source for source in judging.sources(choice.last, choice.split) if not source.fault]
    key = st.session_state.get(KEY)
    return next((source for source in sound if source.key == key), sound[0] if sound else None)


def candidates(choice: Choice, run: RunSummary, modality: Modality, query: int | None) -> set[int]:
    """The results of a sample that were judged to be matches though no label names them."""
    source = source_of(choice) if query is not None else None
    if source is None:
        return set()
    best = ask(questions.best_candidates, run, choice.split, modality)[query]
    judged = ask(retrieval.judged_results, run, choice.split, QUERIES[modality], source.judgements)[query]
    return set(best[judged].tolist())


def judged_right(source: judging.Source, choice: Choice, direction: Direction, at: int) -> np.ndarray:
    """(Q,) bool: the last run has no label among the first `at` results, but a judged match."""
    judged = choice.ask(retrieval.judged_results, direction, source.judgements)
    return np.asarray((choice.ask(Run.ranks)[direction] >= at) & judged[:, :at].any(1))


def only_judged(choice: Choice, direction: Direction, at: int, queries: pd.DataFrame) -> pd.DataFrame:
    """The queries, or, when asked for, those that the last run answers by the judgements though not by the labels."""
    source, label = source_of(choice), f"Only judged right in {cards.literal(choice.last.name)}"
    if source is None or not switch(label, "judged", "judged"):
        return queries
    cards.note(f"Queries without a labelled match within the first {at}, but one judged by {source.label}.")
    return queries[judged_right(source, choice, direction, at)[queries["query"].to_numpy()]]


def show_recall(choice: Choice, source: judging.Source) -> None:
    """Recall of all runs by the labels and by the judgements, both directions."""
    cards.heading(
        f"By the judgements of {source.label}",
        "Left: R@K by labels. Right: judged matches count too, over the same queries. A wide "
        "gap means that many failures are unlabelled matches.",
    )
    queries = None
    if choice.slice:
        queries = {str(way): choice.members(modality) for modality, way in QUERIES.items()}
    values = choice.ask_each(retrieval.judged_values, source.judgements)
    table = retrieval.judged_recall(list(values), list(values.values()), queries)
    table = table.assign(direction=table["direction"].map(DIRECTIONS))[list(RECALLS)]
    plain_table(table, RECALLS, "judged-recall", "rows")
    cards.note(f"{source.label if source.path == source.key else source.path}: {source.fact}.")
    content = table.rename(columns={name: column.label for name, column in RECALLS.items()})
    downloads.table(content, f"judged-{choice.split}-{downloads.file_name(source.key)}")
