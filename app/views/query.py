"""One query and its results, run beside run."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
import streamlit as st

from app import questions
from app.ask import Direction, InputError, Modality, Run, RunSummary, ask, ask_both, likely_matches, retrieval
from app.choice import OTHER, QUERIES, Choice
from app.ui import cards, links
from app.ui.reviewing import menu_html
from app.views.judged import judged_candidates
from app.views.samples import sample_card

RESULTS = 10
LIKELY = "likely match (a guess)"
Search = Callable[[RunSummary], pd.DataFrame | None]


def side_by_side(
    choice: Choice,
    modality: Modality,
    search: Search,
    notes: Mapping[str, str] | None = None,
    query: int | None = None,
) -> None:
    """Every run's ten best candidates; `notes` stand below a run's name. `search` returns None where it has said
    why there are none. Results of a sample of the split, `query`, can be judged."""
    for run, column in zip(choice.runs, st.columns(len(choice.runs), gap="small"), strict=True):
        with column:
            cards.label(run.name, (notes or {}).get(run.name, ""))
            try:
                candidates = search(run)
            except (InputError, OSError, ImportError) as error:
                cards.empty("This run cannot answer this query.", str(error))
                continue
            if candidates is not None:
                results(choice, run, modality, candidates, query)


def results(
    choice: Choice, run: RunSummary, modality: Modality, candidates: pd.DataFrame, query: int | None = None
) -> None:
    """Ranked candidates with links to the other pages; `modality` is the query's."""
    other = OTHER[modality]
    judged = judged_candidates(choice, run, modality, query)
    likely: set[int] = set()
    if query is not None and st.session_state.get("guess"):
        likely = set(_likely(choice, run, modality, query)) - judged
    cards.results(
        [
            sample_card(
                run,
                choice.split,
                other,
                int(row["candidate"]),
                int(row["place"]),
                float(row["score"]),
                match=bool(row["match"]),
                links=links.of_sample(choice, other, int(row["candidate"])),
                pictured=other == "image",
                notes=(LIKELY,) if int(row["candidate"]) in likely else (),
                review=review_menu(choice, modality, query, int(row["candidate"])),
                judged=int(row["candidate"]) in judged,
            )
            for row in candidates.to_dict("records")
        ]
    )


def _likely(choice: Choice, run: RunSummary, modality: Modality, query: int) -> list[int]:
    """The best results of a query that are probably matches although no label names them."""
    guesses = likely_matches(run, choice.split, QUERIES[modality], query)
    if guesses is None:
        return []
    best = ask(questions.best_candidates, run, choice.split, modality)[query]
    return [int(candidate) for candidate in best[guesses.likely()[query]]]


def review_menu(choice: Choice, modality: Modality, query: int | None, candidate: int) -> str:
    """The menu that judges a query with a candidate; nothing without a query of the split."""
    if query is None:
        return ""
    return menu_html(choice, *((candidate, query) if modality == "text" else (query, candidate)))


def rank_change(choice: Choice, direction: Direction, number: int) -> dict[str, str]:
    """Metrics of one query's ranks in the first and the last run; returns a note below every run's name."""
    ranks = {run.name: int(ask(Run.ranks, run, choice.split)[direction][number]) for run in choice.runs}
    notes = {name: "match at rank " + ("–" if rank < 0 else f"{rank + 1:,}") for name, rank in ranks.items()}
    if choice.second is None or min(ranks.values()) < 0:
        return notes
    first, second = ranks[choice.first.name], ranks[choice.second.name]
    changes = ask_both(retrieval.compare, choice.first, choice.second, choice.split, at=1)
    gains = changes["change"].to_numpy()[(changes["direction"] == direction).to_numpy()]
    as_large = int((np.abs(gains) >= abs(first - second)).sum())
    note = "the same rank" if first == second else f"{as_large:,} of {len(gains):,} changed by as much"
    colour = "off" if first == second else "green" if second < first else "red"
    cards.metrics(
        [
            cards.Metric(f"rank in {choice.first.name}", f"{first + 1:,}", "1 is best", "rank"),
            cards.Metric(f"rank in {choice.second.name}", f"{second + 1:,}", "1 is best", "rank"),
            cards.Metric("gain", f"{first - second:+,}", "", "gain", note, colour, "off"),  # type: ignore[arg-type]
        ]
    )
    return notes
