"""Rows -> configurations -> command lines. Values are named as on the command line: `bank-size`, `loss`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from coder_core.ablation.rows import AblationTable, Change, Row, Times
from coder_core.config.command_line import changed_flags, named_settings
from coder_core.config.presets import PRESETS, tuned_for
from coder_core.config.schema import Config, find_setting, with_settings
from coder_core.console.faults import Fault, InputError


def value_of(config: Config, flag: str) -> Any:
    """The value of a setting, named by its flag; None when there is no such setting."""
    setting = find_setting(flag)
    return getattr(getattr(config, setting.section), setting.key) if setting else None


def changed(config: Config, changes: Mapping[str, Any], place: str) -> Config:
    """Apply the changes of a row.

    Args:
        config: to start from.
        changes: flag → value; `Times` multiplies the configuration's value.
        place: where the changes stand, for messages.

    Raises:
        InputError: an unknown flag, a value of the wrong type or out of range.
    """
    values = {}
    for flag, value in changes.items():
        before = value_of(config, flag)
        values[flag] = type(before)(round(before * value.factor)) if isinstance(value, Times) else value
    return with_settings(config, values, place)


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
    missing = [flag for flag in row.needs if not value_of(config, flag)]
    if missing:
        fix = f"give {' and '.join(f'--{flag} N' for flag in missing)}, or choose a preset that has them"
        raise InputError([Fault(place, f"needs {flag}, which preset {start} leaves out", fix=fix) for flag in missing])
    return start, replace(config, name=name)


def as_flags(config: Config, preset: str) -> list[str]:
    """The command line that turns a preset into this configuration, without --name."""
    return changed_flags(PRESETS[preset].config, config)


def named_flags(arguments: Sequence[str], config: Config) -> dict[str, Change]:
    """The values of `config` that the arguments name: what a person asked for, even where it equals the default."""
    return {setting.flag.removeprefix("--"): value_of(config, setting.flag) for setting in named_settings(arguments)}


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
