"""Misses that are matches by the judgments, and recall by these."""

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import judging, questions
from app.ask import Modality, Run, RunSummary, ask, retrieval
from app.choice import DIRECTIONS, QUERIES, Choice
from app.components import cards, downloads
from app.components.controls import choose_one
from app.components.samples import search_words
from app.components.table import columns_of, plain_table
from app.views.retrieval.lists import Queries, Section

KEY = "judged-by"
RECALLS = columns_of("judged-recall")


def unlabelled_matches(shown: Queries, source: judging.Source) -> Section:
    """Misses of the last run that are matches by the judgments, and recall by these."""
    choice = shown.choice
    last = choice.last
    queries = np.flatnonzero(judged_right(source, shown))
    queries = queries[choice.inside(shown.modality, queries)]
    all_ranks = choice.ask_each(Run.ranks).items()
    ranks = {name: retrieval.places(of_run[shown.direction][queries]) for name, of_run in all_ranks}
    table = pd.DataFrame({"query": queries, **ranks})
    table = table.iloc[np.argsort(-table[last.name].to_numpy(), kind="stable")]

    def draw_list() -> np.ndarray:
        how = cards.HOW_TO_READ["judged right"].format(at=shown.at)
        cards.heading(f"Misses of {last.name} that reviewers accept", how)
        words = search_words("words")
        columns = shown.columns("rank", ",d", dict(zip(ranks, ranks, strict=True)))
        file = f"judged-right-{choice.split}-{shown.direction}"
        return shown.table(table, columns, words, file, fact="No such miss exists.")

    return Section(draw_list, partial(show_recall, choice, source))


def choose_source(choice: Choice, controls: DeltaGenerator) -> judging.Source | None:
    """Return the source of judgments; draw a control if there is more than one, and name damaged ones."""
    sources = judging.sources(choice.last, choice.split)
    sound = {source.key: source.label for source in sources if not source.fault}
    if len(sound) > 1:
        with controls:
            choose_one("Judged by", sound, KEY, cards.tip("judged"))
    cards.faults([(source.label, source.fault) for source in sources if source.fault])
    return source_of(choice)


def source_of(choice: Choice) -> judging.Source | None:
    """Return the chosen source of judgments; None if no intact one is about this split."""
    sound = [source for source in judging.sources(choice.last, choice.split) if not source.fault]
    key = st.session_state.get(KEY)
    return next((source for source in sound if source.key == key), sound[0] if sound else None)


def judged_candidates(choice: Choice, run: RunSummary, modality: Modality, query: int | None) -> set[int]:
    """Return the results of a sample that are matches by the judgments, but not by the labels."""
    source = source_of(choice) if query is not None else None
    if source is None:
        return set()
    best = ask(questions.best_candidates, run, choice.split, modality)[query]
    judged = ask(retrieval.judged_results, run, choice.split, QUERIES[modality], source.judgements)[query]
    return set(best[judged].tolist())


def judged_right(source: judging.Source, shown: Queries) -> np.ndarray:
    """Return (Q,) bool: the last run has no labelled match among the first `at` results, but a judged one."""
    judged = shown.choice.ask(retrieval.judged_results, shown.direction, source.judgements)
    missed = shown.choice.ask(Run.ranks)[shown.direction] >= shown.at
    return np.asarray(missed & judged[:, : shown.at].any(1))


def show_recall(choice: Choice, source: judging.Source) -> None:
    """Draw recall of all runs by the labels and by the judgments, in both directions."""
    cards.heading(f"By the judgments of {source.label}", cards.HOW_TO_READ["judged recall"])
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
