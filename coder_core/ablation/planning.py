"""Turn rows and seeds into ordinary runs: configurations, the state of their folders, and commands still to run."""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from coder_core.ablation.rows import AblationTable, Change, Row, Times, changed, value_of
from coder_core.config.checks import problems
from coder_core.config.presets import PRESETS, tuned_for
from coder_core.config.schema import (
    MAY_CHANGE,
    Config,
    changed_flags,
    differences,
    find_setting,
    named_settings,
)
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.processes import module_command
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.analysis.tables import list_splits
from coder_core.runs.load import best_save, read_config
from coder_core.runs.status import read_status

State = Literal["finished", "begun", "new"]
TRAINED_SPLIT = "dev"  # the trainer itself evaluates this split


@dataclass(frozen=True)
class PlannedRun:
    """One row with one seed: the preset it starts from, all its settings, and the runs that must finish first."""

    row: Row
    folder: Path
    preset: str
    config: Config
    reads: tuple[Path, ...] = ()
    fit_warmup: bool = False  # the trainer may shorten the warm-up


def run_name(row: str, seed: int) -> str:
    """Return the name of a row's run folder."""
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
    """Plan all runs of the rows, seed by seed, so that every row has a result early. InputError: a row cannot be built
    from the preset, has impossible values, has a run below `root` with other values, or reads a run that is neither
    planned nor finished; an override has no effect because every row sets that flag; or the finished runs of the table
    have other settings than the planned ones."""
    rows = list(rows)
    stop_on_errors(_without_effect(rows, overrides))
    runs = list[PlannedRun]()
    for seed, row in itertools.product(seeds, rows):
        folder = root / run_name(row.name, seed)
        start, config = row_config(table, row, preset, overrides, name=folder.name, seed=seed, root=root)
        stop_on_errors(problems(config))
        reads = tuple(root / run_name(name, seed) for name in row.runs().values())
        runs.append(PlannedRun(row, folder, start, config, reads))
    for run in runs:
        check_same_values(run.folder, run.config)
    stop_on_errors(_missing(runs))
    finished = {row.name: finished_runs(row.name, root) for row in table.rows}
    check_comparable(table, finished, runs)
    return runs


def finished_runs(row: str, root: Path) -> dict[int, Path]:
    """Return the finished runs of a row below `root`, whatever their seed: seed → folder."""
    seeds = {folder.name.removeprefix(f"{row}-s"): folder for folder in root.glob(f"{row}-s*")}
    return {
        int(seed): folder
        for seed, folder in sorted(seeds.items(), key=lambda item: (len(item[0]), item[0]))
        if seed.isdecimal() and state_of(folder) == "finished"
    }


def check_comparable(
    table: AblationTable, finished: Mapping[str, Mapping[int, Path]], planned: Sequence[PlannedRun] = ()
) -> None:
    """Refuse (InputError) runs of one row that differ in more than the seed, and rows that differ in a setting that
    neither a row nor the preset of a row's loss changes. `finished`: row → seed → run folder."""
    between_seeds = MAY_CHANGE | {"training.seed", "training.tensorboard"}
    changes = filter(None, (find_setting(flag) for row in table.rows for flag in row.changes))
    of_rows = between_seeds.union(f"{setting.section}.{setting.key}" for setting in changes)
    losses = {str(row.changes["loss"]) for row in table.rows if "loss" in row.changes}
    between_rows = [  # for each preset that the table may have been trained with
        of_rows.union(*(differences(preset.config, PRESETS[tuned_for(name, loss)].config) for loss in losses))
        for name, preset in PRESETS.items()
    ]
    rows = []
    for name, seeds in finished.items():
        configs = {folder: read_config(folder)[0] for folder in seeds.values()}
        configs |= {run.folder: run.config for run in planned if run.row.name == name}
        rows += [list(configs.items())] if configs else []
    pairs = [(of_row[0], run, [between_seeds]) for of_row in rows for run in of_row[1:]]
    pairs += [(rows[0][0], of_row[0], between_rows) for of_row in rows[1:]]
    for (first, before), (second, after), allowed in pairs:
        values = differences(before, after)
        if after.towers.projection == "none":
            values.pop("model.dimension", None)  # set by the towers once a run begins
        unlike = min((values.keys() - keys for keys in allowed), key=len)
        if unlike:
            texts = [f"{key} {values[key][0]!r} and {values[key][1]!r}" for key in sorted(unlike)]
            fact = f"has other settings than {first}, in the same table: {', '.join(texts)}"
            fix = "give runs with other values another --root, or remove one and repeat its row"
            raise InputError.at(second, fact, fix=fix)


def _without_effect(rows: Sequence[Row], overrides: Mapping[str, Any]) -> list[Fault]:
    """Return a fault for each override that would change no row."""
    fix = "leave it out, choose other --rows, or write a table of your own (docs/training.md)"
    faults = []
    for flag, value in overrides.items():
        row_values = [row.changes.get(flag, Times(1)) for row in rows]
        if all(not isinstance(row_value, Times) and row_value != value for row_value in row_values):
            problem = f"has no effect: every chosen row sets --{flag} itself"
            faults.append(Fault(f"--{flag} {value}", problem, fix=fix))
    return faults


def _missing(runs: Sequence[PlannedRun]) -> list[Fault]:
    planned = {run.folder for run in runs}
    return [
        Fault(str(run.folder), f"needs {read}, which is not finished", fix=f"add {name} to --rows")
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
    """Return the preset a row starts from, and its configuration.

    A preset tuned for the row's loss (`presets.tuned_for`) replaces `preset`. Overrides from the command line are applied
    next, and the row's changes last; a change that refers to another row's run becomes its folder below `root`.
    InputError: the row needs a part that the preset leaves out.
    """
    loss = row.changes.get("loss")
    start = tuned_for(preset, loss) if isinstance(loss, str) else preset
    where = f"{table.name} row {row.name}"
    config = changed(PRESETS[start].config, overrides, where)
    runs = {flag: str(root / run_name(value, seed)) for flag, value in row.runs().items()}
    config = changed(config, {**row.changes, **runs, "seed": seed}, where)
    missing = [flag for flag in row.needs if not value_of(config, flag)]
    if missing:
        fact = f"needs {' and '.join(missing)}, which preset {start} sets to 0"
        flags = " and ".join(f"--{flag} N" for flag in missing)
        raise InputError.at(where, fact, fix=f"give {flags}, or leave the row out with --rows")
    return start, replace(config, name=name)


def named_flags(arguments: Sequence[str], config: Config) -> dict[str, Change]:
    """Return the values in `config` of the flags in `arguments`, including values that equal the default."""
    flags = [setting.flag.removeprefix("--") for setting in named_settings(arguments)]
    return {flag: value_of(config, flag) for flag in flags}


def check_same_values(folder: Path, config: Config, *, fitted: bool = False) -> None:
    """Refuse (InputError) to continue a run that was started with values other than the planned ones; with `fitted`, the
    warm-up may differ, and a batch that was larger than the train split."""
    if state_of(folder) == "new":
        return
    stored, about = read_config(folder)
    changes = differences(stored, config)
    size = config.training.batch_size
    of_towers = {"model.dimension"} if config.towers.projection == "none" else set()  # set by the towers
    may_differ = MAY_CHANGE | of_towers | ({"training.warmup_steps"} if fitted else set())
    if fitted and size > about.get("train_captions", size):
        may_differ |= {"training.batch_size"}
    unlike = {key: values for key, values in changes.items() if key not in may_differ}
    texts = [f"{key} {old!r} (now {new!r})" for key, (old, new) in unlike.items()]
    if texts:
        fix = "give the values it was started with, or choose another --name or --root"
        raise InputError.at(folder, f"was started with other values: {', '.join(texts)}", fix=fix)


def state_of(folder: Path) -> State:
    """Return the state of a run."""
    if not (folder / "config.toml").is_file():
        return "new"
    return "finished" if (read_status(folder) or {}).get("state") == "finished" else "begun"


def is_evaluated(folder: Path, split: str) -> bool:
    """True if the run's best model has been evaluated on a split."""
    if split not in list_splits(folder):
        return False
    return open_analysis(folder, split).fingerprint == best_save(folder).fingerprint


def commands(run: PlannedRun, split: str, *, threads: int = 0) -> list[tuple[str, ...]]:
    """Return the commands still to run, in order; none if the run is finished and evaluated. With `threads` 0 the
    configuration's number of threads is used."""
    folder = run.folder
    state = state_of(run.folder)
    left = []
    shared = [f"--threads={threads}"] if threads else []
    if state == "new":
        warmup = f"--warmup-steps={run.config.training.warmup_steps}"  # explicit, so that it stays as planned
        flags = list(dict.fromkeys([warmup, *changed_flags(PRESETS[run.preset].config, run.config)]))
        flags = [flag for flag in flags if not (threads and flag.startswith("--threads="))]
        shared += ["--fit-warmup"] * run.fit_warmup
        destination = [f"--root={folder.parent}", f"--name={folder.name}"]
        left.append(module_command("coder_core.train", run.preset, *flags, *shared, *destination))
    elif state == "begun" or not is_evaluated(folder, TRAINED_SPLIT):
        left.append(module_command("coder_core.train", "--resume", str(folder), *shared))
    if split != TRAINED_SPLIT and not (state == "finished" and is_evaluated(folder, split)):
        data = f"--data={run.config.data.data}"
        left.append(module_command("coder_core.evaluate", str(folder), f"--split={split}", data))
    return left


def gpus() -> list[str]:
    """List the GPUs this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    count = torch.cuda.device_count()
    names = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return names.split(",")[:count] if names else [str(i) for i in range(count)]
