"""Start, stop and resume training, and list what is training. Every run has its own job, named after it. All state is
stored in files, so every tab and a restarted app show the same."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from app import jobs
from app.ask import RunSummary, all_runs
from app.jobs import runs_root
from coder_core.api.training import start as starting

PREFIX = "train-"
EVALUATION = "evaluate-"
NOT_STARTED = "Nothing was started."
LONGEST = 84  # hexadecimal digits; a job name has at most 100 letters


@dataclass(frozen=True)
class TrainingRun:
    """A listed run, the last job started for it here, or both: a run started elsewhere has no job, and a refused job
    has no run."""

    name: str
    run: RunSummary | None
    job: jobs.Job | None
    job_name: str

    @property
    def alive(self) -> bool:
        """True if it is running, wherever it was started."""
        return self.stoppable or (self.run is not None and self.run.state == "running")

    @property
    def stoppable(self) -> bool:
        """True if it is running and was started here."""
        return self.job is not None and self.job.running


def data_sets() -> list[starting.DataSet]:
    """List the built-in data, and the data sets in the folders of CODER_DATA (separated as in PATH), or in data/."""
    folders = os.environ.get("CODER_DATA")
    return starting.find_data_sets(folders.split(os.pathsep) if folders else [Path.cwd() / "data"])


def job_name(run: str, prefix: str = PREFIX) -> str:
    """Return the name of a run's job: the run's name in hexadecimal digits, or a checksum if that is too long."""
    digits = run.encode().hex()
    return prefix + (digits if len(digits) <= LONGEST else f"x{hashlib.sha256(run.encode()).hexdigest()}")


def training_runs() -> list[TrainingRun]:
    """List every run and every job, running ones first, then by name. A run may belong to another run's job: one job
    trains all demo runs in turn, and a cleaned run's job starts the processes of its scorers."""
    by_name = {run.name: run for run in all_runs() if not run.imported}
    names = {name: job_name(name) for name in dict.fromkeys([*by_name, *_started()])}
    found = {key: jobs.current(key) for key in (jobs.TRAINING, *names.values())}
    running = {job.pid: key for key, job in found.items() if job is not None and job.running}
    entries = []
    for name, of_job in names.items():
        run = by_name.get(name)
        job = found[of_job]
        if run and (run.state != "finished" or not run.splits) and not (job and job.running):
            of_job = next((running[pid] for pid in _processes(run) if pid in running), of_job)
        entries.append(TrainingRun(name, run, found[of_job], of_job))
    return sorted(entries, key=lambda entry: (not entry.alive, entry.name))


def _processes(run: RunSummary) -> tuple[int, ...]:
    """Return the process that trains or trained a run, and its parent."""
    pid = run.status.get("pid", 0)
    try:
        return pid, psutil.Process(pid).ppid()
    except (psutil.Error, OverflowError):
        return (pid,)


def _started() -> list[str]:
    """List the runs that jobs were started for, decoded from the names of the jobs' folders."""
    names = []
    for folder in sorted((runs_root() / ".work").glob(f"{PREFIX}*")):
        try:
            names.append(bytes.fromhex(folder.name.removeprefix(PREFIX)).decode())
        except ValueError:
            continue
    return names


def find(name: str) -> TrainingRun | None:
    """Return the run of this name among those that are training or have trained; None if there is none."""
    return next((entry for entry in training_runs() if entry.name == name), None)


def free_name(name: str) -> str:
    """Return the name, shortened, or with the first number appended that makes it unique among runs and jobs."""
    taken = {run.name for run in all_runs()} | set(_started())
    name = name[: starting.LONGEST_NAME - 3]
    names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
    return next(candidate for candidate in names if candidate not in taken)


def start(preset: str, name: str, *settings: Any) -> None:
    """Start a run in its own process. InputError: as from `arguments`. OSError: it cannot be started."""
    values, _ = starting.arguments(preset, name, *settings)
    jobs.start_work(jobs.module_command(jobs.TRAIN, *values, f"--root={runs_root()}"), job_name(name))


def resume(run: RunSummary) -> None:
    """Continue a run from its newest save; `run` comes from the list of runs."""
    jobs.start_work(jobs.module_command(jobs.TRAIN, "--resume", str(run.path)), job_name(run.name))


def evaluate(run: RunSummary, split: str) -> None:
    """Evaluate a run's best model on "dev" or "train" in its own process; `run` comes from the list of runs."""
    command = jobs.module_command("coder_core.evaluate", str(run.path), "--split", split)
    jobs.start(command, job_name(run.name, f"{EVALUATION}{split}-"))


def evaluation(run: RunSummary, split: str) -> jobs.Job | None:
    """Return the last job of `evaluate`, running or ended."""
    return jobs.current(job_name(run.name, f"{EVALUATION}{split}-"))
