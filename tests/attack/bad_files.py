"""Special files in place of a file of a data set."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

Flags = list[str]
Make = Callable[[Path, random.Random], Flags]
"""Makes an input bad in a folder of a good data set; returns further flags of the commands."""

SPECIAL: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a dead link": lambda path: path.symlink_to("nowhere"),
    "a loop": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


def special_file(make: Callable[[Path], object], end: str) -> Make:
    """In the place of train's or dev's file of this ending."""

    def write(folder: Path, rng: random.Random) -> Flags:
        path = folder / f"{rng.choice(['train', 'dev'])}{end}"
        path.unlink()
        make(path)
        return []

    return write


def flip(content: bytes, rng: random.Random, within: int = 0) -> bytes:
    """One bit changed, within the first bytes or anywhere."""
    if not content:
        return content
    place = rng.randrange(min(within, len(content)) if within else len(content))
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]
