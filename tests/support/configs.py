"""Configurations for tests."""

from typing import Any

from coder_core.config.schema import Config, replaced


def changed(config: Config, **values: Any) -> Config:
    """Replace settings by their keys, also by impossible values."""
    return replaced(config, values)
