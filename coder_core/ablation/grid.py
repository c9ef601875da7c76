"""Read a user's own table: a TOML file with rows, or with lists of values to be crossed.

    about = "word vectors against the vocabulary's threshold"
    reference = "random"

    [[rows]]
    name = "random"
    word-vectors = "random"

    [[rows]]
    name = "learned"
    about = "from the train captions"
    word-vectors = "learned"

or

    [grid]
    temperature = [0.05, 0.1]
    gamma = [0.2, 0.3]
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from coder_core.ablation.planning import changed
from coder_core.ablation.rows import AblationTable, Row
from coder_core.config.schema import RUN_NAME, Config, find_setting
from coder_core.console.faults import Fault, InputError, stop_on_errors

KEYS = {"about", "reference", "rows", "grid"}


def read_grid(path: Path) -> AblationTable:
    """Read the table of a TOML file.

    Raises:
        InputError: not TOML, unknown keys or values, a seed, a setting twice, rows without or with equal names.
    """
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
    faults = [] if rows else [Fault(str(path), "holds no row")]
    for name in dict.fromkeys(names):
        where = f"{path} row {name!r}"
        if names.count(name) > 1:
            faults.append(Fault(where, "is repeated"))
        if not RUN_NAME.fullmatch(name):
            expected = "at most 200 letters, digits, '.', '_' and '-'"
            faults.append(Fault(where, "cannot name a folder", expected))
    stop_on_errors(faults)
    for row in rows:  # names and types, before anything is trained
        changed(Config(), row.changes, f"{path} row {row.name}")
    reference = str(document.get("reference", names[0]))
    if reference not in names:
        raise InputError.at(f"{path} reference", f"is {reference!r}", f"one of {', '.join(names)}")
    return AblationTable(path.stem, str(document.get("about", path.stem)), "", tuple(rows), reference)


def _rows(tables: Any, path: Path) -> list[Row]:
    named = isinstance(tables, list) and all(
        isinstance(table, dict) and isinstance(table.get("name"), str) for table in tables
    )
    if not named:
        raise InputError.at(f"{path} rows", "are not all tables with a name", '[[rows]] and name = "…"')
    rows = []
    for table in tables:
        name, title = table.pop("name"), str(table.pop("about", ""))
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
    """Refuse seeds, which --seeds decides, and two spellings of one setting, of which one would be lost."""
    spellings: dict[str, list[str]] = {}
    for key in keys:
        setting = find_setting(key)
        spellings.setdefault(setting.key if setting else key, []).append(key)
    repeated = [f"{where}, {' and '.join(names)}" for names in spellings.values() if len(names) > 1]
    same, once, fix = "are the same setting", "every setting once", "remove all but one"
    faults = [Fault(names, same, once, fix) for names in repeated]
    if "seed" in spellings:
        fix = "remove it and give --seeds 0 1 2: every row is then run with each, and compared with their spread"
        faults.append(Fault(f"{where}, {spellings['seed'][0]}", "is not a setting of a row", fix=fix))
    stop_on_errors(faults)
