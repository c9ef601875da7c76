"""Narrow a list of queries: to ranks, to a cause of the miss, to likely or judged matches without a label."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from app import charts, judging
from app.address import put
from app.ask import RunSummary, ask, causes, likely_matches
from app.choice import UNITS
from app.components import cards
from app.components.controls import pick, switch
from app.components.error_budget import runs_with_causes
from app.views.retrieval.judged import judged_right, source_of
from app.views.retrieval.lists import Queries

ANY_CAUSE = "any cause"


def only_right(shown: Queries, queries: pd.DataFrame) -> pd.DataFrame:
    """Return the queries or, if asked for, those with an unlabelled match: a likely one, or one by the judgments."""
    queries = only_guessed(shown, queries)
    source = source_of(shown.choice)
    label = "Only misses that reviewers accept"
    if source is None or not switch(label, "judged", "judged", show_all):
        return queries
    fact = f"Queries with no labelled match in the first {shown.at}, but with one judged by {source.label}."
    cards.note(fact)
    return queries[judged_right(source, shown)[queries["query"].to_numpy()]]


def only_guessed(shown: Queries, queries: pd.DataFrame) -> pd.DataFrame:
    """Return the queries or, if asked for, those with a likely unlabelled match in the last run."""
    choice = shown.choice
    at = shown.at
    if not switch("Only likely missing labels", "likely", "likely", show_all):
        return queries

    recalls = []
    inside = choice.samples(shown.modality)
    for run in choice.runs:
        guesses = likely_matches(run, choice.split, shown.direction)
        if guesses is None:
            cards.note("These captions share hardly any words, so no matches can be guessed from them.")
            return queries
        labelled, likely = guesses.recall(at, queries=inside)
        recalls.append(f"{run.name} {labelled:.1f} % by the labels, {likely:.1f} % with likely matches")

    assert guesses is not None
    of = ""
    sampled = guesses.queries
    if sampled is not None:
        unit = f"{len(sampled):,} of {len(guesses.ranks):,} {UNITS[shown.modality]}"
        of = f" from a random sample of {unit}, to which the table is limited"

    nothing = np.isnan(labelled)  # of the slice
    cards.note(f"There is no such query{of}." if nothing else f"R@{at}, a guess{of}: {' · '.join(recalls)}.")
    return queries[guesses.probably_right(at)[queries["query"].to_numpy()]]


@dataclass(frozen=True)
class CauseOfRun:
    """A cause of misses, and the run that misses."""

    cause: str
    run: RunSummary


def choose_cause(shown: Queries) -> CauseOfRun | None:
    """Let the user choose a cause of misses, and the run that misses; None for all queries, also of runs whose causes are
    unknown."""
    runs = {run.name: run for run in reversed(runs_with_causes(shown.choice))}
    if not runs:
        return None
    cause = pick(
        "Cause of the miss",
        [ANY_CAUSE, *causes.CAUSES],
        "cause",
        200,
        help=cards.tip("cause"),
        on_change=show_all,
    )
    if cause == ANY_CAUSE:
        return None
    name = pick("Missed by", runs, "cause-of", 200) if len(runs) > 1 else next(iter(runs))
    return CauseOfRun(cause, runs[name])


def only_of_cause(shown: Queries, filtered: CauseOfRun | None, queries: pd.DataFrame) -> pd.DataFrame:
    """Return the queries that a run misses for a cause; None for all."""
    if filtered is None:
        return queries
    run = filtered.run
    split = shown.choice.split
    question = judging.asked(run, split, shown.direction, shown.at).question
    misses = ask(causes.causes_of_run, run, split, question, judging.known_about(run, split))
    of_cause = misses.way.queries[misses.cause == causes.CAUSES.index(filtered.cause)]
    cards.note(f"Only queries that {run.name} misses with the cause “{filtered.cause}”.")
    return queries[np.isin(queries["query"], of_cause)]


def choose_band(label: str, key: str) -> str:
    """Let the user choose a band of ranks; "" for all."""
    band = pick(cards.literal(label), ["all", *charts.RANK_LABELS], key, 150)
    return "" if band == "all" else band


def in_band(ranks: np.ndarray, band: str) -> np.ndarray:
    """Return a bool for every rank (from 1): True inside the band; all True for ""."""
    if not band:
        return np.ones(len(ranks), dtype=bool)
    return np.asarray(charts.rank_band(ranks) == charts.RANK_LABELS.index(band))


def show_all() -> None:
    """List queries of any outcome: the last run misses no fixed one."""
    put("outcome", "all")
