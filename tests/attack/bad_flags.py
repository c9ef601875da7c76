"""Odd texts as the value of every setting."""

from __future__ import annotations

from dataclasses import fields

from coder_core.config.schema import Config
from tests.attack.bad_files import Make

ODD_FLAGS = (
    "",
    "nan",
    "inf",
    "-1",
    "0",
    "abc",
    "1e400",
    "999999999",
    "-0.0",
    "True",
    "\udcff",
    "1_0",
    "٣",
    "[]",
    "1e-300",
)
LONG_WORK = {"epochs", "data", "pictures", "compile"}  # 999,999,999 epochs are right, and long


def flag_cases() -> dict[str, Make]:
    """Every value of the configuration, with odd texts."""
    names = [
        setting.name
        for section in fields(Config)
        if section.name != "name"
        for setting in fields(getattr(Config(), section.name))
        if setting.name not in LONG_WORK
    ]

    def of(name: str, value: str) -> Make:
        return lambda folder, rng: [f"--{name.replace('_', '-')}={value}"]

    return {f"{name}={value}": of(name, value) for name in names for value in ODD_FLAGS}
