"""Rows -> configurations -> command lines. Values are named as on the command line: `bank-size`, `loss`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from coder_core.ablation.rows import AblationTable, Change, Row, Times
from coder_core.config.presets import PRESETS, tuned_for
from coder_core.config.schema import Config, from_document, to_document
from coder_core.console.faults import Fault, InputError

PLACES: dict[str, tuple[str, str]] = {
    value.name.replace("_", "-"): (section.name, value.name)
    for section in fields(Config)
    if section.name != "name"
    for value in fields(getattr(Config(), section.name))
}
"""Flag → (section, key) of a configuration."""


def changed(config: Config, changes: Mapping[str, Any], place: str) -> Config:
    """The configuration with other values.

    Args:
        config: to start from.
        changes: flag → value; `Times` multiplies the value that is there.
        place: where the changes stand, for messages.

    Raises:
        InputError: an unknown flag, or a value of the wrong type.
    """
    document = to_document(config)
    for flag, value in changes.items():
        if flag.replace("_", "-") not in PLACES:
            fix = "python -m coder_core.train --help lists every value"
            raise InputError(Fault(f"{place}, {flag}", "is not a value of a run", "a flag such as bank-size", fix))
        section, key = PLACES[flag.replace("_", "-")]
        if isinstance(value, Times):
            value = type(document[section][key])(round(document[section][key] * value.factor))
        document[section][key] = value
    return from_document(document, place)


def row_config(
    table: AblationTable, row: Row, preset: str, overrides: Mapping[str, Any], *, name: str, seed: int
) -> tuple[str, Config]:
    """The preset a row starts from and its configuration.

    The row's loss may have a preset of its own that was tuned for it (`presets.tuned_for`); what the person asked for
    comes on top, what the row changes comes last.

    Raises:
        InputError: the row needs a part that the preset leaves out.
    """
    loss = row.changes.get("loss")
    start = tuned_for(preset, loss) if isinstance(loss, str) else preset
    place = f"{table.name} row {row.name}"
    config = changed(PRESETS[start].config, overrides, place)
    config = changed(config, {**row.changes, "seed": seed}, place)
    document = to_document(config)
    missing = [flag for flag in row.needs if not document[PLACES[flag][0]][PLACES[flag][1]]]
    if missing:
        fix = f"give {' and '.join(f'--{flag} N' for flag in missing)}, or choose a preset that has them"
        raise InputError([Fault(place, f"needs {flag}, which preset {start} leaves out", fix=fix) for flag in missing])
    return start, replace(config, name=name)


def as_flags(config: Config, preset: str) -> list[str]:
    """The command line that turns a preset into this configuration, without --name."""
    before, found = to_document(PRESETS[preset].config), []
    for section, table in to_document(config).items():
        if section == "name":
            continue
        for key, value in table.items():
            if value != before[section][key]:
                flag = key.replace("_", "-")
                if isinstance(value, bool):
                    found.append(f"--{flag}" if value else f"--no-{flag}")
                else:
                    found.append(f"--{flag}={value!r}" if isinstance(value, float) else f"--{flag}={value}")
    return found


def named_flags(arguments: Sequence[str], config: Config) -> dict[str, Change]:
    """The values of `config` that the arguments name: what a person asked for, even where it equals the default."""
    names = {argument.split("=")[0].removeprefix("--").replace("_", "-") for argument in arguments}
    names |= {name.removeprefix("no-") for name in names if name.startswith("no-")}
    document = asdict(config)
    return {flag: document[section][key] for flag, (section, key) in PLACES.items() if flag in names}


def chosen_rows(table: AblationTable, names: Iterable[str]) -> tuple[Row, ...]:
    """The rows of these names (or numbers, from 1), all when none is named.

    Raises:
        InputError: there is no such row.
    """
    names = list(names)
    if not names:
        return table.rows
    known = {row.name: row for row in table.rows} | {str(i): row for i, row in enumerate(table.rows, 1)}
    unknown = [name for name in names if name not in known]
    if unknown:
        expected = f"one of {', '.join(row.name for row in table.rows)}"
        raise InputError([Fault(f"--rows {name}", f"is not a row of {table.name}", expected) for name in unknown])
    return tuple(row for row in table.rows if row in [known[name] for name in names])
