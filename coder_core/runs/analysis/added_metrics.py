"""Metrics that flags of the evaluate command add to its rows: judgments beyond the labels, reviews, c-way accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from coder_core.console.faults import Fault, InputError
from coder_core.data.judgements import read_judgements
from coder_core.data.reviews import Reviews, judge_split
from coder_core.evaluation.c_way import DIRECTIONS, Protocol, c_way_accuracy, most_options, option_faults
from coder_core.evaluation.rank_metrics import extended_metrics
from coder_core.evaluation.relevance import judged_relevance
from coder_core.evaluation.scores import EVERY
from coder_core.objectives.diversity import negative_spread
from coder_core.runs.analysis.reviewed import reviewed_metrics, reviewed_relevance
from coder_core.runs.analysis.rows import RunRow

DEVIATIONS_AT_ONCE = 512  # captions


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
    """Add c-way accuracies of the ranked queries to the metrics of every row; return warnings about options that a split
    is too small for."""
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
            of_ranked = replace(protocol, asked=row.split.queries)
            accuracies = c_way_accuracy(row.scores, owner, possible, way, of_ranked)
            for c, accuracy in accuracies.items():
                key = f"{way}_{c}way"
                row.metrics |= {key: accuracy.mean, f"{key}_interval": accuracy.interval}
    return list(warnings.values())
