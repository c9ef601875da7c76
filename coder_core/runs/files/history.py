"""`history.jsonl`: what happened in a run, one JSON line an event, appended by the trainer, read meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pandas as pd

from coder_core.console.faults import Fault
from coder_core.runs.files.lines import open_line, seal_line
from coder_core.runs.files.sealed import WriteError

HISTORY = "history.jsonl"


class HistoryWriter:
    """Appends events; every line reaches the file in one write.

    Args:
        path: the run's `history.jsonl`; made when missing. A line torn by a kill is cut off.
        resume_step: the step training continues from. Events of later steps, written before, no longer count.
    """

    def __init__(self, path: Path, *, resume_step: int | None = None) -> None:
        self.path = Path(path)
        _cut_torn_line(self.path)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if resume_step is not None:
            self.write("resume", step=resume_step)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the present time.

        Args:
            event: "start", "step", "epoch", "resume", "stop" …
            fields: JSON values; `step` is the training step the event belongs to.
        """
        line = (seal_line({"event": event, "time": round(time.time(), 3), **fields}) + "\n").encode()
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                os.write(self._descriptor, line[written:])
        except OSError as error:
            fault = Fault(str(self.path), f"could not be written ({error.strerror}): {len(line):,} bytes are needed")
            raise WriteError(fault) from error

    def close(self) -> None:
        """Close the file; further writes fail."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_history(path: Path, *, after: int = 0) -> list[dict[str, Any]]:
    """The events that count, oldest first.

    A last line without its newline is being written and is left for the next reading. A "resume" event removes the
    events of later steps that came before it, and an event repeated at the same step replaces the first one.

    Args:
        path: `history.jsonl`; a missing file is an empty history.
        after: leave out this many events from the front: those the caller already has.
    """
    events, _ = _read(Path(path))
    return events[after:]


def history_faults(path: Path) -> list[Fault]:
    """The damaged lines, which `read_history` leaves out, as warnings with their numbers."""
    _, faults = _read(Path(path))
    return faults


def read_frame(folder: Path, event: str = "step") -> pd.DataFrame:
    """All events of one kind as a table; nested values become columns with dotted names.

    Args:
        folder: the run folder.
        event: "step", "epoch" …
    """
    events = [record for record in read_history(Path(folder) / HISTORY) if record.get("event") == event]
    return pd.json_normalize(events)


def _read(path: Path) -> tuple[list[dict[str, Any]], list[Fault]]:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], []
    events: list[dict[str, Any]] = []
    faults = []
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            events.append(open_line(line.decode()))
        except ValueError as error:
            faults.append(Fault(f"{path} line {number}", f"cannot be read ({error})", severity="warning"))
    return _once(_continued(events)), faults


def _continued(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop what a resumed run did again."""
    kept: list[dict[str, Any]] = []
    for event in events:
        if event.get("event") == "resume":
            kept = [earlier for earlier in kept if _step(earlier) <= _step(event)]
        kept.append(event)
    return kept


def _once(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last of several events of one kind at one step; events without a step all stay."""
    last = {_key(event, position): position for position, event in enumerate(events)}
    return [event for position, event in enumerate(events) if last[_key(event, position)] == position]


def _key(event: dict[str, Any], position: int) -> tuple[Any, ...]:
    repeatable = event.get("event") in ("step", "epoch") and "step" in event
    return (event["event"], event["step"]) if repeatable else (position,)


def _step(event: dict[str, Any]) -> float:
    step = event.get("step", 0)
    return step if isinstance(step, int | float) else 0


def _cut_torn_line(path: Path) -> None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
