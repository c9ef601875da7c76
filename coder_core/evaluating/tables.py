"""Print the tables of the evaluate command, and write its files."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from coder_core.console import tables
from coder_core.console.output import say
from coder_core.data.judgements import COCO_JUDGEMENTS
from coder_core.data.reviews import Reviews
from coder_core.evaluating.arguments import EvaluateArguments
from coder_core.evaluation.metrics import metric_label
from coder_core.runs.analysis.blend import write_curve
from coder_core.runs.analysis.graded import write_trec_run
from coder_core.runs.analysis.rows import RunRow, write_csv, write_json, write_similarities


def write_files(
    rows: list[RunRow], measured: list[RunRow], parsed: EvaluateArguments, reviews: Reviews | None
) -> None:
    """Write the files named by flags; `measured` are the rows and their means over five folds."""
    table = {row.name: row.metrics for row in measured}
    if parsed.similarities is not None:
        write_similarities(rows, parsed.similarities, parsed.split)
    if parsed.json is not None:
        facts = {"split": parsed.split, "ties": parsed.ties}
        if reviews is not None:
            facts["reviews_sha256"] = reviews.fingerprint()
        write_json(table, parsed.json, facts)
    if parsed.run_out is not None:
        write_trec_run(rows[0], parsed.run_out, parsed.run_depth)
    if parsed.csv is not None:
        write_csv(table, parsed.csv, parsed.split)
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
    console.print(tables.metrics_table(table, f"{parsed.split} · {ties}"))
    whole = {name: row.metrics for name, row in zip(names, rows, strict=True) if not (row.folds or row.by)}
    if parsed.ways:
        title = f"c-way accuracy · mean of {parsed.ways_repeats} draws ± 95% · seed {parsed.ways_seed}"
        console.print(tables.choices_table(whole, parsed.ways, title))
    if parsed.positives is not None:
        source = COCO_JUDGEMENTS.get(str(parsed.positives), f"labels and {parsed.positives.name}")
        title = f"{source} · tied results count against a query"
        console.print(tables.extended_table(whole, title))
    if parsed.qrels is not None:
        title = f"{parsed.qrels.name} · % and 95% intervals · relevant documents last among equal scores"
        labels = [metric_label(name) for name in parsed.qrels_metrics]
        console.print(tables.graded_table(whole, labels, title))
    if parsed.probe:
        console.print(tables.probe_table(whole, "probes · caption above wrong caption, %"))
    if parsed.reviews is not None:
        title = f"by the labels, and by the labels as corrected by {parsed.reviews.name}"
        console.print(tables.reviewed_table(whole, title))
    if parsed.blend:
        say(console, "Choose α on dev, and report the chosen one on test.")


def display_names(rows: Sequence[RunRow], best: float | None = None) -> list[str]:
    """Name rows for a terminal: a run by its name, or its path if two share a name; mark the blend with α `best`."""
    folders = {row.run for row in rows if row.run is not None}
    unique = len({folder.resolve().name for folder in folders}) == len(folders)
    names = [row.run.resolve().name if row.run and unique else str(row.run) for row in rows]
    marked = [best is not None and row.alpha == best and not row.folds for row in rows]
    return [row.named(name, best=mark) for row, name, mark in zip(rows, names, marked, strict=True)]
