"""One training process, started from the app and independent of it: its state lies in files, not in a session.

    checkpoints/.training/job.json      pid, the time that process was created, the command
    checkpoints/.training/output.log    what it prints

A page reload, a second tab or a restarted app read the same files; a pid that was given to another process is
recognised by its creation time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock

PROJECT = Path(__file__).resolve().parents[1]
DEMO_COMMAND = (sys.executable, "-P", "-u", "-m", "coder_core.train")
TAIL_BYTES = 4_000
SAME_PROCESS_SECONDS = 1.0


@dataclass(frozen=True)
class Job:
    """A training process: `running`, its `pid`, the last lines it printed."""

    pid: int
    running: bool
    output: str


def _folder(root: Path) -> Path:
    return root / ".training"


def _process(pid: int, created: float) -> psutil.Process | None:
    """The process if it is still the one that was started; a zombie is over."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < SAME_PROCESS_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _record(root: Path) -> tuple[int, float] | None:
    try:
        record = json.loads((_folder(root) / "job.json").read_text("utf-8"))
        return int(record["pid"]), float(record["created"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def current(root: Path) -> Job | None:
    """The last job started for this folder of runs, running or over; None when there never was one."""
    record = _record(root)
    if record is None:
        return None
    return Job(record[0], _process(*record) is not None, _tail(_folder(root) / "output.log"))


def start(root: Path, command: tuple[str, ...] | None = None) -> Job:
    """Start the command (the demo pair) unless a job is running already; either way, the job that runs.

    An argument list, never a shell; its own session, so that closing the app leaves it alone; no input.
    """
    command = command or (*DEMO_COMMAND, "--root", str(root))
    folder = _folder(root)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock", timeout=10):
        running = current(root)
        if running is not None and running.running:
            return running
        environment = os.environ | {"PYTHONPATH": str(PROJECT), "COLUMNS": "100"}
        with (folder / "output.log").open("wb") as output:
            child = subprocess.Popen(
                list(command), cwd=PROJECT, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        created = psutil.Process(child.pid).create_time()
        record = {"pid": child.pid, "created": created, "command": list(command)}
        temporary = folder / ".tmp-job.json"
        temporary.write_text(json.dumps(record), "utf-8")
        temporary.replace(folder / "job.json")
        return Job(child.pid, True, "")


def stop(root: Path) -> None:
    """Ask the running job to save and leave (SIGTERM); it does so within seconds."""
    record = _record(root)
    process = _process(*record) if record else None
    if process is not None:
        process.send_signal(signal.SIGTERM)
