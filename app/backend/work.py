"""The door to long work beside training: projections and clusterings, each a process of its own."""

from __future__ import annotations

import sys

from app.backend import jobs
from app.backend.runs import runs_root
from coder_core.api.training.progress import Progress, read_progress

__all__ = ["Progress", "how_it_ended", "module", "progress", "running", "start", "stop"]

CANCELLED = "It was cancelled, or the machine went down; start it again."


def module(name: str, *arguments: str) -> tuple[str, ...]:
    """The command `python -P -u -m NAME …` of this interpreter; -P keeps the working folder out of sys.path."""
    return (sys.executable, "-P", "-u", "-m", name, *arguments)


def start(name: str, command: tuple[str, ...]) -> None:
    """Start it unless it runs already."""
    root = runs_root()
    jobs.start(root, (*command, "--progress", str(jobs.folder_of(root, name) / "progress.json")), name)


def stop(name: str) -> None:
    """End it; nothing half-finished is kept."""
    jobs.stop(runs_root(), name)


def running(name: str) -> bool:
    """Whether it runs now, started by whichever tab."""
    job = jobs.current(runs_root(), name)
    return job is not None and job.running


def progress(name: str) -> Progress | None:
    """How far it is; None before it said anything."""
    return read_progress(jobs.folder_of(runs_root(), name) / "progress.json")


def how_it_ended(name: str) -> str:
    """Why the last attempt left no result; "" when there was none, or when it finished."""
    job = jobs.current(runs_root(), name)
    if job is None or job.running:
        return ""
    found = progress(name)
    if found is not None and found.state == "finished":
        return ""
    if found is not None and found.state == "failed":
        return found.message
    last = job.output.strip().splitlines()
    return last[-1] if last else CANCELLED
