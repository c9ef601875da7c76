"""Collect finished runs into the rows of a table: means and spreads over seeds, and differences beyond noise."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coder_core.ablation.planning import check_comparable, finished_runs
from coder_core.ablation.rows import AblationTable, Recalls, Row
from coder_core.cleaning import Cleaned, read_cleaning
from coder_core.console.faults import InputError
from coder_core.evaluation.bootstrap import Difference, Hits, count_hits, difference
from coder_core.evaluation.recall import CHOSEN_HALF, OTHER_HALF
from coder_core.queue.planned import is_evaluated
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.load import best_save
from coder_core.runs.record import read_status

RECALLS = ("i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10")
SUM = "rsum"
METRICS = (*RECALLS[:3], "i2t_mrr", "i2t_ndcg10", *RECALLS[3:], "t2i_mrr", "t2i_ndcg10", SUM)
QUERIES = ("captions.json", "image_of_text.npy")
Runs = Mapping[int, Path]  # seed → run folder


@dataclass(frozen=True)
class Measured:
    """A mean over seeds and their sample standard deviation (None with one seed)."""

    mean: float
    spread: float | None


@dataclass(frozen=True)
class ResultRow:
    """One row of the finished table."""

    row: Row
    seeds: tuple[int, ...]  # of the finished runs
    metrics: dict[str, Measured]  # those of METRICS that every run has, in percent
    sums: tuple[float, ...]  # R@sum of each seed
    reference: str
    against: Difference | None  # R@sum minus that of the row `reference`; None for that row, or without it
    minutes: float | None  # training time with scorers, mean over the seeds; None if the scorers were removed
    mebibytes: float | None = None  # peak memory, mean over the seeds; None if a run did not record it
    # R@sum on dev's half that best epochs were chosen on, and on the other; None without --choose-on half
    halves: tuple[Measured, Measured] | None = None
    # precision and recall of --clean in percent; None unless captions were exchanged
    cleaning: tuple[Measured, Measured] | None = None


@dataclass(frozen=True)
class Results:
    """The finished part of a table."""

    table: AblationTable
    split: str
    reference: str  # a row's name, or a description if rows have their own references
    rows: tuple[ResultRow, ...]
    missing: tuple[str, ...]  # names of the rows without a finished run


def reported_sum(recalls: Recalls | None) -> float | None:
    """Return R@sum of the paper's figures; None unless the paper reports all six."""
    return None if recalls is None or None in recalls else float(sum(value or 0.0 for value in recalls))


def collect_results(table: AblationTable, root: Path, split: str, *, reference: str = "") -> Results:
    """Collect all finished runs of a table below `root`, with any seeds. InputError: the reference is not a row, or the
    runs have other settings (`check_comparable`) or were evaluated on different captions."""
    names = [row.name for row in table.rows]
    if reference and reference not in names:
        expected = f"one of {', '.join(names)}"
        raise InputError.at(f"--reference {reference}", f"is not a row of {table.name}", expected)

    runs = {name: _evaluated(name, root, split) for name in names}
    check_comparable(table, runs)
    _check_same_queries(table, runs, split)
    hits = {name: _hits(of_seeds, split) for name, of_seeds in runs.items()}
    rows = []
    for row in table.rows:
        if not runs[row.name]:
            continue
        base = reference or row.reference or table.reference
        against = None
        if row.name != base and hits[base]:
            of_row, of_base = _same_seeds(hits[row.name], hits[base])
            against = difference(of_row, of_base)
        rows.append(_result(row, runs[row.name], split, base, against))

    missing = tuple(name for name in names if not runs[name])
    return Results(table, split, reference or table.compared_with or table.reference, tuple(rows), missing)


def _same_seeds(row: Mapping[int, Hits], reference: Mapping[int, Hits]) -> tuple[list[Hits], list[Hits]]:
    """Return both rows' runs of the seeds they share, because some seeds give every row better results; all runs if
    they share no seed."""
    shared = [seed for seed in row if seed in reference]
    if not shared:
        return list(row.values()), list(reference.values())
    of_row = [row[seed] for seed in shared]
    of_reference = [reference[seed] for seed in shared]
    return of_row, of_reference


def _evaluated(row: str, root: Path, split: str) -> Runs:
    """Return the row's finished runs whose best model has been evaluated on the split."""
    runs = finished_runs(row, root)
    return {seed: folder for seed, folder in runs.items() if is_evaluated(folder, split)}


def _check_same_queries(table: AblationTable, runs: Mapping[str, Runs], split: str) -> None:
    """Refuse (InputError) runs evaluated on different captions, because rows are compared query by query."""
    first_with: dict[tuple[str, ...], Path] = {}
    for of_seeds in runs.values():
        for folder in of_seeds.values():
            files = open_analysis(folder, split).manifest["files"]
            checksums = tuple(files[name]["sha256"] for name in QUERIES)
            first_with.setdefault(checksums, folder)
    if len(first_with) > 1:
        first, second, *_ = first_with.values()
        fix = f"evaluate both with coder-lab evaluate … --split {split} on the same --data"
        raise InputError.at(second, f"was evaluated on other captions than {first}, in {table.name}", fix=fix)


def _hits(runs: Runs, split: str) -> dict[int, Hits]:
    """Return the hits of each seed's run."""
    hits = dict[int, Hits]()
    for seed, folder in runs.items():
        analysis = open_analysis(folder, split)
        hits[seed] = count_hits(analysis.image_ranks, analysis.text_ranks, analysis.image_of_text)
    return hits


def _result(row: Row, runs: Runs, split: str, reference: str, against: Difference | None) -> ResultRow:
    metrics = [open_analysis(folder, split).metrics for folder in runs.values()]
    statuses = [read_status(folder) or {} for folder in runs.values()]
    cleanings = [cleaning for cleaning in map(read_cleaning, runs.values()) if cleaning is not None]
    seconds = [float(status.get("seconds", 0.0)) for status in statuses]
    seconds += [cleaning.seconds for cleaning in cleanings]
    total = sum(seconds)
    peaks = [float(status["peak_mebibytes"]) for status in statuses if "peak_mebibytes" in status]
    in_every_run = [name for name in METRICS if all(name in run for run in metrics)]
    return ResultRow(
        row,
        seeds=tuple(runs),
        metrics={name: measured([run[name] for run in metrics]) for name in in_every_run},
        sums=tuple(run[SUM] for run in metrics),
        reference=reference,
        against=against,
        minutes=None if math.isnan(total) else total / len(runs) / 60,
        mebibytes=statistics.mean(peaks) if len(peaks) == len(statuses) else None,
        halves=_halves(runs),
        cleaning=_found(cleanings),
    )


def _halves(runs: Runs) -> tuple[Measured, Measured] | None:
    """Return R@sum on both halves of dev; None unless every run chose its best epoch on one."""
    best = [best_save(folder).document("metrics")["metrics"] or {} for folder in runs.values()]
    if not all(CHOSEN_HALF in metrics and OTHER_HALF in metrics for metrics in best):
        return None
    chosen = measured([metrics[CHOSEN_HALF] for metrics in best])
    other = measured([metrics[OTHER_HALF] for metrics in best])
    return chosen, other


def _found(cleanings: Sequence[Cleaned]) -> tuple[Measured, Measured] | None:
    """Return precision and recall of the cleaning; None without it, or if a run has neither."""
    if not cleanings or any(math.isnan(one.precision + one.recall) for one in cleanings):
        return None
    precision = measured([one.precision for one in cleanings])
    recall = measured([one.recall for one in cleanings])
    return precision, recall


def measured(values: Sequence[float]) -> Measured:
    """Return the mean and the sample standard deviation."""
    return Measured(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)
