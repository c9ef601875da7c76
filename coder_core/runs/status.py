"""`status.json`: how far a run is, replaced in one step; "running" reads as "interrupted" once its process is gone."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import psutil

from coder_core.console.documents import NUMBER, check_values
from coder_core.console.faults import InputError
from coder_core.console.plain_files import read_plain
from coder_core.console.processes import find_process
from coder_core.files.atomic import replace_file
from coder_core.files.lines import open_line, run_key, seal_line

STATUS = "status.json"
KINDS: dict[str, type | tuple[type, ...]] = {
    "state": str,
    "host": str,
    "message": str,
    "pid": int,
    "step": int,
    "steps": int,
    "evaluated": int,
    "best_step": int,
    "without_gain": int,
    "started": NUMBER,
    "time": NUMBER,
    "seconds": NUMBER,
    "peak_mebibytes": NUMBER,
    "best": (*NUMBER, type(None)),
}


def write_status(folder: Path, state: str, **fields: Any) -> None:
    """Replace the status. The caller holds the run's lock.

    Args:
        folder: the run folder.
        state: "running", "finished", "stopped" or "failed".
        fields: JSON values such as step, steps, message.
    """
    process = psutil.Process()
    record = {
        "state": state,
        "pid": process.pid,
        "started": process.create_time(),
        "host": socket.gethostname(),
        "time": time.time(),
        **fields,
    }
    replace_file(Path(folder) / STATUS, seal_line(record, run_key(Path(folder))) + "\n")


def read_status(folder: Path) -> dict[str, Any] | None:
    """The status, or None when the run has none yet.

    Raises:
        InputError: the file is damaged, or another run's.
    """
    path = Path(folder) / STATUS
    try:
        record = open_line(read_plain(path).decode().rstrip("\n"), run_key(Path(folder)))
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
    """True if the process that wrote the record still runs; a record of another machine is believed."""
    if record.get("host") != socket.gethostname():
        return True
    try:
        return find_process(record["pid"], record["started"]) is not None
    except KeyError:
        return False
