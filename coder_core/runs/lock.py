"""One writer a run. The kernel drops the lock when its process dies, so a lock is never stale."""

from __future__ import annotations

import json
import socket
import sys
from datetime import datetime
from pathlib import Path

import psutil
from filelock import FileLock, Timeout

from coder_core.console.faults import Fault, InputError
from coder_core.console.plain_files import check_plain, read_plain
from coder_core.files.atomic import replace_file
from coder_core.runs.history import HISTORY

_LOCK, _HOLDER = ".lock", ".lock.json"
IN_PLACE = (_LOCK, HISTORY)  # written where they are; all other files of a run are replaced


class RunLock:
    """`with RunLock(folder):` — inside, no other process writes this run.

    Raises:
        InputError: on entering, when another writer holds the run (says which process and since when), or when the run
            holds a link, a pipe or a device, through which writing would lead elsewhere.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._lock = FileLock(self.folder / _LOCK, timeout=0, thread_local=False)

    def __enter__(self) -> RunLock:
        if not self.folder.is_dir():
            raise InputError.at(self.folder, "is not a run folder", "the folder of a run")
        check_plain(self.folder, IN_PLACE)
        try:
            self._lock.acquire()
        except Timeout as error:
            raise InputError(self._refusal()) from error
        except OSError as error:
            fault = Fault(str(self.folder), f"cannot be locked for writing ({error.strerror})")
            raise InputError(fault) from error
        self._write_holder()
        return self

    def __exit__(self, *error: object) -> None:
        (self.folder / _HOLDER).unlink(missing_ok=True)
        self._lock.release()

    def _write_holder(self) -> None:
        process = psutil.Process()
        holder = {
            "pid": process.pid,
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
            "host": socket.gethostname(),
            "command": sys.argv,
        }
        replace_file(self.folder / _HOLDER, json.dumps(holder))

    def _refusal(self) -> Fault:
        try:
            holder = json.loads(read_plain(self.folder / _HOLDER))
            who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            who = "another process"
        return Fault(
            str(self.folder),
            f"is being written by {who}",
            "one writer a run",
            "wait for it, stop it, or train under another name",
        )
