"""How far a piece of long work is, in a small file that is replaced in one step."""

from __future__ import annotations

import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path

from coder_core.console.faults import Fault, InputError

EVERY_SECONDS = 0.3


@dataclass(frozen=True)
class Progress:
    """fraction: from 0 to 1. phase: what is being done. state: "running", "finished" or "failed"; message: why."""

    fraction: float
    phase: str
    state: str = "running"
    message: str = ""


class ProgressFile:
    """Call it with (fraction, phase); it writes at most a few times a second, and always when the phase changes."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self._phase, self._written = "", 0.0

    def __call__(self, fraction: float, phase: str) -> None:
        now = time.monotonic()
        if phase == self._phase and now - self._written < EVERY_SECONDS:
            return
        self._phase, self._written = phase, now
        self.write(Progress(min(max(fraction, 0.0), 1.0), phase))

    def write(self, progress: Progress) -> None:
        """Replace the file."""
        temporary = self.path.with_name(f".tmp-{self.path.name}-{os.getpid()}")
        try:
            temporary.write_text(json.dumps(progress.__dict__), "utf-8")
            temporary.replace(self.path)
        except OSError as error:
            raise InputError(Fault(str(self.path), f"could not be written ({error.strerror})")) from error


def read_progress(path: Path) -> Progress | None:
    """What was written last; None when nothing was, or nothing that can be read."""
    try:
        record = json.loads(Path(path).read_text("utf-8"))
        fraction = float(record["fraction"])
        if not math.isfinite(fraction):
            return None
        return Progress(
            min(max(fraction, 0.0), 1.0), str(record["phase"]), str(record["state"]), str(record["message"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
