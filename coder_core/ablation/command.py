"""Run a table and write its results."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from coder_core.ablation.arguments import AblateArguments
from coder_core.ablation.planning import Basis, plan
from coder_core.ablation.results import SUM, ResultRow, Results, collect_results
from coder_core.ablation.rows import AblationTable
from coder_core.ablation.writing import (
    against_shown,
    legend,
    mean_and_spread,
    number,
    write_all,
    write_figure,
)
from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import say
from coder_core.console.plain_files import check_file, check_folder
from coder_core.console.signals import StoppedBySignalError
from coder_core.console.tables import DIRECTIONS, GRADED, Column, FittingTable
from coder_core.data.captioned.layouts import find_layout
from coder_core.data.dataset import available_splits
from coder_core.model.reader import data_folder
from coder_core.queue.planned import PlannedRun, commands, state_of
from coder_core.queue.running import QueueProgress, Workers, log_of, run_all, watched, workers_for

ROOT = Path("checkpoints")


def run_table(table: AblationTable, parsed: AblateArguments, command_line: str, console: Console) -> int:
    """Run the rows that are left, and write and print the results; return 1 if a run failed. InputError: rows, seeds,
    data or the root cannot be used. StoppedBySignalError: a signal ended it early."""
    root = parsed.root or ROOT / f"ablation-{table.name}"
    if parsed.dry_run:
        _print_plan(table, parsed, root, console)
        return 0

    _check_outputs(root)
    progress = QueueProgress()
    interrupted = False
    if not parsed.report:
        planned = _plan(table, parsed, root)
        _check_data(run for run in planned if state_of(run.folder) != "finished")
        with watched(console, len(planned), "table") as tell:
            progress, interrupted = run_all(planned, parsed.split, _workers(parsed), tell)

    results = collect_results(table, root, parsed.split, reference=parsed.reference)
    if results.rows:
        _print_results(results, console)
        written = [*write_all(results, root, command_line), write_figure(results, root)]
        say(console, "written: " + ", ".join(map(str, written)))
    elif parsed.report:
        fix = "name the --root of the table and a --split its runs are evaluated on"
        raise InputError.at(root, f"has no finished run of {table.name} evaluated on {parsed.split}", fix=fix)

    for run in progress.failed:
        say(console, f"failed: {run.name}; see {log_of(run.folder)}", "bold red")
    if interrupted:
        raise StoppedBySignalError(f"stopped, and saved. Continue with: {command_line}")

    return 1 if progress.failed else 0


def _plan(table: AblationTable, parsed: AblateArguments, root: Path) -> list[PlannedRun]:
    basis = Basis(parsed.preset, parsed.overrides, root)
    return plan(table, table.choose(parsed.rows), parsed.seeds, basis)


def _workers(parsed: AblateArguments) -> Workers:
    return workers_for(parsed.config, parsed.jobs, divide_cores="threads" not in parsed.named)


def _check_outputs(root: Path) -> None:
    """Refuse (InputError), before anything is trained, a root where results cannot be written."""
    stop_on_errors(check_folder(f"--root {root}", root))
    if root.is_dir():
        files = [root / f"results.{ending}" for ending in ("md", "tex", "csv", "html")]
        stop_on_errors(fault for file in files for fault in check_file("result", file))


def _check_data(planned: Iterable[PlannedRun]) -> None:
    """Refuse (InputError), before anything is trained, a data set that the runs cannot read."""
    for run in planned:
        data = run.config.data
        path = data_folder(data.data)
        if run.config.towers.image_tower:
            find_layout(path, data, [])
        else:
            available_splits(path)


def _print_plan(table: AblationTable, parsed: AblateArguments, root: Path, console: Console) -> None:
    threads = _workers(parsed).threads
    for run in _plan(table, parsed, root):
        todo = commands(run, parsed.split, threads=threads)
        say(console, f"{run.name} ({state_of(run.folder)}):" + ("" if todo else " nothing to do"))
        for _, *arguments in todo:
            say(console, "    " + shlex.join(["python", *arguments]))


def _graded_cells(row: ResultRow) -> list[str]:
    """Return the graded metrics of a row, one cell per direction, one line per metric."""
    cells = []
    for way in DIRECTIONS:
        lines = [mean_and_spread(row.metrics.get(f"{way}_{key}")) for key in GRADED]
        cells.append("\n".join(lines))
    return cells


def _print_results(results: Results, console: Console) -> None:
    columns = [Column("row", text=True), Column("about", text=True, dropped=1), Column("seeds", dropped=3)]
    columns += [Column(f"{label}\nMRR\nnDCG@10", dropped=2) for label in DIRECTIONS.values()]
    columns += [Column("R@sum"), Column(f"− {results.reference}", dropped=5), Column("minutes", dropped=4)]
    table = FittingTable(results.table.name, columns)
    for row in results.rows:
        table.add_row(
            row.row.name,
            row.row.title,
            " ".join(map(str, row.seeds)),
            *_graded_cells(row),
            mean_and_spread(row.metrics[SUM]),
            against_shown(row),
            number(row.minutes),
        )

    console.print(table)
    for line in legend(results):
        say(console, line)
