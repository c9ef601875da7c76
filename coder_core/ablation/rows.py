"""Parts of an ablation: rows of changed settings, and the figures that a paper reports for each. docs/training.md shows
the TOML files of a user's own tables, with rows or with lists of values to combine.
"""

import itertools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coder_core.config.schema import RUN_NAME, Config, find_setting, with_settings
from coder_core.console.faults import Fault, InputError, stop_on_errors

KEYS = {"about", "reference", "rows", "grid"}  # of a user's table
Recalls = tuple[float | None, ...]
"""R@1, R@5, R@10 image→text, then text→image, in percent; None if the paper does not report it."""


@dataclass(frozen=True)
class Times:
    """A multiple of the preset's value."""

    factor: float


@dataclass(frozen=True)
class RunOf:
    """The folder of another row's run with the same seed, below the same root."""

    row: str


Change = str | int | float | bool | Times | RunOf


@dataclass(frozen=True)
class Row:
    """One row."""

    name: str  # of the row and, with the seed, of its run folders
    title: str  # a few words
    changes: Mapping[str, Change] = field(default_factory=dict)  # flag without dashes in front → value
    needs: tuple[str, ...] = ()  # flags that must not be 0 in this row
    reported: Recalls | None = None  # the paper's figures
    source: str = ""  # where the paper prints them
    # x, group, variant: position and line in a plot, with one colour per group and one dash pattern per variant
    x: float | None = None
    group: str = ""
    variant: str = ""
    reference: str = ""  # the row this one is compared with; "" for the table's

    def runs(self) -> dict[str, str]:
        """Map flags to the rows whose runs they refer to."""
        return {flag: value.row for flag, value in self.changes.items() if isinstance(value, RunOf)}


@dataclass(frozen=True)
class AblationTable:
    """A table of a paper, or a user's own."""

    name: str  # as on the command line
    title: str  # the question it answers
    rows: tuple[Row, ...]  # in order
    reference: str  # the row the others are compared with
    source: str = ""  # where the paper prints it
    x_name: str = ""  # the meaning of `Row.x`, if the table is drawn as a curve
    quoted: str = "CODER, Flickr30K test, BERT"  # the model and data of the reported figures
    compared_with: str = ""  # describes `Row.reference`, if rows have their own references

    def choose(self, names: Sequence[str]) -> tuple[Row, ...]:
        """Return the rows with these names (or numbers, from 1); all if none is named. InputError: no such row."""
        by_name = {row.name: row for row in self.rows}
        by_name |= {str(number): row for number, row in enumerate(self.rows, 1)}
        unknown = [name for name in names if name not in by_name]
        if unknown:
            expected = f"one of {', '.join(row.name for row in self.rows)}"
            problem = f"is not a row of {self.name}"
            raise InputError([Fault(f"--rows {name}", problem, expected) for name in unknown])
        selection = [by_name[name] for name in names]
        return tuple(row for row in self.rows if row in selection or not names)


def changed(config: Config, changes: Mapping[str, Any], where: str) -> Config:
    """Apply the changes of a row; error messages begin with `where`. InputError: an unknown flag, a value of the wrong
    type or out of range."""
    values = {}
    for flag, value in changes.items():
        if isinstance(value, Times):
            before = value_of(config, flag)
            value = type(before)(round(before * value.factor))
        values[flag] = value
    return with_settings(config, values, where)


def value_of(config: Config, flag: str) -> Any:
    """Return the value of the setting with this flag; None if it does not exist."""
    setting = find_setting(flag)
    return setting.of(config) if setting else None


def read_grid(path: Path, *, trains: bool = True) -> AblationTable:
    """Read a table from a TOML file. InputError: not TOML, a seed, a repeated setting, rows whose names are missing or
    repeated, or, if the table `trains`, settings or values that this version does not know."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.at(path, f"cannot be read ({error})", "a grid in TOML") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError.at(path, f"is not TOML: {error}") from None

    expected = f"one of {', '.join(KEYS)}"
    unknown = sorted(set(document) - KEYS)
    stop_on_errors(Fault(f"{path} key {key}", "is not known", expected) for key in unknown)
    if ("rows" in document) == ("grid" in document):
        raise InputError.at(path, "needs either [[rows]] or [grid]", fix="docs/training.md shows both")

    rows = _rows(document["rows"], path) if "rows" in document else _crossed(document["grid"], path)
    names = [row.name for row in rows]
    faults = [] if rows else [Fault(str(path), "has no rows")]
    for name in dict.fromkeys(names):
        where = f"{path} row {name!r}"
        if names.count(name) > 1:
            faults.append(Fault(where, "is repeated"))
        if not RUN_NAME.fullmatch(name):
            expected = "at most 200 letters, digits, '.', '_' and '-'"
            faults.append(Fault(where, "cannot name a folder", expected))

    stop_on_errors(faults)
    for row in rows if trains else ():  # check names and types before anything is trained
        changed(Config(), row.changes, f"{path} row {row.name}")

    reference = str(document.get("reference", names[0]))
    if reference not in names:
        raise InputError.at(f"{path} reference", f"is {reference!r}", f"one of {', '.join(names)}")

    return AblationTable(path.stem, str(document.get("about", path.stem)), tuple(rows), reference)


def _rows(tables: Any, path: Path) -> list[Row]:
    entries = tables if isinstance(tables, list) else [None]
    if not all(isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries):
        raise InputError.at(f"{path} rows", "are not all tables with a name", '[[rows]] and name = "…"')
    rows = []
    for table in tables:
        name = table.pop("name")
        title = str(table.pop("about", ""))
        _check_keys(table, f"{path} row {name}")
        rows.append(Row(name, title, table))
    return rows


def _crossed(grid: Any, path: Path) -> list[Row]:
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise InputError.at(f"{path} grid", "is not a table of lists", "temperature = [0.05, 0.1]")
    _check_keys(grid, f"{path} grid")
    rows = []
    for values in itertools.product(*grid.values()):
        changes = dict(zip(grid, values, strict=True))
        name = "-".join(f"{key}-{str(value).replace('/', '-').lower()}" for key, value in changes.items())
        rows.append(Row(name, ", ".join(f"{key} {value}" for key, value in changes.items()), changes))
    return rows


def _check_keys(keys: Iterable[str], where: str) -> None:
    """Refuse (InputError) seeds, which --seeds sets, and two spellings of a setting, as one would be lost."""
    spellings: dict[str, list[str]] = {}
    for key in keys:
        setting = find_setting(key)
        spellings.setdefault(setting.key if setting else key, []).append(key)
    repeated = [f"{where}, {' and '.join(names)}" for names in spellings.values() if len(names) > 1]
    same = "are the same setting"
    once = "every setting once"
    fix = "remove all but one"
    faults = [Fault(names, same, once, fix) for names in repeated]
    if "seed" in spellings:
        fix = "remove it and give --seeds 0 1 2, which runs every row with each seed and reports the spread"
        faults.append(Fault(f"{where}, {spellings['seed'][0]}", "is not a setting of a row", fix=fix))
    stop_on_errors(faults)
