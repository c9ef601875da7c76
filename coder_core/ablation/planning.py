"""Turn rows and seeds into ordinary runs: their configurations, the state of their folders, and the commands left."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from coder_core.ablation.rows import AblationTable, Change, Row, Times
from coder_core.config.checks import problems
from coder_core.config.command_line import changed_flags, named_settings
from coder_core.config.presets import PRESETS, tuned_for
from coder_core.config.schema import MAY_CHANGE, Config, differences, find_setting, with_settings
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.processes import module_command
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import list_splits
from coder_core.runs.load import best_save, read_config
from coder_core.runs.status import read_status

State = Literal["finished", "begun", "new"]
TRAINED_SPLIT = "dev"  # the trainer evaluates it itself


@dataclass(frozen=True)
class PlannedRun:
    """One row with one seed.

    Args:
        row: of the table. seed: of the run. folder: of the run. preset: it starts from. config: every setting.
        reads: folders of the runs that must be finished before.
    """

    row: Row
    seed: int
    folder: Path
    preset: str
    config: Config
    reads: tuple[Path, ...] = ()


def run_name(row: str, seed: int) -> str:
    """The name of the run folder of a row."""
    return f"{row}-s{seed}"


def plan(
    table: AblationTable,
    rows: Iterable[Row],
    seeds: Sequence[int],
    *,
    preset: str,
    overrides: Mapping[str, Any],
    root: Path,
) -> list[PlannedRun]:
    """All runs of the rows, seed by seed, so that every row has a result early.

    Raises:
        InputError: a row cannot be built from the preset, has impossible values, or `root` holds its run with others;
            it reads a run that is neither among these nor finished; every row sets an override itself.
    """
    rows = list(rows)
    stop_on_errors(_without_effect(rows, overrides))
    runs = list[PlannedRun]()
    for seed in seeds:
        for row in rows:
            folder = root / run_name(row.name, seed)
            start, config = row_config(table, row, preset, overrides, name=folder.name, seed=seed, root=root)
            stop_on_errors(problems(config))
            reads = tuple(root / run_name(name, seed) for name in row.runs().values())
            runs.append(PlannedRun(row, seed, folder, start, config, reads))
    for run in runs:
        _check_same_values(run)
    stop_on_errors(_missing(runs))
    return runs


def _without_effect(rows: Sequence[Row], overrides: Mapping[str, Any]) -> list[Fault]:
    """Overrides that would change no row."""
    fix = "leave it out, choose other --rows, or write a table of your own (docs/training.md)"
    return [
        Fault(f"--{flag} {value}", f"has no effect: every chosen row sets --{flag} itself", fix=fix)
        for flag, value in overrides.items()
        if all(
            not isinstance(row.changes.get(flag, Times(1)), Times) and row.changes[flag] != value
            for row in rows
        )
    ]


def _missing(runs: Sequence[PlannedRun]) -> list[Fault]:
    planned = {run.folder for run in runs}
    return [
        Fault(str(run.folder), f"reads {read}, which is not finished", fix=f"add {name} to --rows")
        for run in runs
        for read, name in zip(run.reads, run.row.runs().values(), strict=True)
        if read not in planned and state_of(read) != "finished"
    ]


def row_config(
    table: AblationTable,
    row: Row,
    preset: str,
    overrides: Mapping[str, Any],
    *,
    name: str,
    seed: int,
    root: Path = Path(),
) -> tuple[str, Config]:
    """The preset a row starts from and its configuration.

    A preset tuned for the row's loss (`presets.tuned_for`) takes the place of `preset`. The overrides of the command
    line come on top, the changes of the row last; those that name a run of another row find it below `root`.

    Raises:
        InputError: the row needs a part that the preset leaves out.
    """
    loss = row.changes.get("loss")
    start = tuned_for(preset, loss) if isinstance(loss, str) else preset
    place = f"{table.name} row {row.name}"
    config = changed(PRESETS[start].config, overrides, place)
    runs = {flag: str(root / run_name(value, seed)) for flag, value in row.runs().items()}
    config = changed(config, {**row.changes, **runs, "seed": seed}, place)
    missing = [flag for flag in row.needs if not value_of(config, flag)]
    if missing:
        fix = f"give {' and '.join(f'--{flag} N' for flag in missing)}, or choose a preset that has them"
        raise InputError(
            [Fault(place, f"needs {flag}, which preset {start} leaves out", fix=fix) for flag in missing]
        )
    return start, replace(config, name=name)


def changed(config: Config, changes: Mapping[str, Any], place: str) -> Config:
    """Apply the changes of a row.

    Args:
        changes: flag → value; `Times` multiplies the configuration's value. place: of the changes, for messages.

    Raises:
        InputError: an unknown flag, a value of the wrong type or out of range.
    """
    values = {}
    for flag, value in changes.items():
        before = value_of(config, flag)
        values[flag] = type(before)(round(before * value.factor)) if isinstance(value, Times) else value
    return with_settings(config, values, place)


def value_of(config: Config, flag: str) -> Any:
    """The value of a setting, named by its flag; None when there is no such setting."""
    setting = find_setting(flag)
    return getattr(getattr(config, setting.section), setting.key) if setting else None


def named_flags(arguments: Sequence[str], config: Config) -> dict[str, Change]:
    """The values of `config` that the arguments name, those that equal the default included."""
    return {
        setting.flag.removeprefix("--"): value_of(config, setting.flag)
        for setting in named_settings(arguments)
    }


def _check_same_values(run: PlannedRun) -> None:
    if state_of(run.folder) == "new":
        return
    stored, _ = read_config(run.folder)
    changes = {
        key: values for key, values in differences(stored, run.config).items() if key not in MAY_CHANGE
    }
    if changes:
        text = ", ".join(f"{key} {stored!r} (now {wanted!r})" for key, (stored, wanted) in changes.items())
        fix = "give the values it was begun with, or choose another --root"
        raise InputError(Fault(str(run.folder), f"is a run with other values: {text}", fix=fix))


def state_of(folder: Path) -> State:
    """State of a run."""
    if not (folder / "config.toml").is_file():
        return "new"
    return "finished" if (read_status(folder) or {}).get("state") == "finished" else "begun"


def is_evaluated(folder: Path, split: str) -> bool:
    """True if the run's best model has been evaluated on a split."""
    return (
        split in list_splits(folder)
        and open_analysis(folder, split).fingerprint == best_save(folder).fingerprint
    )


def commands(run: PlannedRun, split: str, *, threads: int = 0) -> list[tuple[str, ...]]:
    """The commands left, in this order; none when the run is finished and evaluated.

    Args:
        split: to evaluate. threads: CPU threads of the run; 0 leaves what the configuration says.
    """
    folder, state = run.folder, state_of(run.folder)
    left = []
    shared = [f"--threads={threads}"] if threads else []
    if state == "new":
        flags = changed_flags(PRESETS[run.preset].config, run.config)
        flags = [flag for flag in flags if not (threads and flag.startswith("--threads="))]
        destination = [f"--root={folder.parent}", f"--name={folder.name}"]
        left.append(module_command("coder_core.train", run.preset, *flags, *shared, *destination))
    elif state == "begun" or not is_evaluated(folder, TRAINED_SPLIT):
        left.append(module_command("coder_core.train", "--resume", str(folder), *shared))
    if split != TRAINED_SPLIT and not (state == "finished" and is_evaluated(folder, split)):
        data = f"--data={run.config.data.data}"
        left.append(module_command("coder_core.evaluate", str(folder), f"--split={split}", data))
    return left


def processors() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus() -> list[str]:
    """The GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return names.split(",")[:count] if names else [str(i) for i in range(count)]
