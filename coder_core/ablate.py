"""python -m coder_core.ablate TABLE --data …: the papers' tables, on your data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coder_core.ablation.papers import TABLES
from coder_core.ablation.rows import AblationTable, read_grid
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config, named_settings, parse, replaced
from coder_core.config.split_name import SplitName
from coder_core.console.faults import InputError, stop_on_errors
from coder_core.console.output import open_console, say
from coder_core.console.plain_files import check_file, check_folder
from coder_core.console.runner import asks_for_help, command
from coder_core.console.signals import StoppedBySignalError
from coder_core.console.tables import DIRECTIONS, GRADED, Column, FittingTable

if TYPE_CHECKING:
    from coder_core.ablation.planning import PlannedRun
    from coder_core.ablation.results import Results

ROOT = Path("checkpoints")
NO_FLAG = "is not a flag of an ablation"
DEFAULT_PRESET = "coder-flickr8k"
USAGE = """usage: python -m coder_core.ablate TABLE --data PATH [--preset NAME] [--seeds 0 1 2] [--jobs 2] [--key VALUE]

       python -m coder_core.ablate components --data f30k_precomp --preset coder-f30k-bigru --seeds 0 1 2
       python -m coder_core.ablate objectives --data f8k_precomp --rows infonce dcl --epochs 4
       python -m coder_core.ablate mine.toml --data f8k_precomp          your own grid: docs/training.md
       python -m coder_core.ablate components --report                   write the tables of finished runs

Every row and seed is an ordinary run below --root (checkpoints/ablation-TABLE). Give the same command again after an
interruption: finished runs are not run again, unfinished ones continue. Results: results.md, .tex, .csv and .html there."""


@dataclass(frozen=True)
class AblateArguments:
    """Rows and seeds to run. Every other flag is a setting of the runs, as in python -m coder_core.train, and
    applies to every row that does not set it itself."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    table: tyro.conf.Positional[str] = ""  # A table of the papers, or a TOML file with a grid of your own.
    preset: str = DEFAULT_PRESET
    """The full model that the rows change (python -m coder_core.train --help lists the presets)."""
    seeds: tuple[int, ...] = (0,)  # Each row is run once with each seed.
    rows: tuple[str, ...] = ()  # Names or numbers of the rows to run; empty: all.
    split: SplitName = "dev"  # Split to compare the rows on. Choose on dev; use test once.
    reference: str = ""  # Row the others are compared with; empty: the table's.
    root: Path | None = None  # Folder of the runs and results; empty: checkpoints/ablation-TABLE.
    jobs: int = 0
    """Concurrent runs; 0 is one per GPU, or one on the CPU. The CPU's cores are divided among the runs."""
    report: bool = False  # Train nothing; write the tables of finished runs.
    dry_run: bool = False  # Show the commands and train nothing.


@command
def main(arguments: list[str]) -> int:
    """Run the rows of a table and write its results. Return 1 if a run failed."""
    console = open_console()
    if not arguments or asks_for_help(arguments):
        _print_tables(console)
        if arguments:
            _parse(["--help"], PRESETS[DEFAULT_PRESET].config)
        return 0
    parsed = read_arguments(arguments)
    return _run(_find_table(parsed.table), parsed, arguments, console)


def _print_tables(console: Console) -> None:
    say(console, USAGE)
    listing = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    listing.add_column(no_wrap=True, style="bold")
    listing.add_column()
    for table in TABLES.values():
        rows = ", ".join(row.name for row in table.rows)
        source = f" ({table.source})" if table.source else ""
        listing.add_row(table.name, Text(f"{table.title}{source}\nrows: {rows}"))
    say(console, "\nTables:\n")
    console.print(listing, width=min(console.width, 120))


def _find_table(name: str) -> AblationTable:
    if name in TABLES:
        return TABLES[name]
    if name.endswith(".toml"):
        return read_grid(Path(name))
    raise InputError.at(f"table {name!r}", "does not exist", f"one of {', '.join(TABLES)}, or a .toml file")


def read_arguments(arguments: Sequence[str]) -> AblateArguments:
    """Read the command line, with the preset it names as defaults. InputError: an unknown preset, a repeated seed, or
    --seed or --name, which the command sets."""
    parsed = _parse(arguments, Config())
    named = {setting.key: setting.of(parsed.config) for setting in named_settings(arguments)}
    if "seed" in named:
        raise InputError.at("--seed", NO_FLAG, "--seeds 0 1 2")
    if parsed.config.name:
        raise InputError.at("--name", NO_FLAG, "--root: runs are named by row and seed")
    if parsed.preset not in PRESETS:
        raise InputError.at(f"--preset {parsed.preset}", "does not exist", f"one of {', '.join(PRESETS)}")
    if len(set(parsed.seeds)) < len(parsed.seeds):
        seeds = " ".join(map(str, parsed.seeds))
        raise InputError.at(f"--seeds {seeds}", "repeats a seed", "different seeds, one run each")
    return replace(parsed, config=replaced(PRESETS[parsed.preset].config, named))


def _parse(arguments: Sequence[str], config: Config) -> AblateArguments:
    description = "Repeat an ablation of the paper on your data."
    prog = "python -m coder_core.ablate"
    return parse(arguments, AblateArguments(config), prog=prog, description=description)


def _run(table: AblationTable, parsed: AblateArguments, arguments: Sequence[str], console: Console) -> int:
    from coder_core.ablation.planning import gpus, named_flags, plan
    from coder_core.ablation.results import collect
    from coder_core.ablation.running import LOGS, run_all, watching
    from coder_core.ablation.writing import write_all, write_figure
    from coder_core.console.processes import processors

    command_line = shlex.join(["python", "-m", "coder_core.ablate", *arguments])
    root = parsed.root or ROOT / f"ablation-{table.name}"
    interrupted = False
    failed = list["PlannedRun"]()
    if not parsed.dry_run:
        _check_outputs(root)
    if not parsed.report:
        overrides = named_flags(arguments, parsed.config)
        rows = table.choose(parsed.rows)
        devices = [] if parsed.config.training.device == "cpu" else gpus()
        jobs = parsed.jobs or max(1, len(devices))
        threads = max(1, processors() // jobs) if jobs > 1 and "threads" not in overrides else 0
        planned = plan(table, rows, parsed.seeds, preset=parsed.preset, overrides=overrides, root=root)
        if parsed.dry_run:
            _print_plan(planned, parsed.split, threads, console)
            return 0
        _check_data(planned)
        with watching(console, len(planned)) as tell:
            progress, interrupted = run_all(
                planned, parsed.split, jobs=jobs, threads=threads, gpus=devices, tell=tell
            )
        failed = progress.failed
    results = collect(table, root, parsed.split, reference=parsed.reference)
    if results.rows:
        _print_results(results, console)
        written = [*write_all(results, root, command_line), write_figure(results, root)]
        say(console, "written: " + ", ".join(map(str, written)))
    elif parsed.report:
        fix = "name the --root of the table and a --split its runs are evaluated on"
        raise InputError.at(root, f"has no finished run of {table.name} evaluated on {parsed.split}", fix=fix)
    for run in failed:
        say(console, f"failed: {run.folder.name}; see {root / LOGS / run.folder.name}.log", "bold red")
    if interrupted:
        raise StoppedBySignalError(f"stopped, and saved. Continue with: {command_line}")
    return 1 if failed else 0


def _check_outputs(root: Path) -> None:
    """Refuse (InputError), before anything is trained, a root where results cannot be written."""
    stop_on_errors(check_folder(f"--root {root}", root))
    if root.is_dir():
        files = [root / f"results.{ending}" for ending in ("md", "tex", "csv", "html")]
        stop_on_errors(fault for file in files for fault in check_file("result", file))


def _check_data(planned: Sequence[PlannedRun]) -> None:
    """Refuse (InputError), before anything is trained, a data set that the unfinished runs cannot read."""
    from coder_core.ablation.planning import state_of
    from coder_core.data.captioned.layouts import find_layout
    from coder_core.data.dataset import available_splits
    from coder_core.model.splits import data_folder

    for config in (run.config for run in planned if state_of(run.folder) != "finished"):
        path = data_folder(config.data.data)
        find_layout(path, config.data, []) if config.towers.image_tower else available_splits(path)


def _print_plan(planned: Sequence[PlannedRun], split: str, threads: int, console: Console) -> None:
    from coder_core.ablation.planning import commands, state_of

    for run in planned:
        todo = commands(run, split, threads=threads)
        say(console, f"{run.folder.name} ({state_of(run.folder)}):" + ("" if todo else " nothing to do"))
        for todo_command in todo:
            say(console, "    " + shlex.join(["python", *todo_command[1:]]))


def _print_results(results: Results, console: Console) -> None:
    from coder_core.ablation.results import SUM
    from coder_core.ablation.writing import against_shown, legend, number, shown

    columns = [Column("row", text=True), Column("about", text=True, dropped=1), Column("seeds", dropped=3)]
    columns += [Column(f"{label}\nMRR\nnDCG@10", dropped=2) for label in DIRECTIONS.values()]
    columns += [Column("R@sum"), Column(f"− {results.reference}", dropped=5), Column("minutes", dropped=4)]
    table = FittingTable(results.table.name, columns)
    for row in results.rows:
        cells = [row.row.name, row.row.title, " ".join(map(str, row.seeds))]
        cells += ["\n".join(shown(row.metrics.get(f"{way}_{key}")) for key in GRADED) for way in DIRECTIONS]
        table.add_row(*cells, shown(row.metrics[SUM]), against_shown(row), number(row.minutes))
    console.print(table)
    for line in legend(results):
        say(console, line)


if __name__ == "__main__":
    raise SystemExit(main())
