"""A run's configuration: all sections, read from and written to tables, and every setting by name.

The command line, the form in the app, config.toml and the ablations' grids are derived from the sections' fields.
`checks.problems` lists settings that cannot be combined.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

from typing_extensions import Doc

from coder_core.config.data import CleaningConfig, DataConfig
from coder_core.config.model import ModelConfig, TowersConfig
from coder_core.config.setting import Setting, settings_of
from coder_core.config.training import (
    BoostingConfig,
    MemoryConfig,
    ObjectiveConfig,
    TrainingConfig,
    WeightingConfig,
    own_loss_faults,
)
from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.plain_files import excerpt

Arguments = TypeVar("Arguments")
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")  # still a file name with what is added to it


@dataclass(frozen=True)
class Config:
    """All settings of a run."""

    name: Annotated[str, Doc("Name of the run's folder; empty: the preset's name.")] = ""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    towers: TowersConfig = field(default_factory=TowersConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    boosting: BoostingConfig = field(default_factory=BoostingConfig)
    weighting: WeightingConfig = field(default_factory=WeightingConfig)
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)

    @property
    def has_vocabulary(self) -> bool:
        """True if captions are read as words of the run's vocabulary."""
        return self.model.text_encoder == "bigru" and not self.towers.text_tower

    @property
    def starts_trained(self) -> bool:
        """True if the weights that a run starts from already retrieve: two pretrained towers in their own space, or a
        finished run that boosting takes as teacher and start."""
        zero_shot = self.towers.both and self.towers.projection == "none"
        from_teacher = self.boosting.offline and self.boosting.boosting_start == "teacher"
        return zero_shot or from_teacher


SECTIONS = {key: section for key, section in get_type_hints(Config).items() if key != "name"}


@cache
def settings() -> dict[str, Setting]:
    """Return every setting by its key, section by section. The run's name is not a setting."""
    known = (setting for name, section in SECTIONS.items() for setting in settings_of(section, name))
    return {setting.key: setting for setting in known}


MAY_CHANGE = {setting.path for setting in settings().values() if setting.may_change}
"""Settings that may change when a run is continued: "training.threads" …"""


FORMER = {setting.former: setting for setting in settings().values() if setting.former}


def find_setting(name: str) -> Setting | None:
    """Find the setting of a key or a flag, present or former: bank_size, bank-size or --bank-size."""
    key = name.removeprefix("--").replace("-", "_")
    return settings().get(key) or FORMER.get(key)


def with_settings(config: Config, values: Mapping[str, Any], origin: str = "") -> Config:
    """Replace settings, each named by its key or flag. InputError: all unknown names, wrong types and values outside
    their range.

    Args:
        config: to start from.
        values: by name.
        origin: of the values, for messages: "mine.toml row 2".
    """
    changes = dict[str, Any]()
    faults: list[Fault | None] = []
    fix = "coder-lab train --help lists every setting"
    for name, value in values.items():
        option = find_setting(name)
        if option is None:
            shown = _at(origin, name[:80])
            faults.append(Fault(shown, "is not a setting of a run", "a name such as bank-size", fix))
            continue
        changes[option.key] = option.read(value)
        faults.append(option.fault(changes[option.key], _at(origin, option.flag)))
    stop_on_errors(filter(None, faults))
    return replaced(config, changes)


def replaced(config: Config, values: Mapping[str, Any]) -> Config:
    """Replace settings by their keys, unchecked."""
    tables = dict[str, dict[str, Any]]()
    for key, value in values.items():
        tables.setdefault(settings()[key].section, {})[key] = value
    changed = {name: replace(getattr(config, name), **table) for name, table in tables.items()}
    return replace(config, **changed)


def _at(origin: str, name: str) -> str:
    return f"{origin}, {name}" if origin else name


def name_faults(name: str, where: str = "--name") -> list[Fault]:
    """Return the fault of a run's name, given by the flag or argument `where`, that cannot be a folder's name."""
    if RUN_NAME.fullmatch(name):
        return []
    expected = "at most 200 letters, digits, '.', '_' and '-', beginning with a letter or digit"
    return [Fault(where, f"is {name!r}", expected, "it becomes the name of a folder")]


def to_document(config: Config) -> dict[str, Any]:
    """Convert a configuration to plain nested tables, ready for TOML."""
    return asdict(config)


def differences(before: Config, after: Config) -> dict[str, tuple[object, object]]:
    """Return dotted key → (value before, value after) of all values that differ, except the name."""
    values = {one.path: (one.of(before), one.of(after)) for one in settings().values()}
    return {key: (old, new) for key, (old, new) in values.items() if old != new}


def from_document(document: Mapping[str, Any], origin: str = "config.toml") -> Config:
    """Read the tables that `to_document` made; missing keys take their defaults. InputError: names everything in the
    tables that `read_document` does not understand."""
    config, faults = read_document(document, origin)
    stop_on_errors(faults)
    return config


def read_document(document: Mapping[str, Any], origin: str = "config.toml") -> tuple[Config, list[Fault]]:
    """Read what this version understands of a configuration, which another version or a fork may have written.

    Returns the configuration, with defaults for the rest (`Setting.before` for what an earlier version lacks), and a
    fault for each unknown section and key and for each value that its setting does not allow.
    """
    values = {key: setting.before for key, setting in settings().items() if setting.before is not None}
    faults: list[Fault] = []
    name = document.get("name", "")
    if not isinstance(name, str):
        faults.append(Fault(f"{origin} key name", f"is {excerpt(name)}", "text"))
        name = ""

    for section, table in document.items():
        if section == "name":
            continue
        if section not in SECTIONS:
            where = f"{origin} [{section}]" if isinstance(table, dict) else f"{origin} key {section}"
            faults.append(_unknown(where, ["name", *SECTIONS]))
        elif not isinstance(table, dict):
            faults.append(Fault(f"{origin} [{section}]", f"is {excerpt(table)}", "a table"))
        else:
            values |= _read_section(section, table, f"{origin} [{section}]", faults)

    return replaced(Config(name), values), faults


def _read_section(section: str, table: Mapping[str, Any], origin: str, faults: list[Fault]) -> dict[str, Any]:
    """Return the allowed values of a section's settings, and add a fault for each other entry."""
    known = sorted(key for key, setting in settings().items() if setting.section == section)
    values = dict[str, Any]()
    for key, written in table.items():
        setting = find_setting(key)
        where = f"{origin} key {key}"
        if setting is None or setting.section != section or "-" in key:
            faults.append(_unknown(where, known))
            continue
        value = setting.read(written)
        fault = setting.fault(value, where)
        if fault is None:
            values[setting.key] = value
        else:
            faults.append(fault)
    return values


def _unknown(where: str, known: Iterable[str]) -> Fault:
    fix = "correct it, or use the version of CODER Lab that wrote it"
    return Fault(where, "is not known to this version", f"one of {', '.join(known)}", fix)


def parse(arguments: Sequence[str], default: Arguments, *, prog: str, description: str) -> Arguments:
    """Parse a command line into a dataclass with a `Config` among its fields; flags not given keep their `default`.
    SystemExit: after --help (0), or for invalid arguments (2). InputError: a file of own losses cannot be loaded."""
    import tyro

    stop_on_errors(own_loss_faults())
    kind: Any = tyro.conf.OmitArgPrefixes[type(default)]  # type: ignore[misc]
    present = _with_values([_present_flag(argument) for argument in arguments])
    return tyro.cli(kind, prog=prog, description=description, args=present, default=default)


def _with_values(arguments: Sequence[str]) -> list[str]:
    """Give every flag that stands alone, and may, its value."""
    completed = []
    for number, argument in enumerate(arguments):
        named = _named_setting(argument)
        following = [*arguments, "--"][number + 1]
        if named is not None and named.alone is not None and following.startswith("--"):
            argument = f"{argument}={named.alone}"
        completed.append(argument)
    return completed


def _present_flag(argument: str) -> str:
    """Replace a former flag, such as --clean-judges=a or --no-keep-judges, by its present name."""
    flag, equals, value = argument.partition("=")
    named = _named_setting(flag)
    if named is None or flag.replace("_", "-") in (named.flag, named.off_flag):
        return argument
    present = named.off_flag if flag.startswith("--no-") else named.flag
    return f"{present}{equals}{value}"


def _named_setting(flag: str) -> Setting | None:
    """Find the setting that a flag names, also one like --no-compile."""
    if not flag.startswith("--"):
        return None
    return find_setting(flag) or find_setting(flag.replace("--no-", "--", 1))


def named_settings(arguments: Iterable[str]) -> list[Setting]:
    """Return the settings that a command line names, including those named like --no-compile."""
    named = [_named_setting(argument.split("=")[0]) for argument in arguments]
    return [option for option in settings().values() if option in named]


def changed_flags(before: Config, after: Config) -> list[str]:
    """Return the flags that turn one configuration into another, except for the run's name."""
    flags = []
    for option in settings().values():
        value = option.of(after)
        if value == option.of(before):
            continue
        if isinstance(value, bool):
            flags.append(option.flag if value else option.off_flag)
        else:
            flags.append(f"{option.flag}={value}")
    return flags
