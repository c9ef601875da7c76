"""The door to training: what can be started, starting, stopping and resuming it, and what is going on.

Every run has its own job, named after it; the page reads files only, so every tab and a restarted app see the same.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.backend import jobs
from app.backend.runs import RunSummary, runs, runs_root
from coder_core.api.training.start import (
    AnchorRun,
    DataSet,
    Option,
    anchor_runs,
    arguments,
    find_data_sets,
    options,
    presets,
)

__all__ = [
    "AnchorRun", "DataSet", "Option", "Watched", "anchors", "arguments", "data_sets", "dismiss", "free_name",
    "options", "presets", "resume",
    "start", "stop", "watched",
]  # fmt: skip

PREFIX = "train-"
LONGEST = 90  # hexadecimal digits; a job is named with at most 100 letters


@dataclass(frozen=True)
class Watched:
    """A run, a job, or both: a run that was started elsewhere has no job; a job that was refused has no run.

    Args:
        name: of the run. run: as listed, None before its folder is there. job: the last one started here.
        stoppable: it runs, and was started here. alive: it runs, wherever it was started.
    """

    name: str
    run: RunSummary | None
    job: jobs.Job | None
    job_name: str

    @property
    def alive(self) -> bool:
        return self.stoppable or (self.run is not None and self.run.state == "running")

    @property
    def stoppable(self) -> bool:
        return self.job is not None and self.job.running


def data_sets() -> list[DataSet]:
    """The built-in data, and those in the folders of CODER_DATA (separated as PATH is), or in data/."""
    given = os.environ.get("CODER_DATA")
    return find_data_sets(given.split(os.pathsep) if given else [Path.cwd() / "data"])


def job_name(run: str) -> str:
    """The job of a run: hexadecimal digits, whatever the run is called; of a name too long for that, its checksum."""
    digits = run.encode().hex()
    return PREFIX + (digits if len(digits) <= LONGEST else f"x{hashlib.sha256(run.encode()).hexdigest()}")


def watched() -> list[Watched]:
    """Every run and every job, those that run first, then by name."""
    root = runs_root()
    known = {run.name: run for run in runs() if not run.imported}
    names = dict.fromkeys([*known, *_started(root)])
    demo = jobs.current()
    found = []
    for name in names:
        run, job, kept = known.get(name), jobs.current(job_name(name)), job_name(name)
        ours = job is not None and job.running
        if not ours and demo is not None and demo.running and run is not None and run.status.get("pid") == demo.pid:
            job, kept = demo, jobs.TRAINING  # one of the demo pair, which is one job
        found.append(Watched(name, run, job, kept))
    return sorted(found, key=lambda one: (not one.alive, one.name))


def _started(root: Path) -> list[str]:
    """The runs that jobs were started for, decoded from their folders' names."""
    found = []
    for folder in sorted((root / ".work").glob(f"{PREFIX}*")):
        try:
            found.append(bytes.fromhex(folder.name.removeprefix(PREFIX)).decode())
        except ValueError:
            continue
    return found


def free_name(wanted: str) -> str:
    """The name itself, or with the first number behind it that no run or job has."""
    taken = {run.name for run in runs()} | set(_started(runs_root()))
    names = (wanted if number == 1 else f"{wanted}-{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def anchors(preset: str, data: DataSet, changes: Mapping[str, Any]) -> list[AnchorRun]:
    """The finished runs that can be the offline anchor of this choice."""
    return anchor_runs(runs(), preset, data, changes)


def start(preset: str, name: str, data: DataSet, changes: Mapping[str, Any], anchor: AnchorRun | None = None) -> None:
    """Start a run in a process of its own.

    Raises:
        InputError: as `arguments`. OSError: the process cannot be started.
    """
    told, _ = arguments(preset, name, data, changes, anchor)
    jobs.start(jobs.train_command(*told, f"--root={runs_root()}"), job_name(name))


def resume(run: RunSummary) -> None:
    """Take a run up where its newest save stands; `run` is one that was listed."""
    jobs.start(jobs.train_command("--resume", str(run.path)), job_name(run.name))


def dismiss(one: Watched) -> None:
    """Forget a job that is over and left no run."""
    jobs.forget(one.job_name)


def stop(one: Watched) -> None:
    """Ask it to save and leave."""
    jobs.stop(one.job_name)
