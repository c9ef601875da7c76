"""Settings on the command line: read them, spell them, and translate their former names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from coder_core.config.schema import Config, find_setting, settings
from coder_core.config.setting import Setting, spelt_as_flag
from coder_core.console.faults import Fault

OLD_NAMES_UNTIL = "0.3"

Arguments = TypeVar("Arguments")


def parse(arguments: Sequence[str], default: Arguments, *, prog: str, description: str) -> Arguments:
    """Read a command line.

    Args:
        arguments: as typed, with present names (`translate`).
        default: a dataclass with a `Config` among its fields; what is not named keeps its value.
        prog, description: for --help.

    Raises:
        SystemExit: after --help (0), or for what cannot be read (2).
    """
    import tyro

    return tyro.cli(
        tyro.conf.OmitArgPrefixes[type(default)],  # type: ignore[misc]
        prog=prog,
        description=description,
        args=list(arguments),
        default=default,
    )


def translate(arguments: Sequence[str]) -> tuple[list[str], list[Fault]]:
    """Replace former flags and former values by the present ones; a note says how each is spelt now."""
    present, notes = list[str](), list[Fault]()
    expecting: Setting | None = None
    for argument in arguments:
        awaiting, expecting = expecting, None
        name, equals, value = argument.partition("=")
        if argument.startswith("--") and (named := find_setting(name)):
            if name.removeprefix("--").replace("-", "_") in named.old_keys:
                notes.append(_note(name, named.flag))
                name = named.flag
            awaiting = named if equals else None
            expecting = None if equals else named
        else:
            name, equals, value = "", "", argument
        if awaiting and (now := awaiting.read(value)) != value:
            notes.append(_note(f"{awaiting.flag} {value}", f"{awaiting.flag} {now}"))
            value = str(now)
        present.append(f"{name}{equals}{value}")
    return present, notes


def _note(before: str, now: str) -> Fault:
    return Fault(before, f"is now {now}", fix=f"the old name works until {OLD_NAMES_UNTIL}", severity="note")


def named_settings(arguments: Iterable[str]) -> list[Setting]:
    """The settings that a command line names, also as --no-compile."""
    names = {argument.split("=")[0] for argument in arguments if argument.startswith("--")}
    settings_named = (find_setting(name) or find_setting(name.replace("--no-", "--", 1)) for name in names)
    keys = {known.key for known in settings_named if known}
    return [known for key, known in settings().items() if key in keys]


def changed_flags(before: Config, after: Config) -> list[str]:
    """The flags that turn one configuration into another, the run's name left out."""
    flags = []
    for known in settings().values():
        value = getattr(getattr(after, known.section), known.key)
        if value == getattr(getattr(before, known.section), known.key):
            continue
        if isinstance(value, bool):
            flags.append(known.flag if value else spelt_as_flag(f"no_{known.key}"))
        else:
            flags.append(f"{known.flag}={value}")
    return flags
