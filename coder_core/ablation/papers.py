"""The papers' ablations, by name, each with the figures its paper reports; read from the TOML files in `tables`.

Such a file has tables of rows, as a user's own, and sets of changes, which rows and other sets take over by `with`. A
change may be `{ times = 2 }`, a multiple of the preset's value, or `{ run-of = "row" }`, the run of another row.
`reported` are R@1, R@5 and R@10 image → text, then text → image; four numbers leave out R@10, two are R@1 alone.
"""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coder_core.ablation.rows import AblationTable, Change, Recalls, Row, RunOf, Times

FILES = ("coder", "sample_weights", "boosting")


def _change(value: Any) -> Change:
    if isinstance(value, dict):
        return Times(value["times"]) if "times" in value else RunOf(value["run-of"])
    change: Change = value
    return change


def _changes(entry: Mapping[str, Any], sets: Mapping[str, Any]) -> dict[str, Change]:
    inherited = _changes(sets[entry["with"]], sets) if "with" in entry else {}
    return inherited | {flag: _change(value) for flag, value in entry.items() if flag != "with"}


def _recalls(numbers: Sequence[float]) -> Recalls | None:
    half = len(numbers) // 2
    padded = [[*side, *(3 - half) * [None]] for side in (numbers[:half], numbers[half:])]
    return (*padded[0], *padded[1]) if numbers else None


def _row(entry: dict[str, Any], sets: Mapping[str, Any]) -> Row:
    changes = _changes({"with": entry.pop("with")} if "with" in entry else {}, sets)
    changes |= _changes(entry.pop("changes", {}), sets)
    needs, reported = tuple(entry.pop("needs", ())), _recalls(entry.pop("reported", ()))
    return Row(changes=changes, needs=needs, reported=reported, **entry)


def _read() -> dict[str, list[AblationTable]]:
    """The tables of every file."""
    folder = Path(__file__).parent / "tables"
    sets: dict[str, Any] = {}
    tables = {}
    for file in FILES:
        document = tomllib.loads((folder / f"{file}.toml").read_text("utf-8"))
        sets |= document.pop("changes")
        tables[file] = [
            AblationTable(name, rows=tuple(_row(row, sets) for row in table.pop("rows")), **table)
            for name, table in document.items()
        ]
    return tables


BY_PAPER = _read()
TABLES = {table.name: table for tables in BY_PAPER.values() for table in tables}
