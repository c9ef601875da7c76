"""The runs of a table, one after another or several at once, each as a process of its own.

A process is an ordinary `python -P -m coder_core.train …` with an argument list, never a shell; what it prints goes to
`logs/<run>.log`. Ctrl-C or SIGTERM asks every process to save and leave; the same command goes on later.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import coder_core
from coder_core.ablation.planning import PlannedRun, commands
from coder_core.console.faults import InputError
from coder_core.console.signals import StopSignals
from coder_core.runs.files.status import read_status

PACKAGE_FOLDER = Path(coder_core.__file__).resolve().parents[1]
LOGS = "logs"
POLL_SECONDS = 0.5
STOPPED = 3  # exit status of a run that a signal stopped and that saved


@dataclass
class Active:
    """A run whose process is going.

    Args:
        planned: the run.
        left: commands after this one.
        process: the present one.
        slot: which place it takes, and so which GPU.
    """

    planned: PlannedRun
    left: deque[list[str]]
    process: subprocess.Popen[bytes]
    slot: int


@dataclass
class Progress:
    """What a person watching is told.

    Args:
        done, failed, waiting: runs.
        active: run → (steps done, steps in all, R@sum so far).
        share: of all the work, from 0 to 1.
        seconds_left: for the whole table; None before anything is known.
    """

    done: list[PlannedRun] = field(default_factory=list)
    failed: list[PlannedRun] = field(default_factory=list)
    waiting: int = 0
    active: dict[str, tuple[int, int, float | None]] = field(default_factory=dict)
    share: float = 0.0
    seconds_left: float | None = None


class _Stop(StopSignals):
    """How many signals came."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def noted(self, number: int) -> None:
        self.count += 1


def run_all(
    planned: Sequence[PlannedRun], split: str, *, jobs: int = 1, threads: int = 0, gpus: Sequence[str] = (),
    tell: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Progress, bool]:  # fmt: skip
    """Run what is not finished yet.

    Args:
        planned: the runs, in order.
        split: to evaluate them on.
        jobs: processes at a time.
        threads: CPU threads of each; 0 leaves what the configuration says.
        gpus: handed out in turn; none for the CPU.
        tell: called about twice a second.

    Returns:
        What came of it, and whether a signal ended it early.
    """
    progress = Progress()
    waiting: deque[tuple[PlannedRun, deque[list[str]]]] = deque()
    for one in planned:
        todo = deque(commands(one, split, threads=threads))
        if todo:
            waiting.append((one, todo))
        else:
            progress.done.append(one)
    active: list[Active] = []
    told = 0
    clock = _Clock(jobs)
    with _Stop() as stop:
        while active or (waiting and not stop.count):
            while waiting and len(active) < jobs and not stop.count:
                one, todo = waiting.popleft()
                slot = min(set(range(jobs)) - {going.slot for going in active})
                active.append(Active(one, todo, _start(one, todo.popleft(), slot, gpus), slot))
            if stop.count > told:
                told = stop.count
                for going in active:
                    going.process.send_signal(signal.SIGTERM)
            active = [going for going in active if _still_going(going, progress, gpus, stop.count > 0)]
            clock.read(progress, active, waiting)
            tell(progress)
            time.sleep(POLL_SECONDS if active else 0)
    progress.waiting = len(waiting)
    return progress, stop.count > 0


def _start(one: PlannedRun, command: list[str], slot: int, gpus: Sequence[str]) -> subprocess.Popen[bytes]:
    logs = one.folder.parent / LOGS
    logs.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"PYTHONPATH": str(PACKAGE_FOLDER), "COLUMNS": "120"}
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    with (logs / f"{one.folder.name}.log").open("ab") as output:
        # Its own session: Ctrl-C reaches the processes once, through us, and a second signal would cut a save short.
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip


def _still_going(going: Active, progress: Progress, gpus: Sequence[str], stopping: bool) -> bool:
    code = going.process.poll()
    if code is None:
        return True
    if code == 0 and going.left and not stopping:
        going.process = _start(going.planned, going.left.popleft(), going.slot, gpus)
        return True
    if code == 0 and not going.left:
        progress.done.append(going.planned)
    elif not (stopping or code == STOPPED):
        progress.failed.append(going.planned)
    return False


class _Clock:
    """Time left, from the share of each run that is done and the seconds that took."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def read(
        self, progress: Progress, active: Sequence[Active], waiting: deque[tuple[PlannedRun, deque[list[str]]]]
    ) -> None:
        progress.waiting, progress.active = len(waiting), {}
        shares, seconds = [], 0.0
        for one in [*progress.done, *(going.planned for going in active), *(pending for pending, _ in waiting)]:
            status = _status(one.folder)
            step, steps = int(status.get("step", 0)), int(status.get("steps", 0))
            shares.append(1.0 if one in progress.done else step / steps if steps else 0.0)
            seconds += float(status.get("seconds", 0.0))
            if any(one is going.planned for going in active):
                progress.active[one.folder.name] = step, steps, status.get("best")
        progress.share = sum(shares) / len(shares) if shares else 1.0
        if sum(shares) > 0 and seconds > 0:
            progress.seconds_left = (len(shares) - sum(shares)) * seconds / sum(shares) / self.jobs


def _status(folder: Path) -> dict[str, Any]:
    try:
        return read_status(folder) or {}
    except InputError:
        return {}
