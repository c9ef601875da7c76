"""Queries by the ranks of their true matches, in one run or several, and what changed between two."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import streamlit as st

from app import charts
from app.address import bound, put_all
from app.ask import Run, ask_both, retrieval
from app.choice import DIRECTIONS, UNITS
from app.components import answers, cards, downloads, events
from app.components.controls import choose_one, more_filters, pick, row
from app.components.gains import show_gains
from app.components.samples import of_run, search_words
from app.components.selection import by_outcome
from app.components.table import Column
from app.components.theme import tone
from app.views.retrieval.lists import NO_MATCH, Queries, Section
from app.views.retrieval.narrowing import choose_band, choose_cause, in_band, only_of_cause, only_right

OUTCOME_COLOURS = {"fixed": "green", "broken": "red"}
BANDS = len(charts.RANK_LABELS)
# parameters of links to queries of any outcome
NARROWED = {"cause", "likely", "judged", "from-rank", "to-rank"}
SAMPLED = 200  # queries that are ranked on demand if a run has not ranked the split
SEED = 20220910


def compare_runs(shown: Queries) -> Section:
    """Queries by their ranks in two runs."""
    choice = shown.choice
    first, second = choice.runs
    changes = ask_both(retrieval.compare, first, second, choice.split, at=shown.at)
    changes = changes[changes["direction"] == shown.direction].drop(columns="direction")
    changes = changes[choice.inside(shown.modality, changes["query"])]

    def draw_list() -> np.ndarray:
        outcomes = {"all": "All", **{name: name.capitalize() for name in retrieval.OUTCOMES}}
        ranks = {"rank_a": (first, "from-rank"), "rank_b": (second, "to-rank")}
        with row():
            outcome = st.selectbox(
                "Show",
                list(outcomes),
                list(outcomes).index(usual_outcome(changes)),
                format_func=outcomes.__getitem__,
                label_visibility="collapsed",
                width=130,
                **bound("outcome"),
            )
            words = search_words("words", width=140)
            filters = more_filters()

        with filters:
            bands = [choose_band(of_run(choice, "Rank", run), key) for run, key in ranks.values()]
            queries = by_outcome(changes, None if outcome == "all" else outcome)
            for name, band in zip(ranks, bands, strict=True):
                queries = queries[in_band(queries[name].to_numpy(), band)]
            queries = only_right(shown, queries)
            filtered = choose_cause(shown)

        queries = only_of_cause(shown, filtered, queries)
        columns = shown.columns("rank", ",d", {first.name: "rank_a", second.name: "rank_b"})
        columns["change"] = Column("gain", "+,d", "gain")
        fact = NO_MATCH if outcome == "all" or any(bands) else f"No query is {outcome}."
        return shown.table(queries, columns, words, shown.file("ranks", outcome), fact=fact)

    def draw_figures() -> None:
        counts = {name: int((changes["outcome"] == name).sum()) for name in retrieval.OUTCOMES}
        metrics = []
        for name, number in counts.items():
            colour = OUTCOME_COLOURS.get(name, "off") if number else "off"
            metrics.append(share_metric(name, number, len(changes), name, colour))
        cards.metrics(metrics)
        note_gains(shown)
        cards.heading("Rank changes between the two runs", second=second.name)
        figure = charts.rank_matrix(changes, first.name, second.name, tone())
        downloads.chart(figure, "ranks", "ranks in both runs")

    def open_cell(cell: tuple[int, int]) -> None:
        before, after = (charts.RANK_LABELS[band] for band in cell)
        put_all({"outcome": "all", "from-rank": before, "to-rank": after})

    events.on_cell(["ranks"], (BANDS, BANDS), open_cell)
    return Section(draw_list, draw_figures)


def usual_outcome(changes: pd.DataFrame) -> str:
    """Return the list that a page on two runs begins with: fixed or broken queries, whichever are more; "all" if there are
    none, or if the address asks for a cause or a rank."""
    counts = changes["outcome"].value_counts()
    fixed, broken = (int(counts.get(outcome, 0)) for outcome in ("fixed", "broken"))
    if fixed + broken == 0 or NARROWED & set(st.query_params):
        return "all"
    return "fixed" if fixed >= broken else "broken"


def ranks_of_runs(shown: Queries) -> Section:
    """Queries by the ranks of their true matches, in one run or in more than two; a sample of them if a run has not ranked
    the split."""
    choice = shown.choice
    several = choice.second is not None
    unranked = answers.not_ranked(choice)
    numbers = np.arange(choice.ask(Run.count, shown.modality))
    numbers = numbers[choice.inside(shown.modality, numbers)]
    every = len(numbers)
    if unranked:
        if every > SAMPLED:
            numbers = np.sort(np.random.default_rng(SEED).choice(numbers, SAMPLED, replace=False))
        ranks = choice.ask_each(Run.ranks_of, shown.direction, numbers)
    else:
        ranks = {
            name: of_run[shown.direction][numbers] for name, of_run in choice.ask_each(Run.ranks).items()
        }
    names = list(ranks)
    table = pd.DataFrame({"query": numbers, **{name: retrieval.places(ranks[name]) for name in names}})
    table = table[table[names[-1]] > 0]

    def note_sample() -> None:
        cards.note(f"Sampled {len(numbers):,} of {every:,} {UNITS[shown.modality]}. To rank all of them:")
        for run in choice.runs:
            if not run.metrics.get(choice.split):
                command = ["coder-lab", "evaluate", str(run.path), "--split", choice.split, "--rank", "all"]
                st.code(shlex.join(command), language=None, wrap_lines=True)

    def draw_list() -> np.ndarray:
        order = "Largest differences between runs first" if several else "Worst rank first"
        cards.heading("Queries by rank", order=order)
        with row():
            chosen = choose_hit(shown, table) if several else choose_missed(shown, table)
            words = search_words("words", width=140)
            filters = more_filters()

        with filters:
            band = choose_band("Rank", "to-rank")
            inside = chosen.inside & in_band(table[chosen.run].to_numpy(), band)
            queries = table[inside]
            filtered = None
            if not unranked:
                queries = only_right(shown, queries)
                filtered = choose_cause(shown)

        queries = only_of_cause(shown, filtered, queries)
        of_runs = queries[names]
        largest = of_runs.max(axis=1) - of_runs.min(axis=1) if several else of_runs[chosen.run]
        queries = queries.iloc[np.argsort(-largest.to_numpy(), kind="stable")]
        facts = {"missed": "No query is missed.", "found": "Every query is missed."}
        fact = NO_MATCH if band else facts.get(chosen.name, NO_MATCH)
        columns = shown.columns("rank", ",d", dict(zip(names, names, strict=True)))
        listed = shown.table(queries, columns, words, shown.file("ranks", chosen.name), fact=fact)
        if unranked:
            note_sample()

        return listed

    def draw_figures() -> None:
        if several and not unranked:
            count_hits(shown, table)
        cards.heading("Ranks of the true matches")
        figure = charts.rank_distribution({name: table[name].to_numpy() for name in names}, tone())
        downloads.chart(figure, "ranks", "ranks of the true matches")

    def open_bar(bar: tuple[int, int]) -> None:
        of_all = "answered-by" if several else "answer"
        band = charts.RANK_LABELS[bar[1]]
        put_all({"rank-of": names[bar[0]], "to-rank": band, of_all: "all"})

    events.on_cell(["ranks"], (len(names), BANDS), open_bar)
    return Section(draw_list, draw_figures)


@dataclass(frozen=True)
class Filter:
    """A choice of queries: its name, a bool for every query of a table, and the run whose ranks count."""

    name: str
    inside: np.ndarray
    run: str


def choose_missed(shown: Queries, table: pd.DataFrame) -> Filter:
    """Let the user choose between hits and misses of one run."""
    run = shown.choice.last.name
    name = choose_one("Show", {"missed": "Missed", "found": "Hit", "all": "All"}, "answer")
    missed = table[run].to_numpy() > shown.at
    inside = {"missed": missed, "found": ~missed, "all": missed | ~missed}
    return Filter(name, inside[name], run)


def choose_hit(shown: Queries, table: pd.DataFrame) -> Filter:
    """Let the user choose queries by the runs that hit them, and the run whose ranks count."""
    names = [run.name for run in shown.choice.runs]
    hits = table[names].to_numpy() <= shown.at
    times = hits.sum(1)
    options = {"all": times >= 0, "by all": hits.all(1), "by none": times == 0}
    options |= {f"only by {name}": hits[:, i] & (times == 1) for i, name in enumerate(names)}
    all_but_one = times == len(names) - 1
    options |= {f"by all but {name}": ~hits[:, i] & all_but_one for i, name in enumerate(names)}
    name = pick("Hit", options, "answered-by", 230, help=cards.tip("hit by"))
    return Filter(name, options[name], pick("Rank in", names, "rank-of", 200, index=len(names) - 1))


def count_hits(shown: Queries, table: pd.DataFrame) -> None:
    """Count the queries that all, some or none of several runs hit, and report whether gains may be noise."""
    hits = table[[run.name for run in shown.choice.runs]].to_numpy() <= shown.at
    every = int(hits.all(1).sum())
    none = int((~hits.any(1)).sum())
    numbers = {"by all": every, "by some": len(table) - every - none, "by none": none}
    total = len(table)
    cards.metrics(share_metric(f"hit {by}", number, total, "hit by") for by, number in numbers.items())
    alone = hits[hits.sum(1) == 1].sum(0)
    note_gains(shown, {"hit by this run alone": [f"{number:,}" for number in alone]})


def note_gains(shown: Queries, more: Mapping[str, Sequence[str]] | None = None) -> None:
    """Report whether gains in recall over the first run may be noise, on the slice if there is one."""
    recall = {f"{shown.direction}_r{shown.at}": f"{DIRECTIONS[shown.direction]} R@{shown.at}"}
    show_gains(shown.choice, recall, more)


def share_metric(label: str, number: int, total: int, term: str, colour: str = "off") -> cards.Metric:
    share = f"{100 * number / max(total, 1):.1f} %"
    return cards.Metric(label, f"{number:,}", f"of {max(total, 1):,}", term, share, colour, "off")  # type: ignore[arg-type]
