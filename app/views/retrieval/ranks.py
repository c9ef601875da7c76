"""Failures of the split's own queries: rank changes, near misses, judged matches. Sections return orders of queries."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import charts, judging, questions
from app.address import bound, put, put_all
from app.ask import Direction, Modality, Run, RunSummary, ask, ask_both, causes, likely_matches, retrieval
from app.choice import DIRECTIONS, QUERIES, UNITS, Choice
from app.components import answers, cards, downloads, events
from app.components.controls import choose_one, more_filters, pick, row, switch
from app.components.error_budget import runs_with_causes
from app.components.gains import show_gains
from app.components.samples import SampleList, of_run, sample_table, search_words
from app.components.selection import by_outcome
from app.components.table import Column, Columns, columns_of, plain_table
from app.components.theme import tone
from app.components.words import count

OUTCOME_COLOURS = {"fixed": "green", "broken": "red"}
BANDS = len(charts.RANK_LABELS)
NO_MATCH = "No query matches."
ANY_CAUSE = "any cause"
# parameters of links to queries of any outcome
NARROWED = {"cause", "likely", "judged", "from-rank", "to-rank"}
KEY = "judged-by"
RECALLS = columns_of("judged-recall")


@dataclass(frozen=True)
class Queries:
    """The queries of one modality in a section; a query is hit by a true match among the first `at` results."""

    choice: Choice
    modality: Modality
    at: int

    @property
    def direction(self) -> Direction:
        return QUERIES[self.modality]

    def columns(self, quantity: str, digits: str, names: dict[str, str], term: str = "") -> dict[str, Column]:
        """Return a column for each of these runs; `names` maps names of runs to names of columns."""
        runs = [run for run in self.choice.runs if run.name in names]
        labels = {names[run.name]: of_run(self.choice, quantity, run) for run in runs}
        return {name: Column(label, digits, term or quantity) for name, label in labels.items()}

    def table(
        self,
        rows: pd.DataFrame,
        columns: Columns,
        words: str,
        file: str,
        *,
        fact: str = NO_MATCH,
        height: int = 560,
    ) -> np.ndarray:
        """Draw the queries that contain the words as a table; return their order. `fact`: the notice if none does."""
        if not len(rows):
            cards.empty(fact, "Show others, or choose another number of results.")
            return np.zeros(0, dtype=np.int64)
        numbers = rows["query"].to_numpy()
        values = rows.drop(columns="query")
        target = f"query-{self.modality}"
        listed = SampleList(self.modality, numbers, values, columns, words, target, file, height)
        return sample_table(self.choice, listed)

    def file(self, kind: str, name: str) -> str:
        return f"{kind}-{self.choice.split}-{self.direction}-{downloads.file_name(name)}"


def share_metric(label: str, number: int, total: int, term: str, colour: str = "off") -> cards.Metric:
    share = f"{100 * number / max(total, 1):.1f} %"
    return cards.Metric(label, f"{number:,}", f"of {max(total, 1):,}", term, share, colour, "off")  # type: ignore[arg-type]


@dataclass(frozen=True)
class Section:
    """A list of queries with its controls, and the figures that explain it. `draw_list` returns the queries in the
    order shown; it is drawn again when a query is opened, and the figures are not."""

    draw_list: Callable[[], np.ndarray]
    draw_figures: Callable[[], None]


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


def show_all() -> None:
    """List queries of any outcome: the last run misses no fixed one."""
    put("outcome", "all")


def ranks_of_runs(shown: Queries) -> Section:
    """Queries by the ranks of their true matches, in one run or in more than two."""
    choice = shown.choice
    several = choice.second is not None
    ranks = {
        name: retrieval.places(ranks[shown.direction]) for name, ranks in choice.ask_each(Run.ranks).items()
    }
    names = list(ranks)
    table = pd.DataFrame(ranks).rename_axis("query").reset_index()
    table = table[(table[names[-1]] > 0) & choice.inside(shown.modality, table["query"])]
    unranked = answers.not_ranked(choice)

    def draw_list() -> np.ndarray:
        if unranked:
            command = f"coder-lab evaluate {choice.last.path} --split {choice.split} --rank all"
            cards.empty(f"{unranked}.", f"To list its misses: {command}")
            return np.zeros(0, dtype=np.int64)
        order = "Largest differences between runs first" if several else "Worst rank first"
        cards.heading("Queries by rank", order=order)
        with row():
            chosen = choose_hit(shown, table) if several else choose_missed(shown, table)
            words = search_words("words", width=140)
            filters = more_filters()
        with filters:
            band = choose_band("Rank", "to-rank")
            inside = chosen.inside & in_band(table[chosen.run].to_numpy(), band)
            queries = only_right(shown, table[inside])
            filtered = choose_cause(shown)
        queries = only_of_cause(shown, filtered, queries)
        of_runs = queries[names]
        largest = of_runs.max(axis=1) - of_runs.min(axis=1) if several else of_runs[chosen.run]
        queries = queries.iloc[np.argsort(-largest.to_numpy(), kind="stable")]
        facts = {"missed": "No query is missed.", "found": "Every query is missed."}
        fact = NO_MATCH if band else facts.get(chosen.name, NO_MATCH)
        columns = shown.columns("rank", ",d", dict(zip(names, names, strict=True)))
        return shown.table(queries, columns, words, shown.file("ranks", chosen.name), fact=fact)

    def draw_figures() -> None:
        if unranked:
            return
        if several:
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


def near_misses(shown: Queries) -> Section:
    """Queries whose true match loses, or wins, by a small margin."""
    choice = shown.choice
    direction = shown.direction
    last = choice.last
    samples = choice.ask_each(Run.sample)
    tables = {}
    for run in choice.runs:
        table = ask(retrieval.margins, run, choice.split, direction, sample=samples[run.name])
        tables[run.name] = table[choice.inside(shown.modality, table["query"])]
    table = tables[last.name].copy(deep=False)
    beside = {name: f"margin {name}" for name in list(tables)[:-1] if len(tables[name]) == len(table)}
    for name, column in beside.items():
        table[column] = tables[name]["margin"]
    margins = {name: values["margin"].to_numpy() for name, values in tables.items()}
    figure = charts.margin_histogram(margins, tone())

    def draw_list() -> np.ndarray:
        cards.heading("Smallest margins")
        with row():
            sides = {"lost": "Narrow misses", "held": "Narrow hits"}
            side = choose_one("Show", sides, "calls", cards.tip("margin"))
            words = search_words("words")
        queries = table[(table["rank"] > 1).to_numpy() == (side == "lost")]
        queries = queries.iloc[np.argsort(queries["margin"].abs().to_numpy(), kind="stable")]
        columns = shown.columns("margin", "+.4f", {last.name: "margin"})
        columns |= shown.columns("rank", ",d", {last.name: "rank"})
        columns |= shown.columns("margin", "+.4f", beside)
        return shown.table(queries, columns, words, shown.file("margins", side))

    def draw_figures() -> None:
        cards.heading("Margins of the true matches", last=last.name)
        downloads.chart(figure, "margins", "margins of the matches")
        sample = samples[last.name]
        if sample is not None:
            queries = sample.texts if direction == "t2i" else sample.images
            drawn = count(len(queries), "random query", "random queries")
            cards.note(f"{drawn} of the split are shown; their candidates are the whole split.")

    def open_margin(bar: tuple[int, int]) -> None:
        distance = (table["margin"] - float(figure.data[bar[0]].x[bar[1]])).abs().to_numpy()
        nearest = table.iloc[int(np.nanargmin(distance))]
        side = "lost" if nearest["rank"] > 1 else "held"
        number = int(nearest["query"])
        put_all({"calls": side, "words": "", f"query-{shown.modality}": number})

    bins = len(figure.data[0].x) if len(figure.data) else 0
    events.on_cell(["margins"], (len(figure.data), bins), open_margin)
    return Section(draw_list, draw_figures)


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
