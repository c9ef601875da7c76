"""Evaluate runs as the evaluate command does: a row for each, their ensemble, and further metrics that flags ask for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from coder_core.api import open_run
from coder_core.api.retrieval.judged import accuracies, probe_run
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import print_faults, say, watching
from coder_core.console.tables import PROBE
from coder_core.data.groups import read_groups
from coder_core.data.judgements import Probe
from coder_core.data.reviews import Reviews
from coder_core.evaluating.arguments import EvaluateArguments
from coder_core.evaluating.inputs import GivenFiles
from coder_core.evaluating.tables import print_by_columns, print_tables, write_files
from coder_core.evaluation.c_way import Protocol
from coder_core.evaluation.sampled import RankOptions, describe, parse_rank
from coder_core.model.device import choose_device, use_onednn
from coder_core.model.reader import data_folder
from coder_core.runs.analysis.added_metrics import (
    add_c_way_accuracy,
    add_extended_metrics,
    add_reviewed_metrics,
)
from coder_core.runs.analysis.blend import best_row, blend_rows, check_tuned, keep_blends
from coder_core.runs.analysis.graded import add_graded_metrics, add_judged_metrics
from coder_core.runs.analysis.import_embeddings import is_imported, rank_imported
from coder_core.runs.analysis.joined import join_columns
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.rows import RunRow, embedded_row, ensemble, sample_notes, widened_rows
from coder_core.runs.analysis.run_data import CHOOSING, LogFiles, RunData, evaluate_run, hub_corrected_row
from coder_core.runs.analysis.tables import JUDGEMENTS, list_splits
from coder_core.runs.load import load_model

FIVE_FOLD_IMAGES = 5000


def evaluate_runs(parsed: EvaluateArguments, given: GivenFiles, console: Console) -> None:
    """Evaluate the runs, write their analyses and the files that flags name, print the tables."""
    use_onednn()
    options = RankOptions(parse_rank(parsed.rank), str(choose_device(parsed.device)))
    rows = _rows(parsed, options, console)
    if options.queries == 0:
        for folder in parsed.runs:
            say(console, f"{folder}: {parsed.split} is stored; its queries are not ranked (--rank 0)")
        return

    stop_on_errors(_needs_scores(rows, parsed))
    if rows[0].split.search_log is not None:
        stop_on_errors(_needs_labels(parsed))
        add_judged_metrics(rows, parsed.qrels_metrics, parsed.split)
    if parsed.groups is not None:
        print_faults(console, _read_groups(rows, parsed.groups))

    print_faults(console, _add_metrics(rows, parsed, given.reviews))
    if given.probes:
        for row, folder in zip(rows, parsed.runs, strict=False):
            print_faults(console, _add_probe_accuracy(row, folder, parsed, given.probes, console))

    wide, warnings = widened_rows(rows, parsed.equal_texts)
    print_faults(console, warnings)
    print_faults(console, sample_notes(rows))
    measured = [*rows, *wide]
    if rows[0].split.n_images >= FIVE_FOLD_IMAGES and rows[0].split.search_log is None:
        measured += [row.five_folds(parsed.ties) for row in rows if row.lists is None]

    write_files(rows, measured, parsed, given.reviews)
    print_faults(console, _unwritten(rows[0], parsed))
    best = best_row(rows) if len(parsed.blend) > 1 and parsed.split in CHOOSING else None
    print_tables(measured, best.alpha if best else None, parsed, console)
    if parsed.columns is not None:
        for folder in parsed.runs:
            print_faults(console, join_columns(folder, parsed.split, parsed.columns))
    if parsed.by:
        print_by_columns([open_run(folder) for folder in parsed.runs], parsed, console)


def _needs_labels(parsed: EvaluateArguments) -> list[Fault]:
    """Return an error for every flag that needs captions with their own pictures, for a split that is a search log."""
    given = {
        "--ways": parsed.ways,
        "--positives": parsed.positives,
        "--reviews": parsed.reviews,
        "--groups": parsed.groups,
        "--hub-correction": parsed.hub_correction,
    }
    fact = f"needs captions of pictures, but split {parsed.split} is a search log, whose queries belong to no picture"
    return [Fault(flag, fact, fix="leave it out") for flag, value in given.items() if value]


def _needs_scores(rows: Sequence[RunRow], parsed: EvaluateArguments) -> list[Fault]:
    """Return an error for every flag that needs scores of all pairs, if a run has only the lists of another system."""
    given = {
        "--ways": parsed.ways,
        "--similarities": parsed.similarities,
        "--run-out": parsed.run_out,
        "--probe": parsed.probe,
    }
    listed = [row.name for row in rows if row.lists is not None]
    if not listed:
        return []
    fact = f"needs scores of all pairs, but {listed[0]} has only the lists of another system"
    return [Fault(flag, fact, fix="leave it out, or that run") for flag, value in given.items() if value]


def _rows(parsed: EvaluateArguments, options: RankOptions, console: Console) -> list[RunRow]:
    """Compute a row for every run or blend, one for their ensemble, and one for every run corrected for hubs."""

    if parsed.data and all(map(is_imported, parsed.runs)):
        problem = "is given, but these runs have only embeddings, of the captions they were made from"
        fix = "leave it out; embed other data as another split (coder-lab embed)"
        raise InputError.at(f"--data {parsed.data}", problem, "a trained run", fix)

    rows: list[RunRow] = []
    corrected: list[RunRow] = []
    for folder in parsed.runs:
        if parsed.blend:
            check_tuned(folder)
        run = _run_data(folder, parsed)
        if run.loaded is None:
            with watching(console, f"{folder.name}: ranks", rate=True) as watch:
                rank_imported(folder, parsed.split, options, watch)
            rows.append(embedded_row(folder, parsed.split, options.device))
        elif parsed.blend:
            _, split = run.read(parsed.split, console)
            blends = blend_rows(folder, run.loaded, split, parsed.blend, console)
            keep_blends(folder, parsed.split, blends)
            rows += blends
        else:
            rows.append(evaluate_run(run, console, options))
        if parsed.hub_correction and rows[-1].lists is not None:
            problem = f"needs embeddings, but {folder} has only lists"
            raise InputError.at("--hub-correction", problem, fix="leave it out")
        if parsed.hub_correction:
            row, note = hub_corrected_row(rows[-1], run, console)
            corrected.append(row)
            print_faults(console, [note])

    scored = [row for row in rows if row.lists is None]
    if len(scored) > 1 and not parsed.blend:
        rows.append(ensemble(scored, parsed.ties))

    return [*rows, *corrected]


def _run_data(folder: Path, parsed: EvaluateArguments) -> RunData:
    """Load a trained run, and find its data; a run of another model's embeddings has neither model nor data."""
    if is_imported(folder) and not parsed.blend:
        if parsed.queries is not None:
            fact = f"is given, but {folder} has only embeddings"
            fix = "embed the queries: coder-lab embed pictures --queries, or embed import --qrels"
            raise InputError.at("--queries", fact, "a trained run", fix)
        return RunData(folder, parsed.split)
    _check_log(folder, parsed)
    loaded = load_model(folder, device=str(choose_device(parsed.device)))
    data = data_folder(parsed.data or loaded.config.data.data)
    pictures = parsed.pictures or loaded.config.data.pictures or None
    log = None
    if parsed.queries is not None and parsed.qrels is not None:
        log = LogFiles(parsed.queries, parsed.qrels, parsed.pool)
    return RunData(folder, parsed.split, loaded, data, pictures, log)


def _check_log(folder: Path, parsed: EvaluateArguments) -> None:
    """Raise InputError if a trained run has captions under a split's name and the flags a search log, or the reverse."""
    if parsed.split not in list_splits(folder):
        return
    is_log = JUDGEMENTS in open_analysis(folder, parsed.split).arrays
    where = f"split {parsed.split} of {folder}"
    if is_log and parsed.queries is None:
        raise InputError.at(where, "is a search log", "--queries FILE --qrels FILE --pool SPLIT")
    if parsed.queries is not None and not is_log:
        fix = "store the search log under another name: --split log"
        raise InputError.at(where, "has captions", "a new name, or a search log", fix)


def _unwritten(row: RunRow, parsed: EvaluateArguments) -> list[Fault]:
    """Return a note on the queries that a file of --run-out lacks because they are not ranked."""
    sampled = describe(row.split.queries, row.split.n_images, len(row.split.captions))
    if parsed.run_out is None or not sampled:
        return []
    fact = f"contains only the ranked queries ({sampled})"
    return [
        Fault(str(parsed.run_out), fact, fix="add --rank all to rank and write all of them", severity="note")
    ]


def _read_groups(rows: list[RunRow], file: Path) -> list[Fault]:
    """Give all rows the groups of a file, and return a note on its contents."""
    for row in rows:
        row.split.image_groups, note = read_groups(file, row.split.image_names)
    return [note]


def _add_metrics(rows: list[RunRow], parsed: EvaluateArguments, reviews: Reviews | None) -> list[Fault]:
    """Add further metrics that flags ask for to every row; return warnings and notes."""
    faults: list[Fault] = []
    if parsed.ways:
        protocol = Protocol(parsed.ways_repeats, parsed.ways_seed, parsed.ties)
        faults += add_c_way_accuracy(rows, parsed.ways, protocol)
    if parsed.positives is not None:
        faults += add_extended_metrics(rows, parsed.positives)
    if reviews is not None and parsed.reviews is not None:
        faults += add_reviewed_metrics(rows, reviews, parsed.reviews)
    if parsed.qrels is not None and parsed.queries is None:
        faults += add_graded_metrics(rows, parsed.qrels, parsed.qrels_metrics, parsed.split)
    return faults


def _add_probe_accuracy(
    row: RunRow, folder: Path, parsed: EvaluateArguments, probes: Sequence[Probe], console: Console
) -> list[Fault]:
    """Add the accuracy of every kind of probe to the metrics of a run; return notes on probes left out."""
    with watching(console, f"{folder.name}: pictures of probes") as watch:
        table = probe_run(open_run(folder), parsed.split, probes, pictures=parsed.pictures, progress=watch)
    row.metrics |= {f"{PROBE}{kind}": accuracy for kind, accuracy in accuracies(table).items()}
    missing = len(probes) - len(table)
    if not missing:
        return []
    fact = f"{missing:,} of {len(probes):,} probes are left out: their pictures are not in the split or cannot be read"
    return [Fault(str(folder), fact, severity="note")]
