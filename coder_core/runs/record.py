"""What a run records while it is written: its events in `history.jsonl`, its progress in `status.json`, and its lock, which
admits one writer at a time.

The trainer appends one JSON line for every event; readers may read at any time. Every line, and `status.json`, ends in a
checksum of itself and of the run's manifest, so a damaged line and a line of another run are detected. A status "running"
is read as "interrupted" if its process is gone.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
import zlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from filelock import FileLock, Timeout
from rich.console import Console

from coder_core.console.faults import Fault, InputError
from coder_core.console.output import say
from coder_core.console.plain_files import (
    DOCUMENT,
    NUMBER,
    check_values,
    open_plain,
    parse_document,
    read_plain,
    subfolder,
)
from coder_core.console.processes import find_process
from coder_core.files.atomic import WriteError, replace_file
from coder_core.files.sealed import SealedFolder

if TYPE_CHECKING:
    import pandas as pd


HISTORY = "history.jsonl"
REPEATABLE = ("step", "epoch")  # events with measured values; a later one replaces one at the same step
STEPS_BETWEEN_LINES = 10
TAIL_BYTES = 1 << 16  # read at a time when looking for the last newline
_CHECKSUM = ',"crc":"'
Event = dict[str, Any]  # a line of a history
STATUS = "status.json"
STATUS_BYTES = 1 << 16  # at most
_LOCK = ".lock"
FOLDERS = ("analysis", "best", "derived", "state", "tensorboard", "unranked", "wandb")  # that a writer fills
KINDS: dict[str, type | tuple[type, ...]] = dict.fromkeys(("state", "host", "message"), str)
KINDS |= dict.fromkeys(("pid", "step", "steps", "evaluated", "best_step", "without_gain"), int)
KINDS |= dict.fromkeys(("started", "time", "seconds", "peak_mebibytes"), NUMBER)
KINDS |= {"best": (*NUMBER, type(None))}
"""Types of the values in a status."""


def run_key(folder: Path) -> str:
    """Return the key of the checksums in a run: that of its manifest; "" without an intact one."""
    try:
        return str(SealedFolder(folder).manifest["self"])
    except InputError:
        return ""


def seal_line(record: Mapping[str, Any], key: str = "") -> str:
    """Format a record and its checksum as one line, without its newline. NaN and infinities become null."""
    text = json.dumps(_finite(record), ensure_ascii=False, separators=(",", ":"))
    return f'{text[:-1]}{_CHECKSUM}{_checksum(text, key)}"}}'


def open_line(line: str, key: str = "") -> dict[str, Any]:
    """Return the record of a line that was sealed with `key`. ValueError: the line is not a JSON object, or its
    checksum is missing or does not match, because the line is damaged or of another run."""
    text, mark, checksum = line.rpartition(_CHECKSUM)
    if not mark:
        raise ValueError("the line has no checksum")
    text += "}"
    if checksum != f'{_checksum(text, key)}"}}':
        raise ValueError("the line does not match its checksum")
    try:
        record = parse_document(text)
    except RecursionError as error:
        raise ValueError("the line is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError(f"the line is of type {type(record).__name__}, not an object")
    return record


def _checksum(text: str, key: str) -> str:
    return f"{zlib.crc32(text.encode(), zlib.crc32(key.encode())):08x}"


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


class HistoryWriter:
    """Writer that appends every event in one write. `path`: the run's `history.jsonl`, created if missing; a line torn
    by a kill is cut off. `resume_step`: step from which training continues; events of later steps that were written
    before no longer count."""

    def __init__(self, path: Path, *, resume_step: int | None = None) -> None:
        self.path = Path(path)
        self._key = run_key(self.path.parent)
        self._descriptor = open_plain(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        _cut_torn_line(self._descriptor)
        if resume_step is not None:
            self.write("resume", step=resume_step)

    def write(self, event: str, **fields: Any) -> None:
        """Append one event with the current time."""
        sealed = seal_line({"event": event, "time": round(time.time(), 3), **fields}, self._key)
        line = f"{sealed}\n".encode()
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                os.write(self._descriptor, line[written:])
        except OSError as error:
            problem = f"could not be written ({error.strerror}): {len(line):,} bytes are needed"
            raise WriteError.at(self.path, problem) from error

    def close(self) -> None:
        """Close the file; further writes fail."""
        if self._descriptor >= 0:
            os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_history(path: Path) -> list[Event]:
    """Read the events that count, oldest first; a missing file is an empty history. A last line without its newline is
    still being written and is left out. A "resume" event removes the events of later steps before it, and a "step" or
    "epoch" repeated at the same step replaces the first one."""
    return _read(Path(path))[0]


def history_faults(path: Path, *, step: int = 0, epochs: int = 0) -> list[Fault]:
    """Return warnings about damaged lines (by number), which `read_history` leaves out, and about lost ones: each of
    the run's finished `epochs` has a line, and every tenth step up to `step`."""
    events, faults = _read(Path(path))
    numbers = [event.get("epoch") for event in events if event["event"] == "epoch"]
    missing = epochs - len({number for number in numbers if isinstance(number, int) and 0 < number <= epochs})
    steps = [event.get("step", 0) for event in events if event["event"] == "step"]
    last = max((number for number in steps if number <= step), default=0)
    lost = [f"lacks {missing:,} of {epochs:,} finished epochs"] if missing > 0 else []
    if step - last >= STEPS_BETWEEN_LINES:
        lost.append(f"lacks the steps from {last:,.0f} to {step:,}")
    fix = "curves and tables lack them; the run itself is not affected"
    return faults + [Fault(str(path), problem, fix=fix, severity="warning") for problem in lost]


def read_frame(folder: Path, event: str = "step") -> pd.DataFrame:
    """Read all events of one kind, "step" or "epoch", as a table; nested values become columns with dotted names."""
    import pandas as pd  # takes a quarter of a second to import

    events = [record for record in read_history(Path(folder) / HISTORY) if record.get("event") == event]
    return pd.json_normalize(events)


def _read(path: Path) -> tuple[list[Event], list[Fault]]:
    try:
        content = read_plain(path, DOCUMENT)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise InputError.at(path, f"cannot be read ({error.strerror})") from error

    events = []
    faults = []
    key = run_key(path.parent)
    for number, line in enumerate(content.split(b"\n")[:-1], start=1):
        try:
            event = open_line(line.decode(), key)
            if not isinstance(event.get("event"), str):
                raise ValueError("the line has no event")
            if event["event"] in REPEATABLE and not _is_measured(event):
                raise ValueError("a value is not a number")
            if not isinstance(event.get("step", 0), int | float):
                raise ValueError("its step is not a number")
            events.append(event)
        except ValueError as error:
            faults.append(Fault(f"{path} line {number}", f"cannot be read ({error})", severity="warning"))

    return _surviving(events), faults


def _is_measured(value: Any) -> bool:
    """True if all values of a line besides its event are numbers, as tables and curves need."""
    if isinstance(value, dict):
        return all(key == "event" or _is_measured(item) for key, item in value.items())
    return value is None or isinstance(value, int | float)


def _surviving(events: list[Event]) -> list[Event]:
    """Drop events that a resumed run repeated, and all but the last report of a step."""
    latest: dict[int | tuple[str, int], Event] = {}
    for number, event in enumerate(events):
        if event.get("event") == "resume":
            step = event.get("step", 0)
            latest = {key: earlier for key, earlier in latest.items() if earlier.get("step", 0) <= step}
        repeatable = event["event"] in REPEATABLE and "step" in event
        key = (event["event"], event["step"]) if repeatable else number
        latest.pop(key, None)
        latest[key] = event
    return list(latest.values())


def _cut_torn_line(descriptor: int) -> None:
    """Cut a last line without its newline off an open history, reading from its end."""
    size = intact = os.fstat(descriptor).st_size
    while intact > 0:
        start = max(0, intact - TAIL_BYTES)
        newline = os.pread(descriptor, intact - start, start).rfind(b"\n")
        intact = start + newline + 1
        if newline >= 0:
            break
    if intact < size:
        os.ftruncate(descriptor, intact)


def write_status(folder: Path, state: str, **fields: Any) -> None:
    """Replace the status: "running", "finished", "stopped" or "failed". The caller must hold the run's lock."""
    process = psutil.Process()
    record = {"state": state, "pid": process.pid, "started": process.create_time()}
    record |= {"host": socket.gethostname(), "time": time.time(), **fields}
    replace_file(Path(folder) / STATUS, seal_line(record, run_key(Path(folder))) + "\n")


def read_status(folder: Path) -> dict[str, Any] | None:
    """Read the status, or None if the run has none yet (InputError: the file is damaged, or another run's)."""
    path = Path(folder) / STATUS
    try:
        record = open_line(read_plain(path, STATUS_BYTES).decode().rstrip("\n"), run_key(Path(folder)))
    except FileNotFoundError:
        return None
    except InputError:
        raise
    except (ValueError, OSError) as error:
        raise InputError.at(path, f"cannot be read ({error})", "the status of a run") from error
    check_values(record, KINDS, str(path), least=0)
    if record.get("state") == "running" and not _alive(record):
        record["state"] = "interrupted"
    return record


def _alive(record: dict[str, Any]) -> bool:
    """True if the process that wrote the record still runs; always true for a record of another machine."""
    if record.get("host") != socket.gethostname():
        return True
    try:
        return find_process(record["pid"], record["started"]) is not None
    except KeyError:
        return False


class RunLock:
    """`with RunLock(folder):` — inside, no other process writes this run.

    The kernel releases the lock when its process dies, so a lock is never stale. InputError on entering: another writer
    holds the run (its process and start are named), or the lock or a folder of the run is a link, through which data
    would be written elsewhere. `file`: the lock of a part of the run. `waiting`: console that names the writer to wait
    for.
    """

    def __init__(self, folder: Path, file: Path | None = None, waiting: Console | None = None) -> None:
        self.folder = Path(folder)
        self._is_whole = file is None
        self._waiting = waiting
        self._file = file or self.folder / _LOCK
        self._holder = self._file.with_name(f"{self._file.name}.json")
        self._lock = FileLock(self._file, timeout=0, thread_local=False)

    def __enter__(self) -> RunLock:
        if self._is_whole:
            if not self.folder.is_dir():
                raise InputError.at(self.folder, "is not a run folder", "the folder of a run")
            for name in FOLDERS:
                subfolder(self.folder, name)

        try:
            os.close(open_plain(self._file, os.O_RDWR | os.O_CREAT))
            self._lock.acquire()
        except Timeout as error:
            fact = f"is being written by {self._writer()}"
            if self._waiting is None:
                fix = "wait for it, stop it, or train under another name"
                raise InputError.at(self.folder, fact, "one writer per run", fix) from error
            say(self._waiting, f"waiting: {self.folder} {fact}")
            self._lock.acquire(timeout=-1)
        except OSError as error:
            raise InputError.at(self.folder, f"cannot be locked for writing ({error.strerror})") from error

        since = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "since": since, "host": socket.gethostname(), "command": sys.argv}
        replace_file(self._holder, json.dumps(holder))
        return self

    def __exit__(self, *error: object) -> None:
        self._holder.unlink(missing_ok=True)
        self._lock.release()

    def _writer(self) -> str:
        try:
            holder = json.loads(read_plain(self._holder))
            return f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return "another process"
