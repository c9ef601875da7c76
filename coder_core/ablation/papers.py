"""The papers' ablations, by name, each with the figures its paper reports; read from the TOML files in `tables`.

Such a file has tables of rows, like a user's own, and named sets of changes, which rows and other sets include by `with`.
A change may be `{ times = 2 }`, a multiple of the preset's value, or `{ run-of = "row" }`, the run of another row.
A table with `axes` instead of `rows` has one row per combination of their entries, except rows whose names match the
pattern `skipped`. In `row_reference` and `run-of`, `{0}` is the name of the combination's first entry.
`reported` lists R@1, R@5 and R@10 image → text, then text → image; four numbers omit R@10, two are R@1 alone.
"""

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from coder_core.ablation.rows import AblationTable, Change, Recalls, Row, RunOf, Times

FILES = ("coder", "sample_weights", "boosting", "noise")


def _change(value: Any) -> Change:
    if isinstance(value, dict):
        return Times(value["times"]) if "times" in value else RunOf(value["run-of"])
    change: Change = value
    return change


def _changes(entry: Mapping[str, Any], sets: Mapping[str, Any]) -> dict[str, Change]:
    inherited = _changes(sets[entry["with"]], sets) if "with" in entry else {}
    return inherited | {flag: _change(value) for flag, value in entry.items() if flag != "with"}


def _recalls(numbers: Sequence[float]) -> Recalls | None:
    if not numbers:
        return None
    half = len(numbers) // 2
    missing = [None] * (3 - half)
    return (*numbers[:half], *missing, *numbers[half:], *missing)


def _all_changes(entry: dict[str, Any], sets: Mapping[str, Any]) -> dict[str, Change]:
    changes = _changes({"with": entry.pop("with")} if "with" in entry else {}, sets)
    return changes | _changes(entry.pop("changes", {}), sets)


def _row(entry: dict[str, Any], sets: Mapping[str, Any]) -> Row:
    changes = _all_changes(entry, sets)
    needs = tuple(entry.pop("needs", ()))
    reported = _recalls(entry.pop("reported", ()))
    return Row(changes=changes, needs=needs, reported=reported, **entry)


def _crossed(table: dict[str, Any], sets: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a table with axes, dropping changes that refer to the row's own run."""
    reference = table.pop("row_reference")
    skipped = table.pop("skipped")
    axes = [[(_all_changes(entry, sets), entry) for entry in axis] for axis in table.pop("axes")]
    for parts in itertools.product(*axes):
        entries = [entry for _, entry in parts]
        names = [entry["name"] for entry in entries]
        titles = [entry["title"] for entry in entries]
        name = "-".join(names)
        if fnmatch(name, skipped):
            continue

        changes = dict[str, Change]()
        for of_part, _ in parts:
            changes |= of_part
        for flag, value in list(changes.items()):
            if isinstance(value, RunOf):
                changes[flag] = RunOf(_filled(value.row, names))
        yield Row(
            name,
            ", ".join(titles),
            {flag: value for flag, value in changes.items() if value != RunOf(name)},
            needs=tuple(need for entry in entries for need in entry.get("needs", ())),
            x=next(entry["x"] for entry in entries if "x" in entry),
            group=titles[0],
            variant=titles[-1],
            reference=_filled(reference, names),
        )


def _filled(text: str, names: Sequence[str]) -> str:
    """Replace {0}, {1} … by the names of a combination's entries."""
    for number, name in enumerate(names):
        text = text.replace(f"{{{number}}}", name)
    return text


def _rows(table: dict[str, Any], sets: Mapping[str, Any]) -> tuple[Row, ...]:
    return tuple(_crossed(table, sets) if "axes" in table else (_row(row, sets) for row in table.pop("rows")))


def _read() -> dict[str, list[AblationTable]]:
    """Read the tables of every file."""
    folder = Path(__file__).parent / "tables"
    sets = dict[str, Any]()
    tables = {}
    for file in FILES:
        document = tomllib.loads((folder / f"{file}.toml").read_text("utf-8"))
        sets |= document.pop("changes")
        tables[file] = [
            AblationTable(name, rows=_rows(table, sets), **table) for name, table in document.items()
        ]
    return tables


BY_PAPER = _read()
TABLES = {table.name: table for tables in BY_PAPER.values() for table in tables}
