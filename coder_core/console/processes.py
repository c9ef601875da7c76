"""Background processes: start one with an argument list, watch it through files, stop it.

    <folder>/job.json       pid, the time that process was created, the command
    <folder>/output.log     everything it prints
    <folder>/progress.json  written by the process itself (`console.progress.ProgressFile`)

A reloaded page, a second tab and a restarted app all see the same job in these files. The creation time distinguishes a
process from a later one with the same pid.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock

from coder_core.console.faults import InputError
from coder_core.console.output import JobProgress, read_progress
from coder_core.console.plain_files import open_plain, read_plain, replace_plain, subfolder

PACKAGE_FOLDER = Path(__file__).resolve().parents[2]  # The folder that holds `coder_core`
OUTPUT_BYTES = 4_000
CLOCK_SLACK = 2.0  # seconds by which two readings of one creation time may differ: psutil adds the boot time
WIDTH = {"COLUMNS": "100"}  # of the tables in a process's output file


def module_command(name: str, *arguments: str) -> tuple[str, ...]:
    """Return the command `python -P -u -m NAME …` of this interpreter; -P keeps the working folder out of sys.path."""
    return (sys.executable, "-P", "-u", "-m", name, *arguments)


def start_process(
    command: Sequence[str],
    output: Path,
    *,
    append: bool = False,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> psutil.Popen:
    """Start a command without a shell and without input.

    It leads its own session, so neither Ctrl-C nor a closed terminal reaches it. While it runs, `is_written` is true
    for its output.

    Args:
        output: file for everything it prints. append: keep the file's contents.
        folder: working folder; None keeps the current one.
        environment: variables to add; `coder_core` can always be imported.
    """
    variables = os.environ | {"PYTHONPATH": str(PACKAGE_FOLDER)} | WIDTH | dict(environment or {})
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    with os.fdopen(open_plain(output, flags), "ab" if append else "wb") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # inherited, and held until the process ends
        return psutil.Popen(
            list(command),
            cwd=folder,
            env=variables,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def is_written(output: Path) -> bool:
    """True while a process that `start_process` started with this output file runs, even if its parent was killed."""
    try:
        with os.fdopen(open_plain(output, os.O_RDONLY)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, InputError):
        return False
    return False


def find_process(pid: int, created: float) -> psutil.Process | None:
    """Find the process with this pid and creation time; None if it has ended, zombies included."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - created) < CLOCK_SLACK
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (psutil.Error, ValueError, OverflowError):
        return None


def processors() -> int:
    """Count the CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def last_output(path: Path) -> str:
    """Read the last 4,000 bytes of a file; "" if it does not exist."""
    try:
        with os.fdopen(open_plain(path, os.O_RDONLY), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - OUTPUT_BYTES))
            return file.read(OUTPUT_BYTES).decode("utf-8", "replace")
    except (OSError, InputError):
        return ""


@dataclass(frozen=True)
class Job:
    """A process that was started in a `JobFolder`, the end of its output, and its last report."""

    pid: int
    running: bool
    output: str = ""
    progress: JobProgress | None = None
    started: float = 0.0  # seconds since 1970


class JobFolder:
    """A folder in which at most one process runs at a time, and which holds the files of the last one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.progress_file = folder / "progress.json"
        self._record_file = folder / "job.json"

    def current(self) -> Job | None:
        """Return the last job started here, running or ended; None if there was none."""
        record = self._record()
        if record is None:
            return None
        pid, created = record
        running = find_process(pid, created) is not None  # first: the output of an ended job is complete
        output = last_output(self.folder / "output.log")
        return Job(pid, running, output, read_progress(self.progress_file), created)

    def start(self, command: Sequence[str]) -> Job:
        """Start a command from the folder of `coder_core`, unless a job runs here; either way, return the running job.

        Raises:
            InputError: the folder or a file that is written there is a link, a pipe or a device.
            OSError: the process cannot be started.
        """
        subfolder(self.folder.parents[1], self.folder.parent.name, self.folder.name)
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder / "lock"
        os.close(open_plain(lock, os.O_RDWR | os.O_CREAT))
        with FileLock(lock, timeout=10):
            job = self.current()
            if job is not None and job.running:
                return job
            self.progress_file.unlink(missing_ok=True)
            replace_plain(self._record_file, "{}")  # fails, if at all, before the process starts
            process = start_process(command, self.folder / "output.log", folder=PACKAGE_FOLDER)
            created = process.create_time()
            record = {"pid": process.pid, "created": created, "command": list(command)}
            replace_plain(self._record_file, json.dumps(record))
            return Job(process.pid, True, started=created)

    def stop(self) -> None:
        """Send SIGTERM to the running job. Training saves before it stops."""
        record = self._record()
        if record is None:
            return
        pid, created = record
        process = find_process(pid, created)
        if process is not None:
            process.terminate()

    def forget(self) -> None:
        """Remove the files of a job that has ended."""
        job = self.current()
        is_ours = self.folder.is_dir() and not self.folder.parent.is_symlink()  # and not, for example, a pipe
        if is_ours and (job is None or not job.running):
            shutil.rmtree(self.folder, ignore_errors=True)

    def _record(self) -> tuple[int, float] | None:
        try:
            record = json.loads(read_plain(self._record_file))
            return int(record["pid"]), float(record["created"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
