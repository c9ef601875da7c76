"""Configurations for tests."""

from coder_core.config.schema import replaced


def changed(config, **values):
    """Replace settings by their keys, also by impossible values."""
    return replaced(config, values)
