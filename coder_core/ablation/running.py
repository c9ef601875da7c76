"""Run a table's rows and seeds, one after another or several at once, each in its own process.

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
from typing import Any

import psutil
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from coder_core.ablation.planning import PlannedRun, commands
from coder_core.console.faults import InputError
from coder_core.console.output import say
from coder_core.console.processes import is_written, start_process
from coder_core.console.progress import best_so_far
from coder_core.console.signals import StopSignals
from coder_core.runs.status import read_status

LOGS = "logs"
POLL_SECONDS = 0.5
SECONDS_BETWEEN_LINES = 60.0  # without a terminal for live bars
STOPPED = 3  # exit status of a run that saved and stopped at a signal


@dataclass
class RowProcess:
    """A run and its remaining commands: training, and perhaps evaluating another split."""

    planned: PlannedRun
    commands: deque[tuple[str, ...]] = field(default_factory=deque)
    slot: int = 0  # index among the concurrent processes; chooses the GPU
    process: psutil.Popen | None = None  # the current one; None before the first

    @property
    def log(self) -> Path:
        folder = self.planned.folder
        return folder.parent / LOGS / f"{folder.name}.log"

    def start_next(self, gpus: Sequence[str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        environment = {"CUDA_VISIBLE_DEVICES": gpus[self.slot % len(gpus)]} if gpus else {}
        self.process = start_process(self.commands.popleft(), self.log, append=True, environment=environment)


@dataclass
class TableProgress:
    """Progress of a table."""

    done: list[PlannedRun] = field(default_factory=list)
    failed: list[PlannedRun] = field(default_factory=list)
    survivors: list[PlannedRun] = field(default_factory=list)  # trained by a killed command's processes
    active: dict[str, tuple[int, int, str]] = field(default_factory=dict)  # steps done, all, best R@sum
    share: float = 0.0  # of the total work that is done, from 0 to 1
    seconds_left: float | None = None  # for all runs; None until it can be estimated


class _CountSignals(StopSignals):
    count = 0

    def noted(self, number: int) -> None:
        self.count += 1


def run_all(
    planned: Sequence[PlannedRun],
    split: str,
    *,
    jobs: int = 1,
    threads: int = 0,
    gpus: Sequence[str] = (),
    tell: Callable[[TableProgress], None] = lambda progress: None,
) -> tuple[TableProgress, bool]:
    """Run the planned runs that are not finished yet. Return the final progress, and True if a signal ended it early.

    Args:
        split: the split to evaluate the runs on. jobs: number of concurrent processes.
        threads: CPU threads of each process; 0 keeps the configuration's number.
        gpus: GPUs to assign in turn; empty for the CPU.
        tell: called with the progress about twice a second.
    """
    runs = [RowProcess(run) for run in planned]
    waiting = deque(run for run in runs if is_written(run.log) or commands(run.planned, split))
    progress = TableProgress(done=[run.planned for run in runs if run not in waiting])
    active: list[RowProcess] = []
    signals_sent = 0
    with _CountSignals() as signals:
        while active or (waiting and not signals.count):
            survivors = [run for run in waiting if is_written(run.log)]
            progress.survivors = [run.planned for run in survivors]
            free = jobs - len(survivors)
            while (
                len(active) < free and not signals.count and (startable := ready(waiting, active, survivors))
            ):
                run = startable[0]
                waiting.remove(run)
                run.commands.extend(commands(run.planned, split, threads=threads))
                if not run.commands:  # the process of an earlier command finished it
                    progress.done.append(run.planned)
                    continue
                run.slot = min(set(range(jobs)) - {process.slot for process in active})
                run.start_next(gpus)
                active.append(run)
            if signals.count > signals_sent:
                signals_sent = signals.count
                for process in filter(None, (run.process for run in active)):
                    process.terminate()
            active = [run for run in active if _still_going(run, progress, gpus, signals.count > 0)]
            _measure(progress, active, waiting, jobs)
            tell(progress)
            time.sleep(POLL_SECONDS if active or waiting else 0)
    return progress, signals.count > 0


def ready(
    waiting: Sequence[RowProcess], active: Sequence[RowProcess], survivors: Sequence[RowProcess] = ()
) -> list[RowProcess]:
    """Return the waiting runs that are not survivors and do not read an unfinished run."""
    to_come = {run.planned.folder for run in (*waiting, *active)}
    return [run for run in waiting if run not in survivors and not to_come.intersection(run.planned.reads)]


def _still_going(run: RowProcess, progress: TableProgress, gpus: Sequence[str], stopping: bool) -> bool:
    code = run.process.poll() if run.process is not None else None
    if code is None:
        return True
    if code == 0 and run.commands and not stopping:
        run.start_next(gpus)
        return True
    if code == 0 and not run.commands:
        progress.done.append(run.planned)
    elif not (stopping or code == STOPPED):
        progress.failed.append(run.planned)
    return False


def _measure(
    progress: TableProgress, active: Sequence[RowProcess], waiting: Sequence[RowProcess], jobs: int
) -> None:
    """Update the active runs' steps, the share of work done, and the time left, estimated from the time spent so far."""
    progress.active = {}
    shares = [1.0] * len(progress.done)
    seconds = sum(float(_status(run.folder).get("seconds", 0.0)) for run in progress.done)
    for run in (*active, *waiting):
        status = _status(run.planned.folder)
        step = int(status.get("step", 0))
        steps = int(status.get("steps", 0))
        shares.append(step / steps if steps else 0.0)
        seconds += float(status.get("seconds", 0.0))
        if run.process is not None:
            best = best_so_far(status.get("best"), run.planned.config.training.choose_on)
            progress.active[run.planned.folder.name] = step, steps, best
    progress.share = sum(shares) / len(shares) if shares else 1.0
    if sum(shares) > 0 and seconds > 0:
        progress.seconds_left = (len(shares) - sum(shares)) * seconds / sum(shares) / jobs


def _status(folder: Path) -> dict[str, Any]:
    with suppress(InputError):
        return read_status(folder) or {}
    return {}


@contextmanager
def watching(console: Console, runs: int, of: str = "table") -> Iterator[Callable[[TableProgress], None]]:
    """Yield a function that shows progress: bars for the table and each active run, or lines without a terminal."""
    live = console.is_terminal
    columns = TextColumn("{task.description}"), BarColumn(bar_width=30), TaskProgressColumn()
    facts_column = TextColumn("{task.fields[facts]}")
    with Progress(*columns, facts_column, console=console, transient=True, disable=not live) as bars:
        table = bars.add_task(f"[bold]{of}", total=1.0, facts="")
        tasks: dict[str, TaskID] = {}
        lines = _printed_lines(console)

        def tell(progress: TableProgress) -> None:
            left = "time left not known yet"
            if progress.seconds_left is not None:
                left = f"{timedelta(seconds=round(progress.seconds_left))} left"
            facts = f"{len(progress.done)} of {runs} runs · {left}"
            if not live:
                lines(progress, facts)
                return
            facts += f" · {len(progress.failed)} failed" if progress.failed else ""
            facts += f" · {len(progress.survivors)} from an earlier command" if progress.survivors else ""
            bars.update(table, completed=progress.share, facts=facts)
            for name in tasks.keys() - progress.active.keys():
                bars.remove_task(tasks.pop(name))
            for name, (step, steps, best) in progress.active.items():
                if name not in tasks:
                    tasks[name] = bars.add_task(name, total=None, facts="")
                facts = f"step {step:,} of {steps:,}" if steps else "reading data"
                facts += f" · {best}" if best else ""
                bars.update(tasks[name], total=steps or None, completed=step, facts=facts)

        yield tell


def _printed_lines(console: Console) -> Callable[[TableProgress, str], None]:
    """Return a function that prints the start and failure of every run once, and a summary every minute."""
    printed = set[str]()
    printed_at = 0.0

    def tell(progress: TableProgress, facts: str) -> None:
        nonlocal printed_at
        earlier = "waiting for the process of an earlier command"
        events = [f"{earlier}: {run.folder.name}" for run in progress.survivors]
        events += [f"started: {name}" for name in progress.active]
        events += [f"failed: {run.folder.name}" for run in progress.failed]
        for event in events:
            if event not in printed:
                say(console, event)
        printed.update(events)
        if time.monotonic() - printed_at > SECONDS_BETWEEN_LINES and progress.seconds_left is not None:
            printed_at = time.monotonic()
            steps = [f"{name} step {step:,} of {of:,}" for name, (step, of, _) in progress.active.items()]
            say(console, " · ".join([facts, *steps]))

    return tell
