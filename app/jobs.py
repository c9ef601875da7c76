"""Jobs started from the app: training, projections and clusterings, each in its own process with a name.

    checkpoints/.training/      the demo's training
    checkpoints/.work/<name>/   a training, projection or clustering; the name contains the run or the result's key

A job's state is stored in files, so it survives a page reload and a restart of the app. At most one process runs under
a name. Starting a job removes the files of jobs that ended a week ago.
"""

import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from coder_core.api.training import DEMO_RUNS, DRAWING, Job, JobFolder, JobProgress, module_command

PROJECT = Path(__file__).resolve().parents[1]
# name of the demo's job, and the program
TRAINING = "training"
TRAIN = "coder_core.train"
CANCELLED = "It was cancelled, or the machine was shut down. Start it again."
STOPPED = "stopped"  # a file in a job's folder
FORGOTTEN_AFTER = 7 * 24 * 3600  # seconds
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


def runs_root() -> Path:
    """Return the folder of runs: CODER_CHECKPOINTS, or checkpoints/ beside the app."""
    return Path(os.environ.get("CODER_CHECKPOINTS") or PROJECT / "checkpoints").resolve()


def folder_of(name: str) -> Path:
    """Return the folder with a job's files. ValueError: the name could lead elsewhere."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"a job is named with lower-case letters, digits and '-', got {name!r}")
    return runs_root() / ".training" if name == TRAINING else runs_root() / ".work" / name


def current(name: str = TRAINING) -> Job | None:
    """Return the last job started under this name, running or ended; None if there was none."""
    return JobFolder(folder_of(name)).current()


def start(command: Sequence[str], name: str = TRAINING) -> Job:
    """Start a command, unless one runs under this name; return the running job. OSError: it cannot be started."""
    _forget_old()
    (folder_of(name) / STOPPED).unlink(missing_ok=True)
    return JobFolder(folder_of(name)).start(command)


def start_work(command: Sequence[str], name: str) -> Job:
    """Start a program that writes its progress to a file; training writes that of its preparation."""
    return start((*command, "--progress", str(JobFolder(folder_of(name)).progress_file)), name)


def stop(name: str = TRAINING) -> None:
    """Send SIGTERM to the running job. Training saves first; a projection or clustering stores nothing."""
    job = current(name)
    if job is not None and job.running:
        JobFolder(folder_of(name)).stop()
        (folder_of(name) / STOPPED).touch()


def was_stopped(name: str = TRAINING) -> bool:
    """True if a person stopped the last job under this name in the app."""
    return (folder_of(name) / STOPPED).exists()


def forget(name: str) -> None:
    """Remove the files of a job that has ended; those of a running job, and of the demo's training, stay."""
    if name != TRAINING:
        JobFolder(folder_of(name)).forget()


def how_it_ended(name: str) -> str:
    """Explain why the last attempt has no result; "" if there was none, or if it is running or finished."""
    job = current(name)
    if job is None or job.running or (job.progress is not None and job.progress.state == "finished"):
        return ""
    if job.progress is not None and job.progress.state == "failed":
        return job.progress.message
    return last_line(job)


def last_line(job: Job) -> str:
    """Return the last line that a job has printed."""
    return str((job.output.strip().splitlines() or [CANCELLED])[-1])


def _forget_old() -> None:
    oldest = time.time() - FORGOTTEN_AFTER
    for folder in (runs_root() / ".work").glob("*/"):
        if _NAME.fullmatch(folder.name) and not folder.is_symlink():
            with suppress(OSError):  # another process is removing it
                if max(path.stat().st_mtime for path in (folder, *folder.iterdir())) < oldest:
                    forget(folder.name)
