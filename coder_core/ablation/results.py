"""Run folders -> the rows of a table: means and spreads over seeds, the paper's figures, what is beyond noise."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coder_core.ablation.bootstrap import Difference, Hits, difference, hits
from coder_core.ablation.planning import run_name, state_of
from coder_core.ablation.rows import AblationTable, Recalls, Row
from coder_core.console.faults import Fault, InputError
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.write import list_splits
from coder_core.runs.files.status import read_status

RECALLS = ("i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10")
SUM = "rsum"
QUERIES = ("captions.json", "image_of_text.npy")


@dataclass(frozen=True)
class Measured:
    """A mean over seeds and their sample standard deviation (None with one seed)."""

    mean: float
    spread: float | None


@dataclass(frozen=True)
class ResultRow:
    """One row of the finished table.

    Args:
        row: of the grid.
        seeds: that are finished.
        metrics: of RECALLS and rsum, in percent.
        sums: R@sum of every seed, in the order of `seeds`.
        against: R@sum minus the reference's; None for the reference itself and where there is none.
        minutes: of training, mean over the seeds.
        mebibytes: the most memory a run's process took, mean over the seeds; None where a run did not note it.
    """

    row: Row
    seeds: tuple[int, ...]
    metrics: dict[str, Measured]
    sums: tuple[float, ...]
    against: Difference | None
    minutes: float
    mebibytes: float | None = None


@dataclass(frozen=True)
class Results:
    """A table as far as it has been run."""

    table: AblationTable
    split: str
    reference: str
    rows: tuple[ResultRow, ...]
    missing: tuple[str, ...]
    """Rows without a finished run."""


def reported_sum(recalls: Recalls | None) -> float | None:
    """R@sum of what the paper prints; None unless it prints all six."""
    return None if recalls is None or None in recalls else float(sum(value or 0.0 for value in recalls))


def collect(table: AblationTable, root: Path, split: str, *, reference: str = "") -> Results:
    """All finished runs of a table below `root`, whatever their seeds.

    Raises:
        InputError: the reference is not a row, or runs were evaluated on other captions than others.
    """
    reference = reference or table.reference
    if reference not in {row.name for row in table.rows}:
        names = ", ".join(row.name for row in table.rows)
        raise InputError(Fault(f"--reference {reference}", f"is not a row of {table.name}", f"one of {names}"))
    folders = {row.name: _finished(row, root, split) for row in table.rows}
    _check_same(table, folders, split)
    evidence = {name: {seed: _hits(folder, split) for seed, folder in found.items()} for name, found in folders.items()}
    rows = []
    for row in table.rows:
        if not folders[row.name]:
            continue
        against = None
        if row.name != reference and evidence[reference]:
            against = difference(*_alike(evidence[row.name], evidence[reference]))
        rows.append(_row(row, folders[row.name], split, against))
    return Results(table, split, reference, tuple(rows), tuple(name for name, found in folders.items() if not found))


def _alike(row: Mapping[int, Hits], reference: Mapping[int, Hits]) -> tuple[list[Hits], list[Hits]]:
    """Both rows' runs with the seeds that both have, all of them where none is shared: some seeds are kinder than
    others, to every row."""
    shared = [seed for seed in row if seed in reference]
    if not shared:
        return list(row.values()), list(reference.values())
    return [row[seed] for seed in shared], [reference[seed] for seed in shared]


def _finished(row: Row, root: Path, split: str) -> dict[int, Path]:
    """Seed → folder of the row's finished and evaluated runs."""
    found = {}
    prefix = run_name(row, 0)[:-1]
    for folder in sorted(root.glob(f"{prefix}*")) if root.is_dir() else []:
        seed = folder.name.removeprefix(prefix)
        if seed.isdecimal() and state_of(folder) == "finished" and split in list_splits(folder):
            found[int(seed)] = folder
    return dict(sorted(found.items()))


def _check_same(table: AblationTable, folders: Mapping[str, Mapping[int, Path]], split: str) -> None:
    """Rows are compared query by query, so they must have been asked the same queries."""
    queries: dict[tuple[str, ...], Path] = {}
    for found in folders.values():
        for folder in found.values():
            files = open_analysis(folder, split).manifest["files"]
            queries.setdefault(tuple(files[name]["sha256"] for name in QUERIES), folder)
    if len(queries) > 1:
        first, second = list(queries.values())[:2]
        fix = f"evaluate both with python -m coder_core.evaluate … --split {split} on the same --data"
        raise InputError(Fault(str(second), f"was evaluated on other captions than {first}, in {table.name}", fix=fix))


def _hits(folder: Path, split: str) -> Hits:
    analysis = open_analysis(folder, split)
    return hits(analysis.image_ranks, analysis.text_ranks, analysis.image_of_text)


def _row(row: Row, folders: dict[int, Path], split: str, against: Difference | None) -> ResultRow:
    found = [open_analysis(folder, split).metrics for folder in folders.values()]
    metrics = {name: measured([one[name] for one in found]) for name in (*RECALLS, SUM)}
    notes = [read_status(folder) or {} for folder in folders.values()]
    minutes = statistics.mean(float(note.get("seconds", 0.0)) for note in notes) / 60
    peaks = [float(note["peak_mebibytes"]) for note in notes if "peak_mebibytes" in note]
    mebibytes = statistics.mean(peaks) if len(peaks) == len(notes) else None
    sums = tuple(one[SUM] for one in found)
    return ResultRow(row, tuple(folders), metrics, sums, against, minutes, mebibytes)


def measured(values: Sequence[float]) -> Measured:
    """Mean and sample standard deviation."""
    return Measured(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None)
