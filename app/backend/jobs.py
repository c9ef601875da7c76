"""Long work, started from the app and independent of it: its state lies in files, not in a session.

    checkpoints/.training/       the training process
    checkpoints/.work/<name>/    a projection or a clustering; the name holds the key of its result
        job.json                 pid, the time that process was created, the command
        output.log               what it prints
        progress.json            how far it is, written by the process itself (projections and clusterings)

A page reload, a second tab or a restarted app read the same files; a pid that was given to another process is
recognised by its creation time. Under one name runs one process. A job that ended a week ago is forgotten when the next
one starts.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock

PROJECT = Path(__file__).resolve().parents[2]
DEMO_COMMAND = (sys.executable, "-P", "-u", "-m", "coder_core.train")
TRAINING = "training"
TAIL_BYTES = 4_000
SAME_PROCESS_SECONDS = 1.0
KEPT_SECONDS = 7 * 24 * 3600
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


@dataclass(frozen=True)
class Job:
    """A process started here: its `pid`, whether it is `running`, the last lines it printed."""

    pid: int
    running: bool
    output: str


def folder_of(root: Path, name: str = TRAINING) -> Path:
    """Where a job keeps its files.

    Raises:
        ValueError: the name could lead elsewhere.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"a job is named with lower-case letters, digits and '-', got {name!r}")
    return root / ".training" if name == TRAINING else root / ".work" / name


def _process(pid: int, created: float) -> psutil.Process | None:
    """The process if it is still the one that was started; a zombie is over."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < SAME_PROCESS_SECONDS
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.Error:
        return None


def _record(folder: Path) -> tuple[int, float] | None:
    try:
        record = json.loads((folder / "job.json").read_text("utf-8"))
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


def current(root: Path, name: str = TRAINING) -> Job | None:
    """The last job started under this name, running or over; None when there never was one."""
    folder = folder_of(root, name)
    record = _record(folder)
    if record is None:
        return None
    return Job(record[0], _process(*record) is not None, _tail(folder / "output.log"))


def start(root: Path, command: tuple[str, ...] | None = None, name: str = TRAINING) -> Job:
    """Start the command (the demo pair) unless one runs under this name already; either way, the job that runs.

    An argument list, never a shell; its own session, so that closing the app leaves it alone; no input.
    """
    command = command or (*DEMO_COMMAND, "--root", str(root))
    tidy(root)
    folder = folder_of(root, name)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock", timeout=10):
        running = current(root, name)
        if running is not None and running.running:
            return running
        (folder / "progress.json").unlink(missing_ok=True)
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


def stop(root: Path, name: str = TRAINING) -> None:
    """Ask the running job to leave (SIGTERM). Training saves first; a projection or clustering leaves nothing."""
    record = _record(folder_of(root, name))
    process = _process(*record) if record else None
    if process is not None:
        process.send_signal(signal.SIGTERM)


def forget(root: Path, name: str) -> None:
    """Remove the files of a job that is over; a running one, and training, are left alone."""
    job = current(root, name)
    if name != TRAINING and (job is None or not job.running):
        shutil.rmtree(folder_of(root, name), ignore_errors=True)


def tidy(root: Path) -> None:
    """Forget the jobs in .work/ that are over and whose files are a week old; what runs is left alone."""
    oldest = time.time() - KEPT_SECONDS
    for folder in (root / ".work").glob("*/"):
        if _NAME.fullmatch(folder.name) and not folder.is_symlink() and _newest(folder) < oldest:
            forget(root, folder.name)


def _newest(folder: Path) -> float:
    """When a file in the folder, or the folder, was last written."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:  # another process forgets it just now
        return time.time()
