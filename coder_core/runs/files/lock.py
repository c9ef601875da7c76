"""One writer a run. The kernel drops the lock when its process dies, so a lock is never stale."""

from __future__ import annotations

import json
import socket
import sys
from datetime import datetime
from pathlib import Path
from types import TracebackType

import psutil
from filelock import FileLock, Timeout

from coder_core.console.faults import Fault, InputError

_HOLDER = ".lock.json"


class RunLock:
    """`with RunLock(folder):` — inside, no other process writes this run.

    Raises:
        InputError: on entering, when another writer holds the run; says which process and since when.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self._lock = FileLock(self.folder / ".lock", timeout=0, thread_local=False)

    def __enter__(self) -> RunLock:
        if not self.folder.is_dir():
            raise InputError(Fault(str(self.folder), "is not a run folder", "the folder of a run"))
        try:
            self._lock.acquire()
        except Timeout as error:
            raise InputError(self._held()) from error
        except OSError as error:
            fault = Fault(str(self.folder), f"cannot be locked for writing ({error.strerror})")
            raise InputError(fault) from error
        self._sign()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (self.folder / _HOLDER).unlink(missing_ok=True)
        self._lock.release()

    def _sign(self) -> None:
        process = psutil.Process()
        holder = {
            "pid": process.pid,
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
            "host": socket.gethostname(),
            "command": sys.argv,
        }
        temporary = self.folder / f".tmp-{_HOLDER}"  # the next holder writes over what a killed one left
        temporary.write_text(json.dumps(holder))
        temporary.replace(self.folder / _HOLDER)

    def _held(self) -> Fault:
        try:
            holder = json.loads((self.folder / _HOLDER).read_text())
            who = f"process {holder['pid']} on {holder['host']} since {holder['since']}"
        except (OSError, ValueError, KeyError, TypeError):
            who = "another process"
        return Fault(
            str(self.folder),
            f"is being written by {who}",
            "one writer a run",
            "wait for it, stop it, or train under another name",
        )
