"""Configurations for tests."""

from dataclasses import replace
from typing import Any

from coder_core.config.schema import Config, settings


def changed(config: Config, **values: Any) -> Config:
    """Replace settings by their keys, also by impossible values."""
    for key, value in values.items():
        section = settings()[key].section
        config = replace(config, **{section: replace(getattr(config, section), **{key: value})})
    return config
