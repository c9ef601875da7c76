"""The cache folder: results that can be computed again, kept for the next time."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from coder_core.files.atomic import replacing

SETTLED_NS = 2_000_000_000  # a file changed more recently may change again without another time of change


def settled(changed_ns: int) -> bool:
    """True if a later change of a file will leave it another time than this one."""
    return time.time_ns() - changed_ns > SETTLED_NS


def cache_folder() -> Path:
    """$CODER_CACHE, or coder-lab in the user's cache folder."""
    custom = os.environ.get("CODER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(custom) if custom else Path(base) / "coder-lab"


def write_cached(file: Path, content: str) -> None:
    """Write ASCII text in one step. A cache that cannot be written costs the time of computing it again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary:
            temporary.write_text(content, "ascii")
