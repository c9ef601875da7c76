"""python -m coder_core.ablate TABLE --data …: the papers' tables, on your data."""

from __future__ import annotations

if __name__ == "__main__":
    from coder_core.cpu.environment import tune_environment

    tune_environment()  # before torch loads

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coder_core.ablation.board import watching
from coder_core.ablation.figure import write_figure
from coder_core.ablation.grid import read_grid
from coder_core.ablation.planning import PlannedRun, commands, gpus, named_flags, plan, processors, state_of
from coder_core.ablation.results import SUM, Results, collect
from coder_core.ablation.rows import AblationTable
from coder_core.ablation.running import LOGS, run_all
from coder_core.ablation.tables import TABLES
from coder_core.ablation.writing import against_shown, legend, shown, write_all
from coder_core.config.presets import PRESETS
from coder_core.config.schema import Config
from coder_core.console.display import print_faults, say
from coder_core.console.exit_status import leave
from coder_core.console.faults import Fault, InputError

ROOT = Path("checkpoints")
DEFAULT_PRESET = "coder-flickr8k"
USAGE = """usage: python -m coder_core.ablate TABLE --data PATH [--preset NAME] [--seeds 0 1 2] [--jobs 2] [--key VALUE]

       python -m coder_core.ablate components --data f30k_precomp --preset coder-f30k-bigru --seeds 0 1 2
       python -m coder_core.ablate objectives --data f8k_precomp --rows infonce dcl --epochs 4
       python -m coder_core.ablate mine.toml --data f8k_precomp          your own grid: docs/ablations.md
       python -m coder_core.ablate components --report                   write the tables from what is there

Every row and seed is an ordinary run below --root (checkpoints/ablation-TABLE). Give the same command again after an
interruption: finished runs are not run again, begun ones go on. Results: results.md, .tex, .csv and .html there."""


@dataclass(frozen=True)
class Arguments:
    """What to run. Everything else is a value of the runs, as in python -m coder_core.train, and holds for every row
    that does not change it itself."""

    config: Annotated[Config, tyro.conf.arg(name="")]
    preset: str = DEFAULT_PRESET
    """The full model that the rows depart from (python -m coder_core.train --help lists the presets)."""
    seeds: tuple[int, ...] = (0,)
    """One run of every row for each."""
    rows: tuple[str, ...] = ()
    """Names or numbers of the rows to run; all without it."""
    split: str = "dev"
    """Split the rows are compared on. Choose on dev; look at test once."""
    reference: str = ""
    """Row the others are compared with; empty takes the table's."""
    root: Path | None = None
    """Folder of the runs and results; empty is checkpoints/ablation-TABLE."""
    jobs: int = 0
    """Runs at a time; 0 is one for each GPU, or one on the CPU, whose cores are divided among the runs."""
    report: bool = False
    """Train nothing; write the tables from the runs that are there."""
    dry_run: bool = False
    """Show the commands and train nothing."""


def _say_tables(console: Console) -> None:
    say(console, USAGE)
    table = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    for found in TABLES.values():
        rows = ", ".join(row.name for row in found.rows)
        source = f" ({found.source})" if found.source else ""
        table.add_row(found.name, Text(f"{found.about}{source}\nrows: {rows}"))
    say(console, "\nTables:\n")
    console.print(table)


def _find_table(name: str) -> AblationTable:
    if name in TABLES:
        return TABLES[name]
    if name.endswith(".toml"):
        return read_grid(Path(name))
    raise InputError(Fault(f"table {name!r}", "is not there", f"one of {', '.join(TABLES)}, or a .toml file"))


def _parse(arguments: Sequence[str]) -> Arguments:
    """Read the flags on top of the preset they name."""
    preset = DEFAULT_PRESET
    for place, argument in enumerate(arguments):
        if argument == "--preset" and place + 1 < len(arguments):
            preset = arguments[place + 1]
        preset = argument.removeprefix("--preset=") if argument.startswith("--preset=") else preset
    if preset not in PRESETS:
        raise InputError(Fault(f"--preset {preset}", "is not there", f"one of {', '.join(PRESETS)}"))
    for refused, instead in (("--seed", "--seeds 0 1 2"), ("--name", "--root: runs are named by row and seed")):
        if any(argument.split("=")[0] == refused for argument in arguments):
            raise InputError(Fault(refused, "is not a flag of an ablation", instead))
    return tyro.cli(
        tyro.conf.OmitArgPrefixes[Arguments],
        prog="python -m coder_core.ablate TABLE",
        description="Repeat an ablation of the paper on your data.",
        args=list(arguments),
        default=Arguments(PRESETS[preset].config),
    )


def _show_plan(planned: Sequence[PlannedRun], split: str, threads: int, console: Console) -> None:
    for one in planned:
        todo = commands(one, split, threads=threads)
        say(console, f"{one.folder.name} ({state_of(one.folder)}):" + ("" if todo else " nothing to do"))
        for command in todo:
            say(console, "    " + shlex.join(["python", *command[1:]]))


def show(results: Results, console: Console) -> None:
    """The table in short, on the terminal."""
    table = Table(title=results.table.name, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("row", no_wrap=True)
    table.add_column("")
    for head in ("seeds", "R@sum", f"− {results.reference}", "minutes"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in results.rows:
        table.add_row(
            row.row.name, row.row.about, " ".join(map(str, row.seeds)), shown(row.metrics[SUM]), against_shown(row),
            f"{row.minutes:.1f}",
        )  # fmt: skip
    console.print(table)
    for line in legend(results):
        say(console, line)


def _run(arguments: list[str], console: Console) -> int:
    if not arguments or {"-h", "--help"} & set(arguments):
        _say_tables(console)
        if arguments:
            _parse(["--help"])
        return 0
    table, rest = _find_table(arguments[0]), arguments[1:]
    asked = _parse(rest)
    root = asked.root or ROOT / f"ablation-{table.name}"
    command = shlex.join(["python", "-m", "coder_core.ablate", *arguments])
    interrupted, failed = False, list[PlannedRun]()
    if not asked.report:
        overrides = named_flags(rest, asked.config)
        rows = table.choose(asked.rows)
        devices = [] if asked.config.training.device == "cpu" else gpus()
        jobs = asked.jobs or max(1, len(devices))
        threads = max(1, processors() // jobs) if jobs > 1 and "threads" not in overrides else 0
        planned = plan(table, rows, asked.seeds, preset=asked.preset, overrides=overrides, root=root)
        if asked.dry_run:
            _show_plan(planned, asked.split, threads, console)
            return 0
        with watching(console, len(planned)) as tell:
            progress, interrupted = run_all(
                planned, asked.split, jobs=jobs, threads=threads, gpus=devices, tell=tell
            )  # fmt: skip
        failed = progress.failed
    results = collect(table, root, asked.split, reference=asked.reference)
    if results.rows:
        show(results, console)
        written = [*write_all(results, root, command), write_figure(results, root)]
        say(console, "written: " + ", ".join(map(str, written)))
    for one in failed:
        say(console, f"failed: {one.folder.name}; what it said: {root / LOGS / one.folder.name}.log", "bold red")
    if interrupted:
        say(console, f"stopped, and saved. Continue with: {command}")
        return 3
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        0, 1 for an input that cannot be used or a run that failed, 3 when a signal stopped it.
    """
    console = Console()
    try:
        return _run(list(sys.argv[1:] if arguments is None else arguments), console)
    except InputError as error:
        print_faults(Console(stderr=True), error.faults)
        return 1


if __name__ == "__main__":
    leave(main)
