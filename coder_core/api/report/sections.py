"""Contents of a report about runs on a split: its sections as plain values and pictures."""

import base64
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coder_core.api.clusters import cluster_table, prototypes
from coder_core.api.listing import ORIGINS, numbers_from
from coder_core.api.report.gate import RULE, GateResult
from coder_core.api.report.misses import section_on_misses
from coder_core.api.report.page import Report, Section
from coder_core.api.retrieval import comparison, judged
from coder_core.api.retrieval.results import likely_matches, margins, text_vectors
from coder_core.api.retrieval.several import several_metrics
from coder_core.api.reviews import ReviewedSplit, Reviews, reviewed_recall
from coder_core.api.run import Run
from coder_core.api.sides import DIRECTIONS
from coder_core.api.slices.table import Queries, counted_columns, slice_table, slices_by, usual_slices
from coder_core.console.faults import InputError
from coder_core.evaluation.bootstrap import count_hits, mean_intervals, recall_intervals
from coder_core.evaluation.metrics import RECALL_AT, label_values

PICTURE_SIZE = 220  # pixels of the longer side
EXAMPLES = 6  # per kind of failure
SLICES = 14
CLUSTERS = 12
AMBIGUOUS = 12
BANDS = (1, 5, 10, 50)  # ranks up to these make a band; the last is open
LABELS = ("1", "2–5", "6–10", "11–50", "over 50")

RECALL = """R@K is the percentage of queries with a true match among the first K results; MRR and nDCG@10, also in
percent, use the labels as grades. Intervals are 95% confidence intervals from a bootstrap over images. Differences, below,
use a paired bootstrap: their intervals are narrower than those of the two runs suggest."""
JUDGED = """R@K by the labels alone, and by the labels and the matches that people found, over the same queries. R is the
number of a query’s matches; mAP@R and R-Precision measure how many of them are found."""
GRADED = """Metrics of graded judgments as trec_eval defines them, in percent, with the 95% intervals of a bootstrap over
queries, the captions of an image drawn together. Among equal scores, relevant documents are ranked last."""
SEVERAL = """Metrics by the labels, in which every caption has one right image, and by groups or equal texts, in which it is
right for all images of its group, or for all images that have the same text."""
MOVED = """Queries by rank of their true match in the first run (rows) and in the last (columns). Below the diagonal,
green, the last run ranks it higher."""
FAILURES = """Captions as queries. Left, in green: the image that belongs to the caption. Right: the best-ranked other image."""
SLICED = """Groups of captions by content. One half of the images selects the slices with the most excess misses; the order
of the rows and all numbers come from the other half: text→image R@1 (with a 95% interval over images), MRR and nDCG@10 of
the last run, in percent. """
NOISE = "A gain whose interval contains zero may be noise."
CLUSTERED = """The largest prototypes of the last run: size in pairs, share of pairs whose image and caption fall
into the same cluster, mean cosine to the centroid, and distinctive words."""
AMBIGUITY = """CODER’s diversity of every caption (eq. 3): low means that it is about equally similar to many images.
The smallest is {:.3f}, the largest 1."""


@dataclass(frozen=True)
class Supplements:
    """What a report contains besides what the runs stored."""

    question: str = ""  # the heading; "" for the usual question
    command: str = ""  # the command that writes the report again
    reviews: Reviews | None = None
    positives: Sequence[str | Path] = ()  # sources of judgments beyond the labels, see `run_judgements`
    gate: GateResult | None = None  # from `check_gate`, shown first
    by: Sequence[
        str
    ] = ()  # columns whose slices are listed, all of them; () for the worst of the usual slices


def gather(runs: Sequence[Run], split: str, supplements: Supplements | None = None) -> Report:
    """Gather the report on one or several runs of the same samples; the last is the one under review. InputError: a run
    lacks the split, the samples differ, or a source of judgments cannot be read."""
    extra = supplements or Supplements()
    first = runs[0]
    last = runs[-1]
    several = len(runs) > 1
    changes = comparison.compare(first, last, split) if several else None
    gains = [comparison.gain_in_words(first, run, split) for run in runs[1:]]
    slices = _slices(runs, split, extra.by)
    of_misses, fixes = section_on_misses(runs, split, extra.reviews, extra.positives)
    sections = [
        *([] if extra.gate is None else [Section("Gate", RULE, [("table", extra.gate.table())])]),
        Section("Data", "", [("facts", _data(last, split))]),
        Section("Recall", RECALL, [*_recalls(runs, split), ("sentences", gains[1:] and gains)]),
        *(_judged(runs, split, source) for source in extra.positives),
        *_several(runs, split),
        *_graded(runs, split),
        *([] if changes is None else [Section("What changed", MOVED, _moved(first, last, split, changes))]),
        of_misses,
        Section("Typical failures", FAILURES, list(_failures(last, split, changes))),
        Section(
            "Slices",
            SLICED + (NOISE if "gain" in slices else ""),
            [("table", slices.round({"excess misses": 1}))],
        ),
        *_clusters(last, split),
        *_ambiguity(last, split),
    ]
    if extra.reviews is not None and extra.reviews.standing:
        sections.append(Section("Reviews", "", [("facts", _reviews(runs, split, extra.reviews))]))
    if several:
        settings = comparison.config_differences({run.name: run.config for run in runs})
        settings = settings.rename_axis("setting")
        blocks = [("table", settings) if len(settings) else ("sentences", ["None."])]
        sections.append(Section("Settings that differ", "", blocks))

    commands = [*((run.name, _command(run)) for run in runs), ("this report", extra.command)]
    sections.append(Section("How to reproduce", "", [("commands", commands)]))
    sentences = [] if extra.gate is None else [extra.gate.sentence()]
    compared = f"Does {last.name} retrieve better than {first.name}, and where does it still fail?"
    names = " and ".join(filter(None, [", ".join(run.name for run in runs[:-1]), last.name]))
    return Report(
        question=extra.question or (compared if several else f"Where does {last.name} fail?"),
        title=f"{names} on {split}",
        short=[*sentences, *gains, *_worse_than_start(runs), *_short(changes, slices, last.name), fixes],
        sections=sections,
        versions=f"Python {platform.python_version()}, NumPy {np.__version__}",
    )


def _worse_than_start(runs: Sequence[Run]) -> Iterator[str]:
    """Yield a warning for every run whose best epoch is worse on dev than the model it started from."""
    for run in runs:
        warning = run.dev_progress.kept
        if warning is not None:
            yield str(warning)


def _short(changes: pd.DataFrame | None, slices: pd.DataFrame, name: str) -> Iterator[str]:
    """Yield sentences on queries that moved, and on the worst slice if it has a miss too many, beyond noise."""
    if changes is not None:
        counts = changes[changes["direction"] == "t2i"]["outcome"].value_counts()
        fixed, broken = (int(counts.get(outcome, 0)) for outcome in ("fixed", "broken"))
        yield f"{fixed:,} captions are hits only in the last run, {broken:,} only in the first."
    for label, queries, excess, (recall, low, high) in slices.iloc[:1, :4].itertuples(index=False, name=None):
        if excess >= 1 and high < recall + 100 * excess / queries:
            misses = (
                f"{excess:.0f} more {'miss' if round(excess) == 1 else 'misses'} than overall recall predicts"
            )
            interval = f"95% interval {low:.1f} to {high:.1f}"
            yield f"The worst slice of {name}: {label}, R@1 {recall:.1f} % ({interval}), {misses}."


def _data(run: Run, split: str) -> dict[str, str]:
    analysis = run.analysis(split)
    captions = analysis.manifest["files"].get("captions.json", {})
    return {
        "split": split,
        "images": f"{analysis.n_images:,}",
        "captions": f"{analysis.n_texts:,}",
        **({"queries ranked": run.summary.sampled[split]} if split in run.summary.sampled else {}),
        "source": str(analysis.manifest.get("source", "")) or "not recorded",
        "captions, sha256": str(captions.get("sha256", ""))[:16],
    }


def _recalls(runs: Sequence[Run], split: str) -> list[tuple[str, Any]]:
    """Return two tables, with (mean, low, high) for each number: origin and R@sum of each run; R@K, MRR and nDCG@10 of
    each direction and run."""
    sums = []
    rows = []
    columns = [*(f"R@{k}" for k in RECALL_AT), "MRR", "nDCG@10"]
    for run in runs:
        ranks = run.ranks(split)
        owner = run.image_of_text(split)
        *recalls, total = map(tuple, recall_intervals(count_hits(ranks["i2t"], ranks["t2i"], owner)).tolist())
        both = all((ranks[way] >= 0).any() for way in DIRECTIONS)
        of_sum = total if both else None  # another system's lists may be of one direction
        sums.append({"run": run.name, "origin": ORIGINS[numbers_from(run.summary)], "R@sum": of_sum})
        for way, values in label_values(run.analysis(split), owner).items():
            asking = np.flatnonzero(ranks[way] >= 0)
            if not len(asking):
                continue
            images = asking if way == "i2t" else owner[asking]
            graded = map(tuple, (100 * mean_intervals(values[asking], images)).tolist())
            of_way = recalls[:3] if way == "i2t" else recalls[3:]
            numbers = dict(zip(columns, [*of_way, *graded], strict=True))
            rows.append({"direction": way, "run": run.name, **numbers})

    table = pd.DataFrame(rows).sort_values("direction", kind="stable")
    table["direction"] = table["direction"].map(DIRECTIONS)
    return [("table", pd.DataFrame(sums).set_index("run")), ("table", table)]


def _several(runs: Sequence[Run], split: str) -> list[Section]:
    """Return a section with the metrics by group and by equal texts that runs stored, beside those by the labels; none
    without any."""
    rows = []
    for run in runs:
        widened = several_metrics(run, split)
        for by, metrics in {"labels": run.metrics[split], **widened}.items() if widened else ():
            recalls = {
                f"{label} R@{k}": metrics.get(f"{way}_r{k}")
                for way, label in DIRECTIONS.items()
                for k in RECALL_AT
            }
            rows.append({"run": run.name, "by": by, **recalls, "R@sum": metrics.get("rsum")})
    if not rows:
        return []
    return [Section("Several right answers", SEVERAL, [("table", pd.DataFrame(rows).round(1))])]


def _judged(runs: Sequence[Run], split: str, source: str | Path) -> Section:
    judgements = judged.run_judgements(runs[-1], split, source)
    values = [judged.judged_values(run, split, judgements) for run in runs]
    table = judged.judged_recall([run.name for run in runs], values)
    table["direction"] = table["direction"].map(DIRECTIONS)
    names = {**judged.LABELLED, **judged.JUDGED, "map_at_r": "mAP@R", "r_precision": "R-Precision"}
    table = table[["direction", "run", "queries", *names]].round(1).rename(columns=names)
    return Section(f"By the judgments of {Path(judgements.source).name}", JUDGED, [("table", table)])


def _graded(runs: Sequence[Run], split: str) -> Iterator[Section]:
    evaluations = {}
    faults = []
    for run in runs:
        try:
            evaluations[run.name] = judged.graded_evaluations(run, split)
        except InputError as error:
            faults.append(f"{run.name}: {error}")
    for result, table in judged.graded_tables(evaluations):
        table["direction"] = table["direction"].map(DIRECTIONS)
        facts = [f"{result.fact}. sha256 of the file: {result.sha256[:16]}"]
        yield Section(f"Judged by {result.file}", GRADED, [("table", table), ("sentences", facts)])
    if faults:
        yield Section("Damaged metrics of judgments", "", [("sentences", faults)])


def _moved(first: Run, last: Run, split: str, changes: pd.DataFrame) -> list[tuple[str, Any]]:
    tables = []
    for direction, name in DIRECTIONS.items():
        moved = changes[changes["direction"] == direction]
        if moved.empty:  # one run has no lists of this direction
            continue
        counts = np.zeros((len(LABELS), len(LABELS)), np.int64)
        np.add.at(counts, tuple(np.searchsorted(BANDS, moved[rank]) for rank in ("rank_a", "rank_b")), 1)
        outcomes = moved["outcome"].value_counts()
        shown = " · ".join(f"{outcome} {outcomes.get(outcome, 0):,}" for outcome in comparison.OUTCOMES)
        gain = comparison.gain_in_words(first, last, split, f"{direction}_r1")
        tables.append({"heading": name, "labels": LABELS, "counts": counts, "outcomes": shown, "gain": gain})
    return [("bands", tables)]


def _failures(run: Run, split: str, changes: pd.DataFrame | None) -> Iterator[tuple[str, Any]]:
    """Yield headings and examples of every kind of failure; a sentence for the lists of another system."""
    if run.lists(split) is not None:
        yield (
            "sentences",
            [f"{run.name} {run.without_embeddings(split)}: its failures are on the Retrieval page."],
        )
        return
    captions = run.captions(split)
    owner = run.image_of_text(split)
    names = run.image_names(split)
    table = margins(run, split, "t2i", sample=run.sample(split)).set_index("query")
    rows: dict[int, dict[str, float]] = table.to_dict("index")  # type: ignore[assignment]
    missed = table[table["rank"] > 1]
    kinds: dict[str, pd.Index] = {}
    ranks_before = None
    if changes is not None:
        changes = changes[changes["direction"] == "t2i"].set_index("query")
        ranks_before = changes["rank_a"].to_dict()
        for heading, outcome in (
            ("Broken: a hit before, a miss now", "broken"),
            ("Fixed: a miss before, a hit now", "fixed"),
        ):
            moved = changes[changes.index.isin(table.index) & (changes["outcome"] == outcome)]
            kinds[heading] = moved.sort_values("change", ascending=outcome == "broken").index
    for heading, column in (("Furthest misses", "rank"), ("Near misses", "margin")):
        kinds[heading] = missed.sort_values(column, ascending=False, kind="stable").index
    if run.sample(split) is None and (vectors := text_vectors(run, split)) is not None:
        right = np.flatnonzero(likely_matches(run, split, "t2i", vectors).probably_right(1))
        guesses = pd.Index(right[np.isin(right, missed.index)])
        kinds["Likely missing labels (a guess from the captions)"] = guesses

    @cache
    def picture(image: int) -> str:
        content = run.picture(split, image, PICTURE_SIZE)
        return "" if content is None else f"data:image/jpeg;base64,{base64.b64encode(content).decode()}"

    def example(query: int) -> dict[str, str]:
        row = rows[query]
        image = int(owner[query])
        wrong = int(row["wrong"])
        before = "" if ranks_before is None else f"{ranks_before[query]:,} → "
        fact = f"rank {before}{int(row['rank']):,} · similarity {row['match_score']:.3f}, "
        fact += f"wrong image {row['wrong_score']:.3f}"
        own = {"caption": captions[query], "own": names[image], "picture": picture(image)}
        return own | {"answer_name": names[wrong], "answer": picture(wrong), "fact": fact}

    for heading, queries in kinds.items():
        if len(queries):
            yield "subheading", heading
            yield "examples", [example(int(query)) for query in queries[:EXAMPLES]]


def _slices(runs: Sequence[Run], split: str, by: Sequence[str]) -> pd.DataFrame:
    """Return slice, queries, excess misses, R@1 with its interval, MRR and nDCG@10 of the last run, and any gain; the
    slice with the most excess misses first. `by`: columns whose slices are listed; () for the worst usual ones."""
    columns = counted_columns(runs[-1], split)
    slices = slices_by(columns, by) if by else usual_slices(columns)
    table = slice_table(runs, split, Queries("t2i"), slices, columns)
    table = table if by else table.head(SLICES)
    table = table.sort_values("excess", ascending=False, kind="stable")
    last = len(runs) - 1
    shown = table[["label", "queries"]].rename(columns={"label": "slice"})
    shown["excess misses"] = table["excess"]
    if not len(table):
        return shown.assign(**{"R@1": [], "MRR": [], "nDCG@10": []})

    numbers = {"R@1": (f"recall_{last}", f"low_{last}", f"high_{last}")}
    numbers |= {"gain": ("gain", "gain_low", "gain_high")} if last else {}
    for name, parts in numbers.items():
        rows = table[list(parts)].itertuples(index=False, name=None)
        shown[name] = pd.Series(list(rows), table.index)

    shown.insert(4, "MRR", table[f"mrr_{last}"].round(1))
    shown.insert(5, "nDCG@10", table[f"ndcg10_{last}"].round(1))
    return shown


def _clusters(run: Run, split: str) -> list[Section]:
    clusters = prototypes(run, split)
    if clusters is None:
        return []
    columns = ["cluster", "size", "images", "agreement", "cohesion", "words"]
    table = cluster_table(run, split, clusters).head(CLUSTERS)[columns]
    return [Section("Clusters", CLUSTERED, [("table", table.round({"agreement": 1, "cohesion": 3}))])]


def _ambiguity(run: Run, split: str) -> list[Section]:
    if run.sample(split) is not None or run.lists(split) is not None:
        return []
    diversity = run.diversity(split, epsilon=run.loss.epsilon)
    values = diversity["diversity"].to_numpy()
    low = float(values.min())
    counts = np.histogram(values, 20, (low, max(values.max(), low + 1e-9)))[0].tolist()
    lowest = diversity.sort_values("spread", kind="stable").head(AMBIGUOUS)
    captions = run.captions(split)
    table = lowest[["diversity", "rank"]].round(3)
    table.insert(0, "caption", [captions[anchor] for anchor in lowest["anchor"]])
    blocks = [("histogram", (counts, low)), ("subheading", "The least diverse captions"), ("table", table)]
    return [Section("Ambiguity", AMBIGUITY.format(low), blocks)]


def _reviews(runs: Sequence[Run], split: str, reviews: Reviews) -> dict[str, str]:
    """Describe the verdicts, and every run's recall on the split by the labels and by the corrected labels."""
    counts = Counter(review.verdict for review in reviews.standing)
    facts = {
        "verdicts": ", ".join(f"{count:,} {verdict}" for verdict, count in counts.most_common()),
        "reviewers": ", ".join(sorted(reviews.by_reviewer)),
        "fingerprint": reviews.fingerprint()[:16],
    }
    for run in runs:
        table = reviewed_recall(run, split, ReviewedSplit.of(run, split), reviews)
        facts[run.name] = "; ".join(
            f"{DIRECTIONS[row['direction']]} R@1 {row['labels_1']:.1f} % by the labels, {row['reviewed_1']:.1f} % "
            f"reviewed (difference: 95% interval {row['low_1']:+.1f} to {row['high_1']:+.1f})"
            for row in table[table["queries"] == "all"].to_dict("records")
        )
    return facts


def _command(run: Run) -> str:
    command = run.config.get("about", {}).get("command")
    if isinstance(command, str):
        return command
    return f"embeddings that another program made, imported {run.summary.origin.get('created', '')}".strip()
