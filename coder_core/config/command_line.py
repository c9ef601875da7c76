"""Settings on the command line: read them and spell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from coder_core.config.schema import Config, find_setting, settings
from coder_core.config.setting import Setting, spelt_as_flag

Arguments = TypeVar("Arguments")


def parse(arguments: Sequence[str], default: Arguments, *, prog: str, description: str) -> Arguments:
    """Read a command line.

    Args:
        arguments: as typed.
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


def named_settings(arguments: Iterable[str]) -> list[Setting]:
    """The settings that a command line names, also as --no-compile."""
    names = {argument.split("=")[0] for argument in arguments if argument.startswith("--")}
    named = [find_setting(name) or find_setting(name.replace("--no-", "--", 1)) for name in names]
    return [known for known in settings().values() if known in named]


def changed_flags(before: Config, after: Config) -> list[str]:
    """The flags that turn one configuration into another, the run's name left out."""
    flags = []
    for known in settings().values():
        value = known.of(after)
        if value == known.of(before):
            continue
        if isinstance(value, bool):
            flags.append(known.flag if value else spelt_as_flag(f"no_{known.key}"))
        else:
            flags.append(f"{known.flag}={value}")
    return flags
