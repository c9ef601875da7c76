"""Turn the rows and seeds of a table into planned runs, and refuse tables whose runs cannot be compared."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coder_core.ablation.rows import AblationTable, Row, Times, changed, value_of
from coder_core.api.listing import read_tables
from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS, tuned_for
from coder_core.config.schema import MAY_CHANGE, differences, find_setting, to_document
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.queue.planned import PlannedRun, check_same_values, state_of
from coder_core.runs.load import ABOUT

Values = dict[
    str, object
]  # dotted key → value of a run's configuration, also of keys and values of other versions
RunValues = list[tuple[Path, Values]]  # of the runs of one row


@dataclass(frozen=True)
class Basis:
    """What all rows of a table have in common."""

    preset: str
    overrides: Mapping[str, Any]  # flags of the command line, without dashes → value
    root: Path  # folder of the runs


def run_name(row: str, seed: int) -> str:
    """Return the name of a row's run folder."""
    return f"{row}-s{seed}"


def plan(table: AblationTable, rows: Iterable[Row], seeds: Sequence[int], basis: Basis) -> list[PlannedRun]:
    """Plan all runs of the rows, seed by seed, so that every row has a result early. InputError: a row cannot be built
    from the preset, has impossible values, has a run below the root with other values, or reads a run that is neither
    planned nor finished; an override has no effect because every row sets that flag; or the finished runs of the table
    have other settings than the planned ones."""
    rows = list(rows)
    stop_on_errors(_without_effect(rows, basis.overrides))
    runs = [planned_run(table, row, seed, basis) for seed, row in itertools.product(seeds, rows)]
    for run in runs:
        stop_on_errors(problems(run.config))
    for run in runs:
        check_same_values(run.folder, run.config)
    stop_on_errors(_missing(runs))
    finished = {row.name: finished_runs(row.name, basis.root) for row in table.rows}
    check_comparable(table, finished, runs)
    return runs


def planned_run(table: AblationTable, row: Row, seed: int, basis: Basis) -> PlannedRun:
    """Plan one row with one seed.

    A preset tuned for the row's loss (`presets.tuned_for`) replaces the basis's. Overrides from the command line are
    applied next, and the row's changes last; a change that refers to another row's run becomes its folder below the
    root. InputError: the row needs a part that the preset leaves out.
    """
    loss = row.changes.get("loss")
    preset = tuned_for(basis.preset, loss) if isinstance(loss, str) else basis.preset
    where = f"{table.name} row {row.name}"
    folder = basis.root / run_name(row.name, seed)
    reads = {flag: basis.root / run_name(name, seed) for flag, name in row.runs().items()}
    config = changed(PRESETS[preset].config, basis.overrides, where)
    paths = {flag: str(path) for flag, path in reads.items()}
    config = changed(config, {**row.changes, **paths, "seed": seed}, where)
    missing = [flag for flag in row.needs if not value_of(config, flag)]
    if missing:
        fact = f"needs {' and '.join(missing)}, which preset {preset} sets to 0"
        flags = " and ".join(f"--{flag} N" for flag in missing)
        raise InputError.at(where, fact, fix=f"give {flags}, or leave the row out with --rows")
    config = replace(config, name=folder.name)
    return PlannedRun(folder, config, preset, row.name, tuple(reads.values()))


def finished_runs(row: str, root: Path) -> dict[int, Path]:
    """Return the finished runs of a row below `root`, whatever their seed: seed → folder, by seed."""
    seeds = {folder.name.removeprefix(f"{row}-s"): folder for folder in root.glob(f"{row}-s*")}
    finished = {
        int(seed): folder
        for seed, folder in seeds.items()
        if seed.isdecimal() and state_of(folder) == "finished"
    }
    return dict(sorted(finished.items()))


def check_comparable(
    table: AblationTable, finished: Mapping[str, Mapping[int, Path]], planned: Sequence[PlannedRun] = ()
) -> None:
    """Refuse (InputError) runs of one row that differ in more than the seed, and rows that differ in a setting that
    neither a row nor the preset of a row's loss changes. `finished`: row → seed → run folder."""
    rows: list[RunValues] = []
    for name, folders in finished.items():
        values = {folder: _values(read_tables(folder)[0]) for folder in folders.values()}
        values |= {run.folder: _values(to_document(run.config)) for run in planned if run.row == name}
        if values:
            rows.append(list(values.items()))
    between_seeds = MAY_CHANGE | {"training.seed", "training.tensorboard", "training.wandb"}
    for runs in rows:
        for run in runs[1:]:
            _check_pair(runs[0], run, [between_seeds])
    between_rows = list(_between_rows(table, between_seeds))
    for runs in rows[1:]:
        _check_pair(rows[0][0], runs[0], between_rows)


def _between_rows(table: AblationTable, between_seeds: set[str]) -> Iterator[set[str]]:
    """Yield the settings that may differ between rows, for each preset the table may have been trained with."""
    changes = [find_setting(flag) for row in table.rows for flag in row.changes]
    of_rows = between_seeds | {setting.path for setting in changes if setting is not None}
    losses = {str(row.changes["loss"]) for row in table.rows if "loss" in row.changes}
    for name, preset in PRESETS.items():
        tuned = [PRESETS[tuned_for(name, loss)].config for loss in losses]
        yield of_rows.union(*(differences(preset.config, config) for config in tuned))


def _values(tables: Mapping[str, Any]) -> Values:
    sections = {name: table for name, table in tables.items() if isinstance(table, dict) and name != ABOUT}
    return {f"{name}.{key}": value for name, table in sections.items() for key, value in table.items()}


def _check_pair(first: tuple[Path, Values], second: tuple[Path, Values], allowed: Sequence[set[str]]) -> None:
    """Refuse (InputError) two runs that differ in other settings than those of one of the `allowed` sets."""
    first_folder, before = first
    second_folder, after = second
    differing = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    if after.get("towers.projection") == "none":
        differing.discard("model.dimension")  # set by the towers once a run begins
    unlike = min((differing - keys for keys in allowed), key=len)
    if unlike:
        texts = [f"{key} {before.get(key)!r} and {after.get(key)!r}" for key in sorted(unlike)]
        fact = f"has other settings than {first_folder}, in the same table: {', '.join(texts)}"
        fix = "give runs with other values another --root, or remove one and repeat its row"
        raise InputError.at(second_folder, fact, fix=fix)


def _without_effect(rows: Sequence[Row], overrides: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield a fault for each override that would change no row."""
    fix = "leave it out, choose other --rows, or write a table of your own (docs/training.md)"
    for flag, value in overrides.items():
        of_rows = [row.changes.get(flag, Times(1)) for row in rows]
        if all(not isinstance(of_row, Times) and of_row != value for of_row in of_rows):
            fact = f"has no effect: every chosen row sets --{flag} itself"
            yield Fault(f"--{flag} {value}", fact, fix=fix)


def _missing(runs: Sequence[PlannedRun]) -> Iterator[Fault]:
    """Yield a fault for each run that a planned run reads, but that is neither planned nor finished."""
    planned = {run.folder for run in runs}
    for run in runs:
        for read in run.reads:
            if read not in planned and state_of(read) != "finished":
                row, _, _ = read.name.rpartition("-s")
                yield Fault(
                    str(run.folder), f"needs {read}, which is not finished", fix=f"add {row} to --rows"
                )
