"""Print the tables of the evaluate command, and write its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from coder_core.api import Run
from coder_core.api.retrieval import same_samples
from coder_core.api.sides import DIRECTIONS
from coder_core.api.slices import LEAST_QUERIES, Queries, counted_columns, slice_recalls, slices_by
from coder_core.console import tables
from coder_core.console.faults import InputError
from coder_core.console.output import print_faults, say
from coder_core.data.judgements import COCO_JUDGEMENTS
from coder_core.data.lines import count_cases
from coder_core.data.reviews import Reviews
from coder_core.evaluating.arguments import EvaluateArguments
from coder_core.evaluation.metrics import metric_label
from coder_core.evaluation.rank_metrics import Metrics
from coder_core.evaluation.sampled import describe
from coder_core.evaluation.separation import distributions
from coder_core.files.atomic import write_output
from coder_core.runs.analysis.blend import write_curve
from coder_core.runs.analysis.graded import OWN_JUDGEMENTS, write_trec_run
from coder_core.runs.analysis.rows import RunRow


def write_files(
    rows: list[RunRow], measured: list[RunRow], parsed: EvaluateArguments, reviews: Reviews | None
) -> None:
    """Write the files named by flags; `measured` are the rows and their means over five folds."""
    table = {row.name: row.metrics for row in measured}
    if parsed.similarities is not None:
        _write_similarities(rows, parsed.similarities, parsed.split)
    if parsed.json is not None:
        facts = {"split": parsed.split, "ties": parsed.ties}
        if reviews is not None:
            facts["reviews_sha256"] = reviews.fingerprint()
        _write_json(table, parsed.json, facts)
    if parsed.run_out is not None:
        write_trec_run(rows[0], parsed.run_out, parsed.run_depth)
    if parsed.csv is not None:
        _write_csv(table, parsed.csv, parsed.split)
    if parsed.curve is not None:
        write_curve(rows, parsed.curve, f"{parsed.runs[0].resolve().name}: R@sum on {parsed.split}")


def print_tables(
    rows: Sequence[RunRow], best: float | None, parsed: EvaluateArguments, console: Console
) -> None:
    """Print the recalls and a table for each further metric requested; `best` is the α to mark."""
    names = display_names(rows, best)
    table = {name: row.metrics for name, row in zip(names, rows, strict=True)}
    ties = (
        "pessimistic ties"
        if parsed.ties == "pessimistic"
        else "ties: pessimistic, ensembles and folds optimistic"
    )
    is_log = any(row.split.search_log is not None for row in rows)
    whole = {name: row.metrics for name, row in zip(names, rows, strict=True) if not (row.folds or row.by)}
    labels = [metric_label(name) for name in parsed.qrels_metrics]
    other_qrels = parsed.qrels if parsed.queries is None else None
    if is_log and other_qrels is None:  # leads
        title = f"{OWN_JUDGEMENTS} · % and 95% intervals · relevant pictures last among equal scores"
        console.print(tables.graded_table(whole, labels, title))

    samples = rows[0].split
    sampled = describe(samples.queries, samples.n_images, len(samples.captions))
    of_sample = f" · {sampled}" if sampled else ""
    title = f"{parsed.split} · {ties}{of_sample}"
    console.print(tables.metrics_table(table, title))
    if parsed.ways:
        title = (
            f"c-way accuracy · mean of {parsed.ways_repeats} draws ± 95% · seed {parsed.ways_seed}{of_sample}"
        )
        console.print(tables.choices_table(whole, parsed.ways, title))
    if parsed.positives is not None:
        source = COCO_JUDGEMENTS.get(str(parsed.positives), f"labels and {parsed.positives.name}")
        title = f"{source} · tied results count against a query"
        console.print(tables.extended_table(whole, title))
    if other_qrels is not None:
        title = f"{other_qrels.name} · % and 95% intervals · relevant documents last among equal scores"
        console.print(tables.graded_table(whole, labels, title))
    if parsed.probe:
        console.print(tables.probe_table(whole, "probes · caption above wrong caption, %"))
    if parsed.reviews is not None:
        title = f"by the labels, and by the labels as corrected by {parsed.reviews.name}"
        console.print(tables.reviewed_table(whole, title))
    if parsed.blend:
        say(console, "Choose α on dev, and report the chosen one on test.")


def print_by_columns(runs: Sequence[Run], parsed: EvaluateArguments, console: Console) -> None:
    """Print R@1 both ways on the slices of the columns of --by: a row for each, a column for every run. InputError: a
    run has no such column, or the runs were evaluated on different samples."""
    for run in runs[1:]:
        if not same_samples(runs[0], run, parsed.split):
            fix = "evaluate them one by one"
            raise InputError.at("--by", f"{run.name} and {runs[0].name} have different samples", fix=fix)

    columns = counted_columns(runs[-1], parsed.split)
    chosen = slices_by(columns, parsed.by)
    rows: dict[str, dict[str, str]] = {}
    for way in DIRECTIONS:
        table = slice_recalls(runs, parsed.split, Queries(way), chosen, columns)
        for row in table.to_dict("records"):
            recalls = {f"{way}_{number}": _interval(row, number) for number in range(len(runs))}
            rows.setdefault(row["label"], {}).update({way: f"{row['queries']:,}", **recalls})

    left_out = [entry.label for entry in chosen if entry.label not in rows]
    title = f"{parsed.split} · by {', '.join(parsed.by)}"
    console.print(tables.by_columns_table(rows, [run.name for run in runs], title))
    fact = f"slices have fewer than {LEAST_QUERIES} queries"
    print_faults(console, count_cases("--by", fact, left_out, severity="note"))


def _interval(row: Mapping[Any, Any], run: int) -> str:
    low = row[f"low_{run}"]
    high = row[f"high_{run}"]
    return f"{row[f'recall_{run}']:.1f} [{low:.1f}, {high:.1f}]"


def display_names(rows: Sequence[RunRow], best: float | None = None) -> list[str]:
    """Name rows for a terminal: a run by its name, or its path if two share a name; mark the blend with α `best`."""
    folders = {row.run for row in rows if row.run is not None}
    unique = len({folder.resolve().name for folder in folders}) == len(folders)
    names = [row.run.resolve().name if row.run and unique else str(row.run) for row in rows]
    marked = [best is not None and row.alpha == best and not row.folds for row in rows]
    return [row.named(name, best=mark) for row, name, mark in zip(rows, names, marked, strict=True)]


def _write_similarities(rows: Sequence[RunRow], file: Path, split_name: str) -> None:
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


def _write_json(table: dict[str, Metrics], file: Path, facts: Mapping[str, str]) -> None:
    """Write the table as JSON, after `facts` about it."""
    write_output(file, json.dumps({**facts, "runs": table}, indent=2) + "\n")


def _write_csv(table: dict[str, Metrics], file: Path, split_name: str) -> None:
    """Write the table as CSV, one line per row."""
    lines = [{"run": name, "split": split_name, **metrics} for name, metrics in table.items()]
    write_output(file, pd.DataFrame(lines).to_csv(index=False))
