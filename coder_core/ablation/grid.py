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
from coder_core.console.faults import Fault, InputError

KEYS = {"about", "reference", "rows", "grid"}


def read_grid(path: Path) -> AblationTable:
    """The table in a TOML file.

    Raises:
        InputError: not TOML, unknown keys or values, a seed, a setting twice, rows without or with equal names.
    """
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Fault(str(path), f"cannot be read ({error})", "a grid in TOML")) from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(Fault(str(path), f"is not TOML: {error}")) from None
    unknown = sorted(set(document) - KEYS)
    if unknown:
        raise InputError(
            [Fault(f"{path} key {key}", "is not known", f"one of {', '.join(KEYS)}") for key in unknown]
        )
    if ("rows" in document) == ("grid" in document):
        raise InputError(
            Fault(str(path), "needs either [[rows]] or [grid]", fix="docs/training.md shows both")
        )
    rows = _rows(document["rows"], path) if "rows" in document else _crossed(document["grid"], path)
    names = [row.name for row in rows]
    places = {name: f"{path} row {name!r}" for name in names}
    faults = [Fault(places[name], "is repeated") for name in places if names.count(name) > 1]
    expected = "at most 200 letters, digits, '.', '_' and '-'"
    faults += [
        Fault(place, "cannot name a folder", expected)
        for name, place in places.items()
        if not RUN_NAME.fullmatch(name)
    ]
    faults += [] if rows else [Fault(str(path), "holds no row")]
    if faults:
        raise InputError(faults)
    for row in rows:
        changed(
            Config(), row.changes, f"{path} row {row.name}"
        )  # names and types, before anything is trained
    reference = str(document.get("reference", names[0]))
    if reference not in names:
        raise InputError(Fault(f"{path} reference", f"is {reference!r}", f"one of {', '.join(names)}"))
    return AblationTable(path.stem, str(document.get("about", path.stem)), "", tuple(rows), reference)


def _rows(tables: Any, path: Path) -> list[Row]:
    if not isinstance(tables, list) or not all(
        isinstance(row, dict) and isinstance(row.get("name"), str) for row in tables
    ):
        raise InputError(Fault(f"{path} rows", "are not all tables with a name", '[[rows]] and name = "…"'))
    changes = [{key: row[key] for key in row if key not in ("name", "about")} for row in tables]
    for row, values in zip(tables, changes, strict=True):
        _check_keys(values, f"{path} row {row['name']}")
    return [
        Row(row["name"], str(row.get("about", "")), values)
        for row, values in zip(tables, changes, strict=True)
    ]


def _crossed(grid: Any, path: Path) -> list[Row]:
    if not isinstance(grid, dict) or not all(isinstance(values, list) and values for values in grid.values()):
        raise InputError(Fault(f"{path} grid", "is not a table of lists", "temperature = [0.05, 0.1]"))
    _check_keys(grid, f"{path} grid")
    rows = []
    for values in itertools.product(*grid.values()):
        changes = dict(zip(grid, values, strict=True))
        name = "-".join(f"{key}-{str(value).replace('/', '-').lower()}" for key, value in changes.items())
        rows.append(Row(name, ", ".join(f"{key} {value}" for key, value in changes.items()), changes))
    return rows


def _check_keys(keys: Iterable[str], place: str) -> None:
    """Refuse seeds, which --seeds decides, and two spellings of one setting, of which one would be lost."""
    spellings: dict[str, list[str]] = {}
    for key in keys:
        setting = find_setting(key)
        spellings.setdefault(setting.key if setting else key, []).append(key)
    faults = [
        Fault(
            f"{place}, {' and '.join(names)}",
            "are the same setting",
            "every setting once",
            "remove all but one",
        )
        for names in spellings.values()
        if len(names) > 1
    ]
    if "seed" in spellings:
        fix = "remove it and give --seeds 0 1 2: every row is then run with each, and compared with their spread"
        faults.append(Fault(f"{place}, {spellings['seed'][0]}", "is no setting of a row", fix=fix))
    if faults:
        raise InputError(faults)
