"""Contents of a report about runs on a split: plain values and pictures, ready for its template."""

from __future__ import annotations

import base64
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd

from coder_core.api.clusters.tables import cluster_table, prototypes
from coder_core.api.listing import ORIGINS, numbers_from
from coder_core.api.retrieval.comparison import OUTCOMES, compare, config_differences
from coder_core.api.retrieval.judged import JUDGED, LABELLED, judged_recall, judged_values, run_judgements
from coder_core.api.retrieval.likely import likely_matches, text_vectors
from coder_core.api.retrieval.margins import margins
from coder_core.api.retrieval.significance import gain_in_words, hits_of
from coder_core.api.reviews import ReviewedSplit, Reviews, reviewed_recall
from coder_core.api.run import Run
from coder_core.api.slices import slice_columns, slice_table, usual_slices
from coder_core.evaluation.bootstrap import recall_intervals

PICTURE_SIZE = 220  # pixels of the longer side
EXAMPLES = 6  # of every kind of failure
SLICES, CLUSTERS, AMBIGUOUS = 14, 12, 12
BANDS = (1, 5, 10, 50)  # ranks up to these make a band; the last is open
LABELS = ("1", "2–5", "6–10", "11–50", "over 50")
DIRECTIONS = {"i2t": "image→text", "t2i": "text→image"}
RECALLS = [f"{way} R@{k}" for way in DIRECTIONS.values() for k in (1, 5, 10)] + ["R@sum"]


@dataclass(frozen=True)
class Example:
    """One caption as a query. picture, answer: data URLs or ""; answer is the best image that is not its own."""

    caption: str
    own: str
    picture: str
    answer_name: str
    answer: str
    fact: str


@dataclass(frozen=True)
class Report:
    """Everything the template needs.

    Args:
        question: what the report answers. title: of the page. short: sentences, the findings first.
        data: facts about the split. recalls: one row a run, (mean, low, high) under `RECALLS`.
        gains: sentences on R@sum of each run against the first.
        outcomes: direction → outcome → queries. bands: direction → 5 × 5 queries by rank in the first and last run.
        moved: direction → whether the gain of R@1 is noise.
        examples: heading → examples. slices, clusters, ambiguous, settings: tables; settings is None for one run.
        diversity: counts of captions by diversity in twentieths from the least to 1, and the least; None where the
            split is too large to measure all.
        judged: source of judgements → recall by the labels and by them.
        reviews: facts about judged pairs. commands: how to get each run, and this report.
    """

    question: str
    title: str
    short: Sequence[str]
    data: Mapping[str, str]
    recalls: pd.DataFrame
    gains: Sequence[str]
    outcomes: Mapping[str, Mapping[str, int]]
    bands: Mapping[str, np.ndarray]
    moved: Mapping[str, str]
    examples: Mapping[str, Sequence[Example]]
    slices: pd.DataFrame
    clusters: pd.DataFrame
    ambiguous: pd.DataFrame
    diversity: tuple[Sequence[int], float] | None
    settings: pd.DataFrame | None
    commands: Sequence[tuple[str, str]]
    versions: str
    reviews: Mapping[str, str] = field(default_factory=dict)
    judged: Mapping[str, pd.DataFrame] = field(default_factory=dict)


def gather(
    runs: Sequence[Run],
    split: str,
    *,
    question: str = "",
    command: str = "",
    reviews: Reviews | None = None,
    positives: Sequence[str | Path] = (),
) -> Report:
    """Gather the report on one or several runs of the same samples; the last is the one that is judged.

    Args:
        positives: sources of judgements beyond the labels, see `run_judgements`.

    Raises:
        InputError: the split is missing in a run, the runs were evaluated on different samples, or a source of
            judgements cannot be read.
    """
    first, last = runs[0], runs[-1]
    changes = compare(first, last, split) if len(runs) > 1 else None
    gains = [gain_in_words(first, run, split) for run in runs[1:]]
    slices = _slices(runs, split)
    diversity = last.diversity(split) if last.sample(split) is None else None
    names = (
        " and ".join([", ".join(run.name for run in runs[:-1]), last.name]) if len(runs) > 1 else last.name
    )
    return Report(
        question=question
        or (
            f"Does {last.name} retrieve better than {first.name}, and where does it still fail?"
            if len(runs) > 1
            else f"Where does {last.name} fail?"
        ),
        title=f"{names} on {split}",
        short=[*gains, *_moved(changes), *_worst(slices, last.name)],
        data=_data(last, split),
        recalls=_recalls(runs, split),
        gains=gains,
        outcomes=_outcomes(changes),
        bands=_bands(changes),
        moved={label: gain_in_words(first, last, split, f"{way}_r1") for way, label in DIRECTIONS.items()},
        examples=_examples(last, split, changes),
        slices=slices.head(SLICES),
        clusters=_clusters(last, split),
        ambiguous=_ambiguous(last, split, diversity),
        diversity=_twentieths(diversity),
        settings=config_differences({run.name: run.summary.config for run in runs})
        if len(runs) > 1
        else None,
        commands=[*((run.name, _command(run)) for run in runs), ("this report", command)],
        versions=f"Python {platform.python_version()}, NumPy {np.__version__}",
        reviews=_reviews(runs, split, reviews) if reviews is not None and reviews.standing else {},
        judged=dict(_judged(runs, split, source) for source in positives),
    )


def _judged(runs: Sequence[Run], split: str, source: str | Path) -> tuple[str, pd.DataFrame]:
    judgements = run_judgements(runs[-1], split, source)
    table = judged_recall([run.name for run in runs], [judged_values(run, split, judgements) for run in runs])
    table["direction"] = table["direction"].map(DIRECTIONS)
    names = {name: f"{name.partition('_')[0]} R@{name.rpartition('_')[2]}" for name in (*LABELLED, *JUDGED)}
    names |= {"map_at_r": "mAP@R", "r_precision": "R-Precision"}
    columns = ["direction", "run", "queries", *names]
    return Path(judgements.source).name, table[columns].round(1).rename(columns=names)


def _moved(changes: pd.DataFrame | None) -> list[str]:
    if changes is None:
        return []
    counts = changes[changes["direction"] == "t2i"]["outcome"].value_counts()
    fixed, broken = int(counts.get("fixed", 0)), int(counts.get("broken", 0))
    return [f"{fixed:,} captions find their image first only in the last run, {broken:,} only in the first."]


def _worst(slices: pd.DataFrame, name: str) -> list[str]:
    worst = slices[slices["excess misses"] > 0].head(1)
    return [
        f"{name} misses most beyond its average where “{expression}”: R@1 {recall[0]:.1f} %, {excess:.0f} misses more "
        "than at its overall recall (on images the slice was not chosen by)."
        for expression, excess, recall in zip(
            worst["expression"], worst["excess misses"], worst["R@1"], strict=True
        )
    ]


def _reviews(runs: Sequence[Run], split: str, reviews: Reviews) -> dict[str, str]:
    """Verdicts on the split, and every run's recall by the labels and as the verdicts correct them."""
    counts = Counter(review.verdict for review in reviews.standing)
    facts = {
        "verdicts": ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common()),
        "by": ", ".join(sorted(reviews.by_reviewer)),
        "fingerprint": reviews.fingerprint()[:16],
    }
    for run in runs:
        table = reviewed_recall(run, split, ReviewedSplit.of(run, split), reviews)
        recalls = [
            f"{DIRECTIONS[str(row.direction)]} R@1 {row.labels_1:.1f} % by the labels, {row.reviewed_1:.1f} % reviewed "
            f"(difference: 95% interval {row.low_1:+.1f} to {row.high_1:+.1f})"
            for row in table[table["queries"] == "all"].itertuples()
        ]
        facts[run.name] = "; ".join(recalls)
    return facts


def _data(run: Run, split: str) -> dict[str, str]:
    analysis = run.analysis(split)
    files = analysis.manifest["files"]
    return {
        "split": split,
        "images": f"{analysis.n_images:,}",
        "captions": f"{analysis.n_texts:,}",
        "source": str(analysis.manifest.get("source", "")) or "not noted",
        "captions, sha256": str(files.get("captions.json", {}).get("sha256", ""))[:16],
    }


def _recalls(runs: Sequence[Run], split: str) -> pd.DataFrame:
    rows = {}
    for run in runs:
        intervals = recall_intervals(hits_of(run, split)).tolist()
        rows[run.name] = [ORIGINS[numbers_from(run.summary)], *map(tuple, intervals)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["what it is", *RECALLS])


def _outcomes(changes: pd.DataFrame | None) -> dict[str, dict[str, int]]:
    if changes is None:
        return {}
    return {
        label: {
            name: int(((changes["direction"] == way) & (changes["outcome"] == name)).sum())
            for name in OUTCOMES
        }
        for way, label in DIRECTIONS.items()
    }


def _bands(changes: pd.DataFrame | None) -> dict[str, np.ndarray]:
    if changes is None:
        return {}
    tables = {}
    for way, label in DIRECTIONS.items():
        own = changes[changes["direction"] == way]
        bands = [np.searchsorted(BANDS, own[column].to_numpy()) for column in ("rank_a", "rank_b")]
        tables[label] = np.zeros((len(LABELS), len(LABELS)), np.int64)
        np.add.at(tables[label], tuple(bands), 1)
    return tables


def _examples(run: Run, split: str, changes: pd.DataFrame | None) -> dict[str, list[Example]]:
    captions, owner, names = run.captions(split), run.image_of_text(split), run.image_names(split)
    table = margins(run, split, "t2i", sample=run.sample(split)).set_index("query")
    rows: dict[int, dict[str, float]] = table.to_dict("index")  # type: ignore[assignment]

    @cache
    def picture(image: int) -> str:
        content = run.picture(split, image, PICTURE_SIZE)
        return "" if content is None else f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"

    def example(query: int) -> Example:
        row = rows[query]
        wrong, own = int(row["wrong"]), int(owner[query])
        fact = f"rank {int(row['rank']):,} · similarity {row['match_score']:.3f}, wrong image {row['wrong_score']:.3f}"
        if changes is not None:
            before = changes[(changes["direction"] == "t2i") & (changes["query"] == query)]["rank_a"]
            fact = f"rank {int(before.iloc[0]):,} → {fact[5:]}"
        return Example(captions[query], names[own], picture(own), names[wrong], picture(wrong), fact)

    missed = table[table["rank"] > 1]
    kinds: dict[str, Sequence[int]] = {}
    if changes is not None:
        own = changes[(changes["direction"] == "t2i") & changes["query"].isin(table.index)]
        for outcome, ascending in (("broken", True), ("fixed", False)):
            moved = own[own["outcome"] == outcome].sort_values("change", ascending=ascending)
            heading = "Right first, then wrong" if outcome == "broken" else "Wrong first, then right"
            kinds[heading] = moved["query"].head(EXAMPLES).tolist()
    kinds["Furthest misses"] = (
        missed.sort_values("rank", ascending=False, kind="stable").head(EXAMPLES).index.tolist()
    )
    kinds["Near misses"] = (
        missed.sort_values("margin", ascending=False, kind="stable").head(EXAMPLES).index.tolist()
    )
    if run.sample(split) is None and (vectors := text_vectors(run, split)) is not None:
        guesses = likely_matches(run, split, "t2i", vectors)
        likely = [
            query for query in np.flatnonzero(guesses.probably_right(1)).tolist() if query in missed.index
        ]
        kinds["Probably right, though no label says so (a guess from the captions)"] = likely[:EXAMPLES]
    return {
        heading: [example(int(query)) for query in queries]
        for heading, queries in kinds.items()
        if len(queries)
    }


def _slices(runs: Sequence[Run], split: str) -> pd.DataFrame:
    columns = slice_columns(runs[-1], split)
    table = slice_table(runs, split, "t2i", 1, usual_slices(columns), columns)
    last = len(runs) - 1
    if not len(table):
        return pd.DataFrame(columns=["expression", "queries", "excess misses", "R@1"])
    shown = table[["expression", "queries"]].copy()
    shown["excess misses"] = table["excess"].round(1)
    shown["R@1"] = _intervals(table, f"recall_{last}", f"low_{last}", f"high_{last}")
    if last:
        shown["gain"] = _intervals(table, "gain", "gain_low", "gain_high")
    return shown


def _intervals(table: pd.DataFrame, mean: str, low: str, high: str) -> pd.Series:
    return pd.Series(list(table[[mean, low, high]].itertuples(index=False, name=None)), table.index)


def _clusters(run: Run, split: str) -> pd.DataFrame:
    clusters = prototypes(run, split)
    if clusters is None:
        return pd.DataFrame()
    table = cluster_table(run, split, clusters).head(CLUSTERS)
    return table[["cluster", "size", "images", "agreement", "cohesion", "words"]].round(
        {"agreement": 1, "cohesion": 3}
    )


def _ambiguous(run: Run, split: str, diversity: pd.DataFrame | None) -> pd.DataFrame:
    if diversity is None:
        return pd.DataFrame()
    lowest = diversity.sort_values("spread", kind="stable").head(AMBIGUOUS)
    captions = run.captions(split)
    texts = [captions[anchor] for anchor in lowest["anchor"]]
    return lowest[["diversity", "rank"]].round(3).assign(caption=texts)[["caption", "diversity", "rank"]]


def _twentieths(diversity: pd.DataFrame | None) -> tuple[list[int], float] | None:
    if diversity is None:
        return None
    values = diversity["diversity"].to_numpy()
    edges = np.linspace(values.min(), max(values.max(), values.min() + 1e-9), 21)
    return [
        int(((values >= a) & ((values < b) | (b == edges[-1]))).sum()) for a, b in pairwise(edges)
    ], float(edges[0])


def _command(run: Run) -> str:
    about = run.summary.config.get("about", {})
    if isinstance(about, dict) and isinstance(about.get("command"), str):
        return str(about["command"])
    return f"embeddings that another program made, imported {run.summary.origin.get('created', '')}".strip()
