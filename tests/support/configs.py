"""Configurations for tests."""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

from coder_core.config.schema import Config

SECTIONS = [f.name for f in fields(Config) if f.name != "name"]


def changed(config: Config, **values: Any) -> Config:
    """Change values wherever they stand."""
    for key, value in values.items():
        (section,) = [name for name in SECTIONS if key in asdict(getattr(config, name))]
        config = replace(config, **{section: replace(getattr(config, section), **{key: value})})
    return config
