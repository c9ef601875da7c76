"""The rows of an evaluation: every run on one split by the labels, by groups and by equal texts, and their ensemble."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from coder_core.console.faults import Fault, InputError
from coder_core.data.qrels import WAYS, Way
from coder_core.data.split import Split
from coder_core.evaluation.bootstrap import count_hits, recall_intervals
from coder_core.evaluation.lists import Lists, rank_lists
from coder_core.evaluation.metrics import RECALL_AT, Ranks, label_metrics
from coder_core.evaluation.rank_metrics import Metrics, rank_metrics
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import five_fold, metrics_of
from coder_core.evaluation.relevance import (
    Queries,
    Relevance,
    equal_text_count,
    relevance_of_judgements,
    widened,
)
from coder_core.evaluation.sampled import describe
from coder_core.evaluation.scores import Scores, Ties, check_scores
from coder_core.evaluation.sources import Source
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import IMAGE_GROUPS
from coder_core.runs.analysis.widened import EqualTexts, equal_text_warning
from coder_core.runs.derived.widened import store_widened

ENSEMBLE = "ensemble"
RECALL_NAMES = (*(f"{way} R@{k}" for way in ("image→text", "text→image") for k in RECALL_AT), "R@sum")


@dataclass
class Samples:
    """The samples behind a row."""

    captions: list[str]  # m strings
    image_of_text: np.ndarray  # (m,) int64 the image of every caption
    image_names: list[str]  # n file names or ids
    caption_ids: np.ndarray | None = None  # (m,) int64 numbers of captions in their data set, or None
    image_groups: np.ndarray | None = None  # (n,) int64, equal for images that show the same thing, or None
    judged: Relevance | None = None  # the judgments of a search log, or None
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
        """The right answers by the labels, or by the judgments of a search log, of the queries that are ranked."""
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
