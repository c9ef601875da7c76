"""Failures of the split's own queries: rank changes, near misses, matches by judgements. Sections return an order of queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import charts, judging
from app.ask import Direction, Modality, Run, ask, ask_both, likely_matches, retrieval
from app.choice import QUERIES, Choice, bound, put, theme
from app.components import cards, downloads, events
from app.components.controls import choose_one
from app.components.glossary import tip
from app.components.selection import by_outcome, outcome_counts
from app.components.table import Column, plain_table
from app.components.words import count
from app.views.comparison import show_gains
from app.views.queries import judged_right, only_judged
from app.views.samples import NO_WORDS, holding, of_run, sample_table, search_words


def compare_runs(choice: Choice, direction: Direction, at: int, modality: Modality) -> np.ndarray:
    """Two runs: outcomes, rank changes, and the queries behind them."""
    assert choice.second is not None
    both = ask_both(retrieval.compare, choice.first, choice.second, choice.split, at=at)
    changes = both[both["direction"] == direction]
    changes = changes[choice.inside(modality, changes["query"])]
    total = max(len(changes), 1)
    cards.metrics(
        cards.Metric(
            name,
            f"{count:,}",
            f"of {total:,}",
            name,
            f"{100 * count / total:.1f} %",
            {"fixed": "green", "broken": "red"}.get(name, "off") if count else "off",  # type: ignore[arg-type]
            "off",
        )
        for name, count in outcome_counts(changes, retrieval.OUTCOMES).items()
    )
    say_gains(choice, direction, at)
    left, right = st.columns([2, 3], gap="large")
    with left:
        cards.heading(
            "Rank changes between the two runs",
            f"Number of queries by rank in both runs. Below the dotted line {choice.second.name} ranks the match "
            "higher. Click on a cell for its queries.",
        )
        figure = charts.rank_matrix(changes, choice.first.name, choice.second.name, charts.tone(theme()))
        downloads.chart(figure, "ranks", "ranks in both runs")

    def open_cell(cell: tuple[int, int]) -> None:
        put("outcome", "all")
        put("from-rank", charts.RANK_LABELS[cell[0]])
        put("to-rank", charts.RANK_LABELS[cell[1]])

    events.on_cell(["ranks"], (len(charts.RANK_LABELS),) * 2, open_cell)
    with right:
        cards.heading("Queries by outcome", "Largest change of rank first. Click on a row to open the query.")
        outcome = choose_one(
            "Show", {"all": "All", **{name: name.capitalize() for name in retrieval.OUTCOMES}}, "outcome"
        )
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            bands = [
                choose_band(of_run(choice, "Rank", run), key)
                for run, key in zip(choice.runs, ("from-rank", "to-rank"), strict=True)
            ]
            words = search_words("words")
        queries = by_outcome(changes, None if outcome == "all" else outcome)
        for column, band in zip(("rank_a", "rank_b"), bands, strict=True):
            queries = queries[in_band(queries[column].to_numpy(), band)]
        queries = only_judged(choice, direction, at, only_guessed(choice, direction, at, queries))
        columns = {
            "rank_a": Column(of_run(choice, "rank", choice.first), ",d", "rank"),
            "rank_b": Column(of_run(choice, "rank", choice.second), ",d", "rank"),
            "change": Column("gain", "+,d", "gain"),
        }
        fact = f"No query is {outcome}." if outcome != "all" and not any(bands) else "No query matches."
        return query_table(
            choice,
            modality,
            queries.drop(columns="direction"),
            columns,
            words,
            fact,
            f"ranks-{choice.split}-{direction}-{downloads.file_name(outcome)}",
        )


def ranks_of_runs(choice: Choice, direction: Direction, at: int, modality: Modality) -> np.ndarray:
    """One run, or more than two: the ranks of the true matches, and the queries behind them."""
    several, last = choice.second is not None, choice.last
    ranks = {run.name: ask(Run.ranks, run, choice.split)[direction] for run in choice.runs}
    queries = np.flatnonzero(ranks[last.name] >= 0)
    queries = queries[choice.inside(modality, queries)]
    table = pd.DataFrame({"query": queries, **{name: own[queries] + 1 for name, own in ranks.items()}})
    if several:
        count_answers(choice, direction, at, table)
    left, right = figure_and_table(choice)
    with left:
        cards.heading(
            "Ranks of the true matches",
            "The more queries on the left, the better. Click on a bar for its queries.",
        )
        figure = charts.rank_distribution(
            {name: table[name].to_numpy() for name in ranks}, charts.tone(theme())
        )
        downloads.chart(figure, "ranks", "ranks of the true matches")

    def open_bar(bar: tuple[int, int]) -> None:
        put("rank-of", choice.runs[bar[0]].name)
        put("to-rank", charts.RANK_LABELS[bar[1]])
        put("answered-by" if several else "answer", "all")

    events.on_cell(["ranks"], (len(ranks), len(charts.RANK_LABELS)), open_bar)
    with right:
        order = "The runs differ most on the first" if several else "Worst rank first"
        cards.heading("Queries by rank", f"{order}. Click on a row to open the query.")
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            if several:
                answer, inside = choose_answered(choice, table, at)
                of = str(st.selectbox("Rank in", list(ranks), len(ranks) - 1, **bound("rank-of"), width=200))
            else:
                shown = {"missed": "Missed", "found": "Answered", "all": "All"}
                answer, of = choose_one("Show", shown, "answer"), last.name
                missed = table[of].to_numpy() > at
                inside = {"missed": missed, "found": ~missed, "all": np.full(len(table), True)}[answer]
            band = choose_band("Rank", "to-rank")
            words = search_words("words")
        rows = table[inside & in_band(table[of].to_numpy(), band)]
        rows = only_judged(choice, direction, at, only_guessed(choice, direction, at, rows))
        own = rows[list(ranks)]
        largest = own.max(axis=1) - own.min(axis=1) if several else own[of]
        rows = rows.iloc[np.argsort(-largest.to_numpy(), kind="stable")]
        columns = {run.name: Column(of_run(choice, "rank", run), ",d", "rank") for run in choice.runs}
        fact = "No query matches."
        if answer in ("missed", "found") and not band:
            fact = f"No query is {'missed' if answer == 'missed' else 'answered'}."
        return query_table(
            choice,
            modality,
            rows,
            columns,
            words,
            fact,
            f"ranks-{choice.split}-{direction}-{downloads.file_name(answer)}",
        )


def count_answers(choice: Choice, direction: Direction, at: int, table: pd.DataFrame) -> None:
    """Count the queries that all, some or none of several runs answer, and report whether gains are noise."""
    right = table[[run.name for run in choice.runs]].to_numpy() <= at
    every, none, total = int(right.all(1).sum()), int((~right.any(1)).sum()), max(len(table), 1)
    shares = {"by all": every, "by some": len(table) - every - none, "by none": none}
    cards.metrics(
        cards.Metric(
            f"answered {by}",
            f"{held:,}",
            f"of {total:,}",
            "answered by",
            f"{100 * held / total:.1f} %",
            "off",
            "off",
        )
        for by, held in shares.items()
    )
    alone = [f"{int((own & (right.sum(1) == 1)).sum()):,}" for own in right.T]
    say_gains(choice, direction, at, {"answers alone": alone})


def say_gains(
    choice: Choice, direction: Direction, at: int, more: Mapping[str, Sequence[str]] | None = None
) -> None:
    """Report whether gains in recall over the first run are noise, over the slice if there is one."""
    captions = choice.captions
    label = f"{'text → image' if direction == 't2i' else 'image → text'} R@{at}"
    show_gains(choice, {f"{direction}_r{at}": label}, captions, more)


def choose_answered(choice: Choice, table: pd.DataFrame, at: int) -> tuple[str, np.ndarray]:
    """Choose by answering runs: the choice, and a bool for every query of the table."""
    right = table[[run.name for run in choice.runs]].to_numpy() <= at
    times = right.sum(1)
    options = {"all": np.full(len(table), True), "by all": right.all(1), "by none": times == 0}
    options |= {
        f"only by {run.name}": own & (times == 1) for run, own in zip(choice.runs, right.T, strict=True)
    }
    options |= {
        f"by all but {run.name}": ~own & (times == len(choice.runs) - 1)
        for run, own in zip(choice.runs, right.T, strict=True)
    }
    chosen = str(
        st.selectbox("Answered", list(options), help=tip("answered by"), **bound("answered-by"), width=230)
    )
    return chosen, options[chosen]


def figure_and_table(choice: Choice) -> Sequence[DeltaGenerator]:
    """Places for a figure and a table: side by side, or of more than two runs one below the other."""
    return [st.container(), st.container()] if choice.between else st.columns([2, 3], gap="large")


def only_guessed(choice: Choice, direction: Direction, at: int, queries: pd.DataFrame) -> pd.DataFrame:
    """The queries, or, when asked for, those that are probably right in the last run though no label says so."""
    if not st.toggle(
        f"Only probably right in {cards.literal(choice.last.name)}",
        False,
        help=tip("likely"),
        **bound("likely"),
    ):
        return queries
    sentences, guesses = [], None
    modality: Modality = "text" if direction == "t2i" else "image"
    for run in choice.runs:
        guesses = likely_matches(run, choice.split, direction)
        if guesses is None:
            cards.note("These captions share hardly any words, so no matches can be guessed from them.")
            return queries
        labelled, with_likely = guesses.recall(at, queries=choice.samples(modality))
        sentences.append(
            f"{run.name} {labelled:.1f} % by the labels, {with_likely:.1f} % with likely matches"
        )
    assert guesses is not None
    unit = "captions" if modality == "text" else "images"
    sampled, of = guesses.queries, ""
    if sampled is not None:
        of = f" from a random sample of {len(sampled):,} of {len(guesses.ranks):,} {unit}, which the table holds"
    if np.isnan(labelled):  # of the slice
        cards.note(f"There is no such query{of}.")
    else:
        cards.note(f"R@{at}, a guess{of}: " + " · ".join(sentences) + ".")
    return queries[guesses.probably_right(at)[queries["query"].to_numpy()]]


def choose_band(label: str, key: str) -> str:
    """A band of ranks; "" for all."""
    bands = ["all", *charts.RANK_LABELS]
    band = str(st.selectbox(cards.literal(label), bands, **bound(key), width=150))
    return "" if band == "all" else band


def in_band(ranks: np.ndarray, band: str) -> np.ndarray:
    """Bool for every rank (from 1): True inside the band; all True for ""."""
    if not band:
        return np.ones(len(ranks), dtype=bool)
    return np.asarray(charts.rank_band(ranks) == charts.RANK_LABELS.index(band))


def query_table(
    choice: Choice,
    modality: Modality,
    queries: pd.DataFrame,
    columns: Mapping[str, Column],
    words: str,
    fact: str,
    file: str,
    height: int = 420,
) -> np.ndarray:
    """The table of queries that hold the words; returns them in the order shown. `fact` is said without a query."""
    if not len(queries):
        cards.empty(fact, "Show others, or choose another number of results.")
        return np.zeros(0, dtype=np.int64)
    numbers = queries["query"].to_numpy()
    rows = holding(choice, modality, numbers, words)
    if not len(rows):
        cards.empty(*NO_WORDS)
        return np.zeros(0, dtype=np.int64)
    return sample_table(
        choice,
        modality,
        numbers[rows],
        queries.iloc[rows].drop(columns="query"),
        columns,
        target=f"query-{modality}",
        key=f"queries-{modality}-{'-'.join(columns)}",
        file=file,
        height=height,
    )


def near_misses(choice: Choice, direction: Direction, modality: Modality) -> np.ndarray:
    """Queries whose match loses, or wins, by a small margin."""
    tables = {
        run.name: ask(
            retrieval.margins, run, choice.split, direction, sample=ask(Run.sample, run, choice.split)
        )
        for run in choice.runs
    }
    tables = {name: table[choice.inside(modality, table["query"])] for name, table in tables.items()}
    last, sample = choice.last, ask(Run.sample, choice.last, choice.split)
    table = tables[last.name].copy(deep=False)
    others = [run for run in choice.runs[:-1] if len(tables[run.name]) == len(table)]
    for run in others:
        table[f"margin {run.name}"] = tables[run.name]["margin"]
    left, right = figure_and_table(choice)
    with left:
        cards.heading(
            "Margins of the true matches",
            "Similarity of the true match minus that of the closest wrong candidate. Left of the line a wrong "
            f"candidate ranks first. Click on a bar to open a query with that margin in {last.name}.",
        )
        margins = {name: values["margin"].to_numpy() for name, values in tables.items()}
        figure = charts.margin_histogram(margins, charts.tone(theme()))
        downloads.chart(figure, "margins", "margins of the matches")
        if sample is not None:
            queries = sample.texts if direction == "t2i" else sample.images
            drawn = count(len(queries), "random query", "random queries")
            cards.note(f"{drawn} of the split; their candidates are the whole split.")

    def open_margin(bar: tuple[int, int]) -> None:
        distance = (table["margin"] - float(figure.data[bar[0]].x[bar[1]])).abs().to_numpy()
        nearest = table.iloc[int(np.nanargmin(distance))]
        put("calls", "lost" if nearest["rank"] > 1 else "held")
        put("words", "")
        put(f"query-{modality}", int(nearest["query"]))

    bins = len(figure.data[0].x) if len(figure.data) else 0
    events.on_cell(["margins"], (len(figure.data), bins), open_margin)
    with right:
        cards.heading("Smallest margins", "A small change of the model would change these results.")
        with st.container(horizontal=True, vertical_alignment="bottom", gap="medium"):
            side = choose_one(
                "Show", {"lost": "Just missed", "held": "Just answered"}, "calls", tip("margin")
            )
            words = search_words("words")
        missed = (table["rank"] > 1).to_numpy()
        queries = table[missed == (side == "lost")]
        queries = queries.iloc[np.argsort(queries["margin"].abs().to_numpy(), kind="stable")]
        columns = {
            "margin": Column(of_run(choice, "margin", last), "+.4f", "margin"),
            "rank": Column(of_run(choice, "rank", last), ",d", "rank"),
        }
        for run in others:
            columns[f"margin {run.name}"] = Column(of_run(choice, "margin", run), "+.4f", "margin")
        file = f"margins-{choice.split}-{direction}-{side}"
        return query_table(choice, modality, queries, columns, words, "No query matches.", file)


def unlabelled_matches(
    choice: Choice, source: judging.Source, direction: Direction, at: int, modality: Modality
) -> np.ndarray:
    """Recall by the judgements, and the failures of the last run that are none by them; returns their order."""
    show_recall(choice, source)
    last = choice.last
    cards.heading(
        f"Failures of {last.name} that the judges call right",
        f"No labelled match within the first {at}, but a judged one. Worst rank of the label first. "
        "Click on a row to open the query.",
    )
    words = search_words("words")
    queries = np.flatnonzero(judged_right(source, choice, direction, at))
    queries = queries[choice.inside(modality, queries)]
    table = pd.DataFrame({"query": queries})
    for run in choice.runs:
        table[run.name] = ask(Run.ranks, run, choice.split)[direction][queries] + 1
    table = table.iloc[np.argsort(-table[last.name].to_numpy(), kind="stable")]
    columns = {run.name: Column(of_run(choice, "rank", run), ",d", "rank") for run in choice.runs}
    fact, file = "No such failure exists.", f"judged-right-{choice.split}-{direction}"
    return query_table(choice, modality, table, columns, words, fact, file)


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
    table = judging.judged_recall(source, choice.runs, queries)
    table["direction"] = table["direction"].map({"i2t": "image → text", "t2i": "text → image"})
    columns = {"direction": Column("direction"), "run": Column("run"), "queries": Column("queries", ",d")}
    for names, by, term in ((judging.LABELLED, "labels", "R@K"), (judging.JUDGED, "judges", "judged R@K")):
        columns |= {name: Column(f"{by} R@{name.rpartition('_')[2]}", ".1f", term) for name in names}
    columns |= {
        "map_at_r": Column("mAP@R", ".1f", "mAP@R"),
        "r_precision": Column("R-Prec.", ".1f", "R-Precision"),
    }
    table = table[list(columns)]
    plain_table(table, columns, "judged-recall", "rows")
    cards.note(
        f"{source.place}: {source.fact}." if source.place != source.key else f"{source.label}: {source.fact}."
    )
    content = table.rename(columns={name: column.label for name, column in columns.items()})
    downloads.table(content, f"judged-{choice.split}-{downloads.file_name(source.key)}")
