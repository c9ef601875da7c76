"""coder-lab ablate TABLE --data …: the papers' tables, on your data."""

import shlex
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from coder_core.ablation.arguments import DEFAULT_PRESET, parse_ablation, read_ablation
from coder_core.ablation.papers import TABLES
from coder_core.ablation.rows import AblationTable, read_grid
from coder_core.config.presets import PRESETS
from coder_core.console.faults import InputError
from coder_core.console.output import open_console, say
from coder_core.console.runner import asks_for_help, command

USAGE = """usage: coder-lab ablate TABLE --data PATH [--preset NAME] [--seeds 0 1 2] [--jobs 2] [--key VALUE]

       coder-lab ablate components --data f30k_precomp --preset coder-f30k-bigru --seeds 0 1 2
       coder-lab ablate objectives --data f8k_precomp --rows infonce dcl --epochs 4
       coder-lab ablate mine.toml --data f8k_precomp          your own grid: docs/training.md
       coder-lab ablate components --report                   write the tables of finished runs

Every row and seed is an ordinary run below --root (checkpoints/ablation-TABLE). Give the same command again after an
interruption: finished runs are not run again, unfinished ones continue. Results: results.md, .tex, .csv and .html there."""


@command
def main(arguments: list[str]) -> int:
    """Run the rows of a table and write its results. Return 1 if a run failed."""
    console = open_console()
    if not arguments or asks_for_help(arguments):
        _print_tables(console)
        if arguments:
            parse_ablation(["--help"], PRESETS[DEFAULT_PRESET].config)
        return 0
    parsed = read_ablation(arguments)
    table = _find_table(parsed.table, trains=not parsed.report)
    command_line = shlex.join(["coder-lab", "ablate", *arguments])

    from coder_core.ablation.command import run_table

    return run_table(table, parsed, command_line, console)


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


def _find_table(name: str, *, trains: bool) -> AblationTable:
    if name in TABLES:
        return TABLES[name]
    if name.endswith(".toml"):
        return read_grid(Path(name), trains=trains)
    raise InputError.at(f"table {name!r}", "does not exist", f"one of {', '.join(TABLES)}, or a .toml file")


if __name__ == "__main__":
    raise SystemExit(main())
