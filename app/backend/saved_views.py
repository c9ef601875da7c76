"""Views saved under a name, beside the runs."""

from __future__ import annotations

from app.backend.jobs import runs_root
from coder_core.api import saved_views as api

LONGEST_NAME = api.LONGEST_NAME


def saved() -> dict[str, str]:
    """Name → address."""
    return api.saved_views(runs_root())


def save(name: str, address: str) -> None:
    """Save an address under a new name."""
    api.save_view(runs_root(), name, address)


def remove(name: str) -> None:
    """Remove a saved view."""
    api.remove_view(runs_root(), name)
