"""Progress of long-running work: callbacks within a process, and a small JSON file for other processes."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import open_plain, read_plain

EVERY_SECONDS = 0.3

Tell = Callable[[float, str], None]
"""Called with the share done, from 0 to 1, and the name of the present phase."""


def silent(fraction: float, phase: str) -> None:
    """Report nothing."""


def within(tell: Tell, start: float, end: float) -> Tell:
    """Map the progress of a part onto `start` to `end` of the total."""
    return lambda fraction, phase: tell(start + (end - start) * min(max(fraction, 0.0), 1.0), phase)


@dataclass(frozen=True)
class Progress:
    """fraction: from 0 to 1. phase: the present one. state: "running", "finished" or "failed"; message: why."""

    fraction: float
    phase: str
    state: str = "running"
    message: str = ""


class ProgressFile:
    """A `Tell` that replaces a file a few times a second, and whenever the phase changes."""

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
        """Replace the file.

        Raises:
            InputError: it cannot be written.
        """
        temporary = self.path.with_name(f".tmp-{self.path.name}-{os.getpid()}")
        try:
            with os.fdopen(open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w") as file:
                file.write(json.dumps(asdict(progress)))
            temporary.replace(self.path)
        except OSError as error:
            raise InputError(Fault(str(self.path), f"could not be written ({error.strerror})")) from error


def read_progress(path: Path) -> Progress | None:
    """The progress a file holds; None when it is missing or cannot be read."""
    try:
        record = json.loads(read_plain(Path(path)))
        fraction = float(record["fraction"])
        if not math.isfinite(fraction):
            return None
        return Progress(
            min(max(fraction, 0.0), 1.0), str(record["phase"]), str(record["state"]), str(record["message"])
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
