"""The cache folder: what may be computed again and is kept for the next time."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

SETTLED_NS = 2_000_000_000  # a file changed more recently may change again without another time of change


def cache_folder() -> Path:
    """$CODER_CACHE, or coder-lab in the user's cache folder."""
    own = os.environ.get("CODER_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(base) / "coder-lab"


def write_cached(file: Path, content: str) -> None:
    """Write ASCII text in one step. A cache that cannot be written costs the time of computing it again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".tmp-", dir=file.parent)
        with os.fdopen(handle, "w", encoding="ascii") as temporary:
            temporary.write(content)
        os.replace(name, file)
