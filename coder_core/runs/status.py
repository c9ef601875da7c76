"""Status and lock of a run: `status.json` with its progress, and the lock that admits one writer at a time.

A status "running" is read as "interrupted" if its process is gone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
from filelock import FileLock, Timeout
from rich.console import Console

from coder_core.console.documents import NUMBER, check_values
from coder_core.console.faults import InputError
from coder_core.console.output import say
from coder_core.console.plain_files import open_plain, read_plain, subfolder
from coder_core.console.processes import find_process
from coder_core.files.atomic import replace_file
from coder_core.runs.history import open_line, run_key, seal_line

STATUS = "status.json"
STATUS_BYTES = 1 << 16  # at most
_LOCK = ".lock"
FOLDERS = ("analysis", "best", "derived", "state", "tensorboard", "unranked")  # that a writer fills
KINDS: dict[str, type | tuple[type, ...]] = dict.fromkeys(("state", "host", "message"), str)
KINDS |= dict.fromkeys(("pid", "step", "steps", "evaluated", "best_step", "without_gain"), int)
KINDS |= dict.fromkeys(("started", "time", "seconds", "peak_mebibytes"), NUMBER)
KINDS |= {"best": (*NUMBER, type(None))}


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
