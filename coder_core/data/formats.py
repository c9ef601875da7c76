"""Flags for reading pictures with captions, shared by `check_data` and `embed pictures`."""

from __future__ import annotations

from dataclasses import dataclass

from coder_core.config.data import Format


@dataclass(frozen=True)
class ReadingArguments:
    """Pictures with captions, as people have them (docs/data.md, section 9)."""

    format: Format = "auto"
    """Layout of pictures with captions; recognised by itself, and a note says which and why."""
    dev_share: float = 0.1
    """Share of the images that become dev, where the data has no splits: a hash of every image's name decides."""
    test_share: float = 0.1
    """Share of the images that become test, likewise; the rest is train."""
    split_seed: int = 0
    """Seed of that hash."""
    skip_broken: bool = False
    """Leave out pictures that are missing or broken, with their captions, instead of stopping."""
