"""The rows of an evaluation: every run on one split, their ensemble, five folds, c-way accuracy, similarities."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from rich.console import Console

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import print_faults, watching
from coder_core.data.captioned.reading import SKIPPING
from coder_core.data.judgements import read_judgements
from coder_core.data.qrels import WAYS, Way
from coder_core.data.reviews import Reviews, judge_split
from coder_core.data.split import Split, with_queries_of_log
from coder_core.evaluation.bootstrap import count_hits, recall_intervals
from coder_core.evaluation.c_way import DIRECTIONS, Protocol, c_way_accuracy, most_options, option_faults
from coder_core.evaluation.lists import Lists, rank_lists
from coder_core.evaluation.metrics import RECALL_AT, Ranks, label_metrics
from coder_core.evaluation.nearest import BY_INDEX
from coder_core.evaluation.rank_metrics import Metrics, extended_metrics, rank_metrics
from coder_core.evaluation.ranking import Ties, rank
from coder_core.evaluation.recall import five_fold, metrics_of
from coder_core.evaluation.relevance import (
    Queries,
    Relevance,
    equal_text_count,
    judged_relevance,
    relevance_of_judgements,
    widened,
)
from coder_core.evaluation.sampled import RankOptions, choose_queries, describe
from coder_core.evaluation.scores import EVERY, Scores, check_scores
from coder_core.evaluation.separation import distributions
from coder_core.evaluation.sources import Source
from coder_core.files.atomic import write_output
from coder_core.model.reader import data_folder, read_splits
from coder_core.objectives.diversity import negative_spread
from coder_core.runs.analysis.evaluate import evaluate_split, score
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.reviewed import reviewed_metrics, reviewed_relevance
from coder_core.runs.analysis.tables import IMAGE_GROUPS, list_splits
from coder_core.runs.analysis.widened import EqualTexts, equal_text_warning
from coder_core.runs.derived.correct_hubs import correct_hubs
from coder_core.runs.derived.widened import store_widened
from coder_core.runs.load import LoadedModel

ENSEMBLE = "ensemble"
DEVIATIONS_AT_ONCE = 512  # captions
RECALL_NAMES = (*(f"{way} R@{k}" for way in ("image→text", "text→image") for k in RECALL_AT), "R@sum")
CHOOSING = ("dev", "val")  # splits on which values may be chosen


@dataclass
class Samples:
    """The samples behind a row."""

    captions: list[str]  # m strings
    image_of_text: np.ndarray  # (m,) int64 the image of every caption
    image_names: list[str]  # n file names or ids
    caption_ids: np.ndarray | None = None  # (m,) int64 numbers of captions in their data set, or None
    image_groups: np.ndarray | None = None  # (n,) int64, equal for images that show the same thing, or None
    judged: Relevance | None = None  # the judgements of a search log, or None
    search_log: Mapping[str, Any] | None = None  # its ids of queries, and the others, or None
    queries: Queries | None = None  # those that are ranked; None: all

    @classmethod
    def of(cls, split: Split) -> Samples:
        """Return the samples of a split; images without names are numbered."""
        names = split.image_names or [f"image {image}" for image in range(split.n_images)]
        groups = getattr(split, IMAGE_GROUPS, None)
        samples = cls(split.captions, split.image_of_text, names, split.caption_ids, groups)
        log = split.search_log
        if log is None:
            return samples
        judged = relevance_of_judgements(log.judgements, split.n_images, split.n_texts)
        return replace(samples, judged=judged, search_log=log.document())

    @property
    def n_images(self) -> int:
        """Number of images."""
        return len(self.image_names)


@dataclass
class RunRow:
    """A run, or an ensemble, on one split."""

    run: Path | None  # its folder; None for the ensemble
    metrics: Metrics  # of `retrieval_metrics`; others are added
    sources: list[Source]  # the scores of all pairs are their sum
    split: Samples  # its samples
    alpha: float | None = None  # share of the tuned weights in a blend of towers
    hubs_corrected: bool = False  # the scores are corrected for hubs
    folds: bool = False  # the metrics are means over five folds
    lists: Mapping[Way, Lists] | None = None  # of another system, in place of scores
    by: str = ""  # what widens the labels that the metrics count: "group", "equal texts", or both
    split_name: str = ""  # of the split in the run's folder
    device: str = "cpu"  # on which scores are computed

    @property
    def name(self) -> str:
        """Name of the row in files: the folder and what distinguishes its rows."""
        return self.named(str(self.run))

    def named(self, run: str, *, best: bool = False) -> str:
        """Return the name of the row with another name for its run; `best` marks the best of several blends.

        >>> RunRow(Path("runs/a"), {}, [], Samples([], np.empty(0), []), alpha=0.5).named("a", best=True)
        'a α=0.5 best'
        """
        name = ENSEMBLE if self.run is None else run
        name += "" if self.alpha is None else ending(self.alpha)
        name += ", hubs corrected" if self.hubs_corrected else ""
        name += f" by {self.by}" if self.by else ""
        return name + (" (5 × 1K)" if self.folds else "") + (" best" if best else "")

    @cached_property
    def scores(self) -> Scores:
        """Scores of all pairs. InputError: the run has only lists."""
        if self.lists is not None:
            raise InputError.at(self.name, "has only the lists of another system", "scores of all pairs")
        return check_scores(self.sources, self.device)

    def ranks(self, relevance: Relevance) -> Ranks:
        """Rank the scores of all pairs, or the lists of another system, by a relevance."""
        if self.lists is not None:
            return rank_lists(self.lists["i2t"], self.lists["t2i"], relevance)
        return rank(self.scores, relevance, best=0)

    def answers(self, way: Way) -> bool:
        """True unless the row has only lists, and none of this direction."""
        return self.lists is None or self.lists[way].exist

    def answered(self, metrics: Metrics) -> Metrics:
        """Return the metrics without those of a direction that has no lists."""
        silent_ways = tuple(f"{way}_" for way in WAYS.values() if not self.answers(way))
        return {name: value for name, value in metrics.items() if not name.startswith(silent_ways)}

    def metrics_by(self, relevance: Relevance) -> Metrics:
        """Return the metrics of `retrieval_metrics` by a relevance, of the queries that are ranked; without MD for lists."""
        asked = relevance.of_queries(self.split.queries)
        ranks = self.ranks(asked)
        if self.lists is not None:
            return rank_metrics(ranks, asked)
        return metrics_of(self.scores, ranks, asked)

    @property
    def labels(self) -> Relevance:
        """The right answers by the labels, or by the judgements of a search log, of the queries that are ranked."""
        labels = self.split.judged
        if labels is None:
            labels = Relevance.of_labels(self.split.image_of_text, self.split.n_images)
        return labels.of_queries(self.split.queries)

    def store(self) -> None:
        """Store the widened metrics of a plain run beside it, for the app."""
        if self.run is not None and self.split_name and self.alpha is None and not self.hubs_corrected:
            store_widened(self.run, self.split_name, self.by, self.metrics)

    def five_folds(self, ties: Ties) -> RunRow:
        """Return the row with the means over five folds of 1,000 images."""
        return replace(self, metrics=five_fold(self.sources, self.split.image_of_text, ties=ties), folds=True)


@dataclass(frozen=True)
class LogFiles:
    """Files of a search log, and the split of the data whose pictures are ranked for its queries."""

    queries: Path
    qrels: Path
    pool: str


@dataclass(frozen=True)
class RunData:
    """A run, and the data that it is evaluated on."""

    folder: Path  # of the run
    split_name: str
    loaded: LoadedModel | None = None  # its model; None for a run of another model's embeddings
    data: Path | None = None  # the data set; None for embeddings
    pictures: str | None = None  # folder of picture files
    log: LogFiles | None = None  # a search log in place of the split's captions

    def read(self, split_name: str, console: Console) -> tuple[LoadedModel, Split]:
        """Return the run's model, and a split of the data for it."""
        assert self.loaded is not None
        assert self.data is not None
        settings = replace(self.loaded.config.data, pictures=self.pictures or "")
        notes: list[Fault] = []
        if (settings.groups or settings.group_column) and self._lacks(settings.groups):
            fact = "the groups that the run trained with are not those of this data: metrics by group are left out"
            notes = [Fault(str(self.folder), fact, fix="name them with --groups FILE", severity="note")]
            settings = replace(settings, groups="", group_column="")
        if settings.columns and self._lacks(settings.columns):
            fact = f"the table of columns that the run trained with, {settings.columns}, is not of this data or is gone"
            fix = "join it with --columns FILE, and name groups with --groups FILE"
            notes.append(Fault(str(self.folder), fact, fix=fix, severity="note"))
            settings = replace(settings, columns="", group_column="")
        config = replace(self.loaded.config, data=settings)
        of_log = self.log if split_name == self.split_name else None
        of_data = split_name if of_log is None else of_log.pool
        try:
            with watching(console) as progress:
                read = read_splits(config, self.data, self.loaded.towers, (of_data,), progress=progress)
        except InputError as error:  # evaluation has no such flag: it leaves pictures out if training did
            faults = [replace(fault, fix=fault.fix.replace(SKIPPING, "")) for fault in error.faults]
            raise InputError(faults) from None
        split = read.splits[of_data]
        if of_log is not None:
            split, of_queries = with_queries_of_log(split, split_name, of_log.queries, of_log.qrels)
            notes += of_queries
        print_faults(console, [*self.loaded.faults, *read.faults, *notes])
        return self.loaded, split

    def _lacks(self, file: str) -> bool:
        """True if the data is not the run's, or a file that the run trained with ("" for none) no longer exists."""
        assert self.loaded is not None
        own_data = data_folder(self.loaded.config.data.data)
        return self.data != own_data or (bool(file) and not Path(file).is_file())


def widened_row(row: RunRow, *, equal_texts: bool) -> RunRow | None:
    """Return the row with its metrics by group, if the split has groups, and by equal texts, if these match; else None."""
    samples = row.split
    groups = samples.image_groups
    by = ["group"] * (groups is not None) + ["equal texts"] * equal_texts
    if not by:
        return None
    captions = samples.captions if equal_texts else None
    metrics = row.metrics_by(
        widened(samples.image_of_text, samples.n_images, groups=groups, captions=captions)
    )
    return replace(row, metrics=metrics, by=" and ".join(by))


def widened_rows(rows: Sequence[RunRow], equal_texts: EqualTexts | None) -> tuple[list[RunRow], list[Fault]]:
    """Return and store the rows by group and by equal texts, and a warning if many captions share their text with images
    of other groups and nobody chose how to count them (`equal_texts` None): both figures are then reported."""
    samples = rows[0].split
    if samples.judged is not None:  # judges, not labels, say what is right
        return [], []
    groups = samples.image_groups
    owner = samples.image_of_text if groups is None else groups[samples.image_of_text]
    shared = equal_text_count(samples.captions, owner)
    matches = equal_texts == "match" or (equal_texts is None and shared > 0)
    wide = [wide for row in rows if (wide := widened_row(row, equal_texts=matches)) is not None]
    for row in wide:
        row.store()
    if equal_texts is not None or not shared:
        return wide, []
    captions = samples.captions
    matched = wide[0].metrics
    if groups is not None:
        matched = rows[0].metrics_by(widened(samples.image_of_text, samples.n_images, captions=captions))
    return wide, [equal_text_warning(captions, shared, rows[0].metrics, matched)]


def ending(alpha: float) -> str:
    """Return the text that follows the run in the name of a blend.

    >>> ending(0.25)
    ' α=0.25'
    """
    return f" α={alpha!r}".removesuffix(".0")


def evaluate_run(run: RunData, console: Console, options: RankOptions) -> RunRow:
    """Evaluate a trained run on its split and write its analysis folder."""
    loaded, split = run.read(run.split_name, console)
    activity = "scoring pairs of" if loaded.config.model.by_pair else "encoding"
    with watching(console, f"{run.folder.name}: {activity} {run.split_name}") as watch:
        metrics, sources = evaluate_split(
            run.folder, loaded, split, run.split_name, options=options, progress=watch
        )
    row = RunRow(
        run.folder, metrics, sources, Samples.of(split), split_name=run.split_name, device=options.device
    )
    queries = choose_queries(row.labels, split.image_of_text, options.queries)
    return replace(row, split=replace(row.split, queries=queries))


def embedded_row(folder: Path, split_name: str, device: str = "cpu") -> RunRow:
    """Return the row of a run of another model's embeddings, or of another system's lists, from its stored analysis."""
    analysis = open_analysis(folder, split_name)
    owner = np.asarray(analysis.image_of_text)
    ids = analysis.caption_ids
    samples = Samples(
        analysis.captions,
        owner,
        analysis.image_names,
        ids,
        analysis.image_groups,
        analysis.judged,
        analysis.search_log,
        analysis.ranked_queries,
    )
    metrics = dict(analysis.metrics)
    if analysis.judged is None and metrics:
        metrics |= label_metrics(analysis, owner)
    sources = [] if analysis.lists is not None else analysis.sources
    row = RunRow(folder, metrics, sources, samples, split_name=split_name, device=device)
    return replace(row, lists=analysis.lists)


def sample_notes(rows: Sequence[RunRow]) -> list[Fault]:
    """Return a note on every run of whose queries only a sample is ranked: its size, and the recalls with 95% intervals."""
    notes = []
    for row in rows:
        samples = row.split
        if samples.queries is None or row.run is None or row.hubs_corrected or row.alpha is not None:
            continue
        stored = open_analysis(row.run, row.split_name)
        hits = count_hits(stored.image_ranks, stored.text_ranks, samples.image_of_text, samples.image_groups)
        recalls = zip(RECALL_NAMES, recall_intervals(hits).tolist(), strict=True)
        intervals = ", ".join(
            f"{name} {mean:.1f} [{low:.1f}, {high:.1f}]" for name, (mean, low, high) in recalls
        )
        fact = describe(samples.queries, samples.n_images, len(samples.captions))
        notes.append(Fault(row.name, f"{fact}; 95% intervals: {intervals}", severity="note"))
    return notes


def ensemble(rows: Sequence[RunRow], ties: Ties) -> RunRow:
    """Return the mean of the runs' scores as a row (InputError: the runs were evaluated on different captions)."""
    first = rows[0]
    share = 1 / len(rows)
    for row in rows:
        if row.split.captions != first.split.captions:
            fix = "evaluate them one by one, or name one --data for all"
            raise InputError.at(row.name, f"was evaluated on other captions than {first.name}", fix=fix)
    every = [source for row in rows for source in row.sources]
    sources: list[Source] = [replace(source, weight=source.weight * share) for source in every]
    row = RunRow(None, {}, sources, first.split, device=first.device)
    ranks = rank(row.scores, row.labels, ties=ties, best=0)
    row.metrics |= metrics_of(row.scores, ranks, row.labels)
    return row


def hub_corrected_row(row: RunRow, run: RunData, console: Console) -> tuple[RunRow, Fault]:
    """Correct a run's scores for hubs and store the ranks for the app; return the corrected row, and a note on how.
    InputError: there is no train split, or no split to choose on; the run scores pair by pair. `row`: the uncorrected
    row of the run. A run of another model's embeddings must include those of train and dev."""
    folder = run.folder
    split_name = run.split_name

    def sources_of(name: str) -> tuple[Sequence[Source], np.ndarray]:
        if name == split_name:
            return row.sources, row.split.image_of_text
        if run.loaded is None:
            analysis = open_analysis(folder, name)
            return analysis.sources, np.asarray(analysis.image_of_text)
        loaded, split = run.read(name, console)
        with watching(console, f"{folder.name}: encoding {name}") as watch:
            return score(loaded, split, progress=watch)[0], split.image_of_text

    chosen_on = split_name if split_name in CHOOSING else "dev"
    if run.loaded is None and chosen_on == "dev" and "dev" not in list_splits(folder):
        chosen_on = "val"
    correction, sources = correct_hubs(folder, split_name, chosen_on, sources_of, row.device)
    strengths = zip(("image→text", "text→image"), correction.strengths.values(), strict=True)
    i2t, t2i = (f"k = {k} and α = {alpha:g} for {direction}" for direction, (k, alpha) in strengths)
    fact = f"hubs corrected after training: {i2t}, {t2i}, chosen on {chosen_on}"
    fact += ", the split that is shown" if chosen_on == split_name else ""
    fact += f"; {BY_INDEX}" if correction.by_index else ""
    corrected = RunRow(
        folder, dict(correction.metrics), list(sources), row.split, hubs_corrected=True, device=row.device
    )
    return corrected, Fault(str(folder), fact, severity="note")


def add_extended_metrics(rows: Sequence[RunRow], source: Path) -> list[Fault]:
    """Add mAP@R, R-Precision, extended R@K, MRR and nDCG@10 to the metrics of every row; return notes on the source.
    For Flickr8k's experts also `disagreement_rho`, Spearman's ρ between the spread of their grades and the caption's
    diversity, over the captions they judged; it is negative if diversity is low for ambiguous captions. `source` is a
    file of positives, or one of `COCO_JUDGEMENTS`."""
    notes: dict[str, Fault] = {}
    for row in rows:
        samples = row.split
        owner = samples.image_of_text
        judgements = read_judgements(source, samples.image_names, owner, samples.caption_ids)
        relevance = judged_relevance(judgements.of_texts, judgements.of_images, owner, samples.n_images)
        relevance = relevance.of_queries(samples.queries)
        row.metrics |= row.answered(extended_metrics(row.ranks(relevance), relevance))
        notes[judgements.fact] = Fault(judgements.source, judgements.fact, severity="note")
        if judgements.disagreement is None or row.lists is not None:
            continue
        judged = np.flatnonzero(np.isfinite(judgements.disagreement))
        disagreement = pd.Series(judgements.disagreement[judged])
        if disagreement.nunique() > 1:  # a rank correlation needs two different values
            rho = float(pd.Series(_deviations(row, judged)).corr(disagreement, method="spearman"))
            row.metrics["disagreement_rho"] = rho
            fact = f"ρ between diversity and the spread of experts' grades is {rho:+.2f} over {len(judged):,} captions"
            notes[f"{row.name} {fact}"] = Fault(row.name, fact, severity="note")
    return list(notes.values())


def _deviations(row: RunRow, texts: np.ndarray) -> np.ndarray:
    """Return the (k,) deviations of captions' scores with other images; diversity grows with them (CODER eq. 3)."""
    images = torch.arange(row.split.n_images)
    owner = torch.from_numpy(row.split.image_of_text)
    parts = [
        negative_spread(row.scores.exact(EVERY, part).T.double(), owner[part, None] != images)
        for part in torch.from_numpy(texts).split(DEVIATIONS_AT_ONCE)
    ]
    return torch.cat(parts).numpy()


def add_reviewed_metrics(rows: Sequence[RunRow], reviews: Reviews, file: Path) -> list[Fault]:
    """Add the metrics on reviewed labels to those of every row; return notes on the file's contents."""
    notes: dict[str, Fault] = {}
    for row in rows:
        split = row.split
        owner = row.split.image_of_text
        judged = judge_split(reviews.verdicts, split.image_names, split.captions, owner, split.n_images)
        if reviews.verdicts and judged.elsewhere == len(reviews.verdicts):
            fact = "contains no verdict on a caption and an image of this split"
            raise InputError.at(file, fact, fix="evaluate the split it is about")
        relevance = reviewed_relevance(judged, owner, split.n_images).of_queries(split.queries)
        row.metrics |= row.answered(reviewed_metrics(row.ranks(relevance), relevance))
        fact = f"labels judged wrong: {len(judged.rows('wrong-caption')):,}, other matches: {len(judged.matches):,}"
        if judged.already_labels:
            fact += f", also-matches without effect, because the pair is a label: {judged.already_labels:,}"
        if kept := len(judged.rows("too-vague", "duplicate", "label-right")):
            verdicts = "too-vague, duplicate or label-right"
            fact += f", verdicts without effect, because the label stays right ({verdicts}): {kept:,}"
        if judged.elsewhere:
            fact += f", verdicts on pairs outside this split: {judged.elsewhere:,}"
        notes[fact] = Fault(str(file), f"{fact}; fingerprint {reviews.fingerprint()[:12]}", severity="note")
    return [*reviews.faults, *notes.values()]


def add_c_way_accuracy(rows: Sequence[RunRow], options: Sequence[int], protocol: Protocol) -> list[Fault]:
    """Add c-way accuracies to the metrics of every row; return warnings about options that a split is too small for."""
    warnings: dict[str, Fault] = {}
    for row in rows:
        owner = row.split.image_of_text
        images = row.split.n_images
        for way in DIRECTIONS:
            faults = option_faults(options, owner, images, way, protocol.repeats)
            warnings |= {fault.place: replace(fault, severity="warning") for fault in faults}
            possible = [c for c in options if c <= most_options(owner, images, way)]
            if not possible:
                continue
            accuracies = c_way_accuracy(row.scores, owner, possible, way, protocol)
            for c, accuracy in accuracies.items():
                key = f"{way}_{c}way"
                row.metrics |= {key: accuracy.mean, f"{key}_interval": accuracy.interval}
    return list(warnings.values())


def write_similarities(rows: Sequence[RunRow], file: Path, split_name: str) -> None:
    """Write counts of scores among matching and other pairs as CSV, one line per run and bin."""
    sheets = []
    for row in rows:
        counts = distributions(row.scores.sources, row.split.image_of_text)
        edges = [f"{edge:.6g}" for edge in counts.edges]
        table = {
            "run": row.name,
            "split": split_name,
            "low": edges[:-1],
            "high": edges[1:],
            "matching": counts.positive,
            "others": counts.negative,
            "images": counts.images,
            "of_images": counts.of_images,
        }
        sheets.append(pd.DataFrame(table))
    write_output(file, pd.concat(sheets).to_csv(index=False))


def write_json(table: dict[str, Metrics], file: Path, facts: Mapping[str, str]) -> None:
    """Write the table as JSON, after `facts` about it."""
    write_output(file, json.dumps({**facts, "runs": table}, indent=2) + "\n")


def write_csv(table: dict[str, Metrics], file: Path, split_name: str) -> None:
    """Write the table as CSV, one line per row."""
    lines = [{"run": name, "split": split_name, **metrics} for name, metrics in table.items()]
    write_output(file, pd.DataFrame(lines).to_csv(index=False))
