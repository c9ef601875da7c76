"""A run's configuration: all sections, read from and written to tables, and every setting by name.

The command line, the form in the app, config.toml and the ablations' grids follow from the fields of the sections.
`checks.problems` lists settings that do not go together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, get_type_hints

from coder_core.config.boosting import BoostingConfig
from coder_core.config.data import DataConfig
from coder_core.config.model import ModelConfig
from coder_core.config.objective import MemoryConfig, ObjectiveConfig
from coder_core.config.setting import Setting, setting, setting_of
from coder_core.config.towers import TowersConfig
from coder_core.config.training import TrainingConfig
from coder_core.config.weighting import WeightingConfig
from coder_core.console.faults import Fault, InputError

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # with what is added to it, a file name


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    name: str = setting("", help="Name of the run's folder; empty takes the preset's name.")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    towers: TowersConfig = field(default_factory=TowersConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    boosting: BoostingConfig = field(default_factory=BoostingConfig)
    weighting: WeightingConfig = field(default_factory=WeightingConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)

    @property
    def has_vocabulary(self) -> bool:
        """True if captions are read as words of the run's vocabulary."""
        return self.model.text_encoder == "bigru" and not self.towers.text_tower


@cache
def settings() -> dict[str, Setting]:
    """Every setting by its key, section by section. The run's name is none."""
    sections = {key: hint for key, hint in get_type_hints(Config).items() if key != "name"}
    return {
        declared.name: setting_of(section, declared, get_type_hints(cls)[declared.name])
        for section, cls in sections.items()
        for declared in fields(cls)
    }


def find_setting(name: str) -> Setting | None:
    """Find the setting of a key or a flag: bank_size, bank-size or --bank-size."""
    return settings().get(name.removeprefix("--").replace("-", "_"))


def with_settings(config: Config, values: Mapping[str, Any], place: str = "") -> Config:
    """Replace settings, each named by its key or flag.

    Args:
        config: to start from.
        values: by name.
        place: where the values stand, for messages: "mine.toml row 2".

    Raises:
        InputError: unknown names, wrong types, values outside their range; all of them.
    """
    changes: dict[str, dict[str, Any]] = {}
    faults: list[Fault | None] = []
    for name, value in values.items():
        declared = find_setting(name)
        if declared is None:
            fix = "python -m coder_core.train --help lists every setting"
            faults.append(
                Fault(_at(place, name[:80]), "is not a setting of a run", "a name such as bank-size", fix)
            )
            continue
        changes.setdefault(declared.section, {})[declared.key] = declared.read(value)
        faults.append(declared.fault(declared.read(value), _at(place, declared.flag)))
    _refuse(faults)
    return replace(config, **{key: replace(getattr(config, key), **table) for key, table in changes.items()})


def _at(place: str, name: str) -> str:
    return f"{place}, {name}" if place else name


def _refuse(faults: Sequence[Fault | None]) -> None:
    if found := [fault for fault in faults if fault is not None]:
        raise InputError(found)


def to_document(config: Config) -> dict[str, Any]:
    """Plain nested tables, ready for TOML."""
    return asdict(config)


def from_document(document: Mapping[str, Any], place: str = "config.toml") -> Config:
    """Read the tables that `to_document` made; missing keys take their defaults.

    Raises:
        InputError: unknown keys, wrong types, values outside their range; all of a table are named.
    """
    sections = get_type_hints(Config)
    if unknown := sorted(set(document) - set(sections)):
        expected = f"one of {', '.join(sections)}"
        raise InputError([Fault(f"{place} key {key}", "is not known", expected) for key in unknown])
    values: dict[str, Any] = {}
    for key, value in document.items():
        kind = "str" if key == "name" else "dict"
        if not isinstance(value, str if key == "name" else dict):
            raise InputError(Fault(f"{place} [{key}]", f"is {value!r}", f"a value of type {kind}"))
        values[key] = (
            value if isinstance(value, str) else _section(sections[key], key, value, f"{place} [{key}]")
        )
    return Config(**values)


def _section(cls: type, section: str, table: Mapping[str, Any], place: str) -> Any:
    known = {key: one for key, one in settings().items() if one.section == section}
    unknown = sorted(set(table) - set(known))
    _refuse(
        [Fault(f"{place} key {key}", "is not known", f"one of {', '.join(sorted(known))}") for key in unknown]
    )
    values = {key: known[key].read(value) for key, value in table.items()}
    _refuse([known[key].fault(value, f"{place} key {key}") for key, value in values.items()])
    return cls(**values)
