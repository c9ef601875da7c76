"""Run planned runs, one after another or several at once, each in its own process.

A process is an ordinary `python -P -m coder_core.train …`; `logs/<run>.log` contains its output. Ctrl-C or SIGTERM asks
every process to save and exit. The same command continues later, even after kill -9, and also waits for processes that
outlived an earlier command.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from coder_core.config.schema import Config
from coder_core.console.faults import InputError
from coder_core.console.output import best_so_far, say
from coder_core.console.processes import is_written, processors, start_process
from coder_core.console.signals import StopSignals
from coder_core.queue.planned import Command, PlannedRun, commands, gpus
from coder_core.runs.record import read_status

LOGS = "logs"
POLL_SECONDS = 0.5
SECONDS_BETWEEN_LINES = 60.0  # without a terminal for live bars
STOPPED = 3  # exit status of a run that saved and stopped at a signal


class Workers(NamedTuple):
    """What the processes may use."""

    jobs: int = 1  # processes at a time
    threads: int = 0  # CPU threads of each; 0: as its configuration says
    gpus: Sequence[str] = ()  # assigned in turn; empty for the CPU


ONE = Workers()


def workers_for(config: Config, jobs: int = 0, *, divide_cores: bool = False) -> Workers:
    """Return as many jobs as asked, or one per GPU, or one on the CPU; `divide_cores`: share the CPU's cores out."""
    devices = [] if config.training.device == "cpu" else gpus()
    jobs = jobs or max(1, len(devices))
    threads = max(1, processors() // jobs) if divide_cores and jobs > 1 else 0
    return Workers(jobs, threads, devices)


class ActiveRun(NamedTuple):
    """Progress of a run that is being trained."""

    step: int
    steps: int  # 0 while it reads the data
    best: str  # R@sum so far, in words


@dataclass
class QueueProgress:
    """Progress of all planned runs."""

    done: list[PlannedRun] = field(default_factory=list)
    failed: list[PlannedRun] = field(default_factory=list)
    survivors: list[PlannedRun] = field(default_factory=list)  # trained by a killed command's processes
    active: dict[str, ActiveRun] = field(default_factory=dict)
    share: float = 0.0  # of the total work that is done, from 0 to 1
    seconds_left: float | None = None  # for all runs; None until it can be estimated


Tell = Callable[[QueueProgress], None]


@dataclass
class RunProcess:
    """A planned run and its remaining commands: training, and perhaps evaluating another split."""

    planned: PlannedRun
    commands: deque[Command] = field(default_factory=deque)
    slot: int = 0  # index among the concurrent processes; chooses the GPU
    process: psutil.Popen | None = None  # the current one; None before the first

    @property
    def log(self) -> Path:
        """File with all output of its processes."""
        return log_of(self.planned.folder)

    @property
    def survives(self) -> bool:
        """True while a process of an earlier command trains this run."""
        return self.process is None and is_written(self.log)

    def start_next(self, gpus: Sequence[str]) -> None:
        """Start the next command."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {"CUDA_VISIBLE_DEVICES": gpus[self.slot % len(gpus)]} if gpus else {}
        self.process = start_process(self.commands.popleft(), self.log, append=True, environment=environment)


class _CountSignals(StopSignals):
    count = 0

    def noted(self, number: int) -> None:
        self.count += 1


def log_of(folder: Path) -> Path:
    """Return the file with the output of a run's processes."""
    return folder.parent / LOGS / f"{folder.name}.log"


def run_all(
    planned: Sequence[PlannedRun], split: str, workers: Workers = ONE, tell: Tell = lambda progress: None
) -> tuple[QueueProgress, bool]:
    """Run the planned runs that are not finished and evaluated on `split`; `tell` is called with the progress about
    twice a second. Return the final progress, and True if a signal ended it early."""
    queue = _Queue(planned, split, workers)
    signals_sent = 0
    with _CountSignals() as signals:
        while queue.active or (queue.waiting and not signals.count):
            if not signals.count:
                queue.start()
            if signals.count > signals_sent:
                signals_sent = signals.count
                queue.terminate()
            queue.collect(stopping=signals.count > 0)
            queue.measure()
            tell(queue.progress)
            time.sleep(POLL_SECONDS if queue.active or queue.waiting else 0)
    return queue.progress, signals.count > 0


class _Queue:
    def __init__(self, planned: Sequence[PlannedRun], split: str, workers: Workers) -> None:
        self.split = split
        self.workers = workers
        self.active: list[RunProcess] = []
        self.waiting: list[RunProcess] = []
        self.progress = QueueProgress()
        for run in map(RunProcess, planned):
            if run.survives or commands(run.planned, split):
                self.waiting.append(run)
            else:
                self.progress.done.append(run.planned)

    def start(self) -> None:
        """Start runs while there is room for another process."""
        survivors = [run for run in self.waiting if run.survives]
        self.progress.survivors = [run.planned for run in survivors]
        room = self.workers.jobs - len(survivors)
        while len(self.active) < room:
            startable = ready(self.waiting, self.active, survivors)
            if not startable:
                return
            run = startable[0]
            self.waiting.remove(run)
            run.commands.extend(commands(run.planned, self.split, threads=self.workers.threads))
            if not run.commands:  # the process of an earlier command finished it
                self.progress.done.append(run.planned)
                continue
            run.slot = min(set(range(self.workers.jobs)) - {other.slot for other in self.active})
            run.start_next(self.workers.gpus)
            self.active.append(run)

    def terminate(self) -> None:
        """Ask every process to save and exit."""
        for run in self.active:
            if run.process is not None:
                run.process.terminate()

    def collect(self, *, stopping: bool) -> None:
        """Start the next command of runs whose process has ended, and sort out those that are done or have failed."""
        still_active = []
        for run in self.active:
            code = run.process.poll() if run.process is not None else None
            if code is None:
                still_active.append(run)
            elif code == 0 and not run.commands:
                self.progress.done.append(run.planned)
            elif code == 0 and not stopping:
                run.start_next(self.workers.gpus)
                still_active.append(run)
            elif code not in (0, STOPPED) and not stopping:
                self.progress.failed.append(run.planned)
        self.active = still_active

    def measure(self) -> None:
        """Update the active runs' steps, the share of work done, and the time left, estimated from the time spent."""
        progress = self.progress
        progress.active = {}
        shares = [1.0] * len(progress.done)
        seconds = sum(float(_status(run.folder).get("seconds", 0.0)) for run in progress.done)
        for run in (*self.active, *self.waiting):
            status = _status(run.planned.folder)
            step = int(status.get("step", 0))
            steps = int(status.get("steps", 0))
            shares.append(step / steps if steps else 0.0)
            seconds += float(status.get("seconds", 0.0))
            if run.process is not None:
                best = best_so_far(status.get("best"), run.planned.config.training.choose_on)
                progress.active[run.planned.name] = ActiveRun(step, steps, best)

        done = sum(shares)
        progress.share = done / len(shares) if shares else 1.0
        if done > 0 and seconds > 0:
            progress.seconds_left = (len(shares) - done) * seconds / done / self.workers.jobs


def ready(
    waiting: Sequence[RunProcess], active: Sequence[RunProcess], survivors: Sequence[RunProcess] = ()
) -> list[RunProcess]:
    """Return the waiting runs that are not survivors and do not read an unfinished run."""
    to_come = {run.planned.folder for run in (*waiting, *active)}
    return [run for run in waiting if run not in survivors and not to_come.intersection(run.planned.reads)]


def _status(folder: Path) -> dict[str, Any]:
    with suppress(InputError):
        return read_status(folder) or {}
    return {}


@contextmanager
def watched(console: Console, runs: int, of: str) -> Iterator[Tell]:
    """Yield a function that shows the progress of so many runs: bars for all together and each active run, or lines
    without a terminal. `of`: their name."""
    if console.is_terminal:
        with _bars(console) as bars:
            yield _drawn_bars(bars, runs, of)
    else:
        yield _printed_lines(console, runs)


def _facts(progress: QueueProgress, runs: int) -> str:
    left = "time left not known yet"
    if progress.seconds_left is not None:
        left = f"{timedelta(seconds=round(progress.seconds_left))} left"
    return f"{len(progress.done)} of {runs} runs · {left}"


def _bars(console: Console) -> Progress:
    task = TextColumn("{task.description}")
    facts = TextColumn("{task.fields[facts]}")
    return Progress(
        task, BarColumn(bar_width=30), TaskProgressColumn(), facts, console=console, transient=True
    )


def _drawn_bars(bars: Progress, runs: int, of: str) -> Tell:
    whole = bars.add_task(f"[bold]{of}", total=1.0, facts="")
    tasks: dict[str, TaskID] = {}

    def tell(progress: QueueProgress) -> None:
        facts = _facts(progress, runs)
        if progress.failed:
            facts += f" · {len(progress.failed)} failed"
        if progress.survivors:
            facts += f" · {len(progress.survivors)} from an earlier command"
        bars.update(whole, completed=progress.share, facts=facts)
        for name in tasks.keys() - progress.active.keys():
            bars.remove_task(tasks.pop(name))
        for name, run in progress.active.items():
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=None, facts="")
            at = f"step {run.step:,} of {run.steps:,}" if run.steps else "reading data"
            facts = f"{at} · {run.best}" if run.best else at
            bars.update(tasks[name], total=run.steps or None, completed=run.step, facts=facts)

    return tell


def _printed_lines(console: Console, runs: int) -> Tell:
    """Return a function that prints the start and failure of every run once, and a summary every minute."""
    printed = set[str]()
    printed_at = 0.0

    def tell(progress: QueueProgress) -> None:
        nonlocal printed_at
        earlier = "waiting for the process of an earlier command"
        events = [f"{earlier}: {run.name}" for run in progress.survivors]
        events += [f"started: {name}" for name in progress.active]
        events += [f"failed: {run.name}" for run in progress.failed]
        for event in events:
            if event not in printed:
                say(console, event)
        printed.update(events)
        if time.monotonic() - printed_at > SECONDS_BETWEEN_LINES and progress.seconds_left is not None:
            printed_at = time.monotonic()
            steps = [f"{name} step {run.step:,} of {run.steps:,}" for name, run in progress.active.items()]
            say(console, " · ".join([_facts(progress, runs), *steps]))

    return tell
