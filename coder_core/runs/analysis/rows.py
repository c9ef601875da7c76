"""The rows of an evaluation: every run on one split, their ensemble, five folds, c-way accuracy, similarities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from coder_core.console.bars import preparing, watching
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import print_faults
from coder_core.data.dataset import Split
from coder_core.data.positives import read_positives
from coder_core.evaluation.c_way import DIRECTIONS, c_way_accuracy, most_options, option_faults
from coder_core.evaluation.extended import extended_metrics
from coder_core.evaluation.ranking import Ties
from coder_core.evaluation.recall import Metrics, ensemble_metrics, five_fold
from coder_core.evaluation.separation import distributions
from coder_core.evaluation.sources import ScoreMatrix, Source, mixture
from coder_core.evaluation.tiles import score_tiles
from coder_core.model.splits import read_splits
from coder_core.runs.analysis.evaluate import evaluate_split
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import LoadedModel

ENSEMBLE = "ensemble"


@dataclass
class RunRow:
    """A run, or an ensemble, on one split.

    Args:
        name: the run's folder, or "ensemble".
        metrics: of `retrieval_metrics`; c-way accuracies are added.
        sources: what a pair is scored by.
        split: the data.
    """

    name: str
    metrics: Metrics
    sources: list[Source]
    split: Split

    def five_folds(self, ties: Ties) -> Metrics:
        """The mean over five folds of 1,000 images."""
        return five_fold(self.sources, self.split.image_of_text, ties=ties)


def evaluate_run(
    folder: Path, loaded: LoadedModel, data: Path, split_name: str, pictures: str | None, console: Console
) -> RunRow:
    """Evaluate a run and write its analysis folder.

    Args:
        folder: the run. loaded: its model.
        data: the data set. split_name: of it. pictures: folder of the picture files.
        console: for progress, warnings and notes.

    Raises:
        InputError: the data cannot be read, or does not fit the model.
    """
    split = read_data(loaded, data, split_name, pictures, console)
    what = "scoring pairs of" if loaded.config.model.by_pair else "encoding"
    with watching(console, f"{folder.name}: {what} {split_name}") as watch:
        metrics, _ = evaluate_split(
            folder, loaded, split, split_name, progress=watch,
            finding=lambda phase, done, total: watch(done, total, f"{folder.name}: {phase}"),
        )  # fmt: skip
    return RunRow(str(folder), metrics, _sources(folder, split_name), split)


def read_data(loaded: LoadedModel, data: Path, split_name: str, pictures: str | None, console: Console) -> Split:
    """The split that a run is evaluated on; arguments and errors as for `evaluate_run`."""
    config = replace(loaded.config, data=replace(loaded.config.data, pictures=pictures or ""))
    with preparing(console) as progress:
        read = read_splits(config, data, loaded.towers, (split_name,), progress=progress)
    print_faults(console, [*loaded.faults, *read.faults])
    return read.splits[split_name]


def _sources(folder: Path, split_name: str) -> list[Source]:
    analysis = open_analysis(folder, split_name)
    if analysis.scores is not None:
        return [ScoreMatrix(analysis.scores)]
    if (concepts := analysis.concepts) is None:
        return mixture(analysis.image_embeddings, analysis.text_embeddings)
    second = concepts.image_embeddings, concepts.text_embeddings
    return mixture(analysis.image_embeddings, analysis.text_embeddings, second, concepts.beta)


def ensemble(rows: Sequence[RunRow], ties: Ties) -> RunRow:
    """The mean of the runs' scores as a row.

    Raises:
        InputError: the runs were evaluated on different captions.
    """
    first = rows[0]
    for row in rows:
        if row.split.captions != first.split.captions:
            fix = "evaluate them one by one, or name one --data for all"
            raise InputError(Fault(row.name, f"was evaluated on other captions than {first.name}", fix=fix))
    sources: list[Source] = [
        replace(source, weight=source.weight * (1 / len(rows))) for row in rows for source in row.sources
    ]
    metrics = ensemble_metrics(sources, first.split.image_of_text, ties=ties)
    return RunRow(ENSEMBLE, metrics, sources, first.split)


def add_extended_metrics(rows: Sequence[RunRow], file: Path) -> list[Fault]:
    """Add mAP@R, R-Precision and extended R@K to the metrics of every row; returns notes on what the file holds.

    Raises:
        InputError: the file cannot be read, or is about another split.
    """
    notes: dict[str, Fault] = {}
    for row in rows:
        split = row.split
        names = split.image_names or [f"image {image}" for image in range(split.n_images)]
        positives = read_positives(file, names, split.image_of_text)
        row.metrics |= extended_metrics(
            score_tiles(row.sources, split.image_of_text), positives.with_labels(split.image_of_text)
        )
        fact = f"{len(positives.pairs):,} positives beyond the labels"
        if positives.elsewhere:
            fact += f", {positives.elsewhere:,} lines about other splits"
        if positives.rejected:
            fact += f", {positives.rejected:,} pairs that its judges reject"
        notes[fact] = Fault(str(file), fact, severity="note")
    return list(notes.values())


def add_c_way_accuracy(
    rows: Sequence[RunRow], options: Sequence[int], *, repeats: int, seed: int, ties: Ties
) -> list[Fault]:
    """Add c-way accuracies to the metrics of every row; returns warnings on what a split is too small for."""
    warnings: dict[str, Fault] = {}
    for row in rows:
        owner, images = row.split.image_of_text, row.split.n_images
        scores = score_tiles(row.sources, owner)
        for way in DIRECTIONS:
            faults = option_faults(options, owner, images, way, repeats)
            warnings |= {fault.place: replace(fault, severity="warning") for fault in faults}
            possible = [c for c in options if c <= most_options(owner, images, way)]
            if possible:
                accuracies = c_way_accuracy(scores, possible, way, repeats=repeats, seed=seed, ties=ties)
                for c, accuracy in accuracies.items():
                    row.metrics |= {f"{way}_{c}way": accuracy.mean, f"{way}_{c}way_interval": accuracy.interval}
    return list(warnings.values())


def write_similarities(rows: Sequence[RunRow], file: Path, split_name: str) -> None:
    """How often each score occurs among matching and among other pairs, as CSV: one line a run and bin."""
    sheets = []
    for row in rows:
        owner = row.split.image_of_text
        counts = distributions(score_tiles(row.sources, owner).sources, owner)
        edges = [f"{edge:.6g}" for edge in counts.edges]
        sheets.append(pd.DataFrame({
            "run": row.name, "split": split_name, "low": edges[:-1], "high": edges[1:], "matching": counts.positive,
            "others": counts.negative, "images": counts.images, "of_images": counts.of_images,
        }))  # fmt: skip
    pd.concat(sheets).to_csv(file, index=False)


def write_json(table: dict[str, Metrics], file: Path, split_name: str, ties: Ties) -> None:
    """The table as JSON."""
    document: dict[str, Any] = {"split": split_name, "ties": ties, "runs": table}
    file.write_text(json.dumps(document, indent=2) + "\n", "utf-8")


def write_csv(table: dict[str, Metrics], file: Path, split_name: str) -> None:
    """The table as CSV, one line a row."""
    lines = [{"run": name, "split": split_name, **metrics} for name, metrics in table.items()]
    pd.DataFrame(lines).to_csv(file, index=False)
