"""Kill a tiny run many times, send it signals and empty its data, each time in a forked child; print JSON reports.

A fork is cheaper than a new interpreter that imports PyTorch. This process never trains, because forks of a process
that has trained may hang.
"""

import json
import os
import random
import signal
import sys
import time
import traceback
from pathlib import Path

import psutil

from coder_core.runs.record import read_status
from coder_core.runs.saves import SaveStore
from coder_core.train import main as command
from coder_core.training.launch import StoppedError, start_run
from tests.console.test_processes import until
from tests.support.tiny_runs import quiet, tiny_config

REFUSED = 70  # exit code of a child whose task raised an exception
RANDOM_KILLS = 4
SAVE_KILLS = 2
LATEST_KILL = 0.8  # random kills come within this share of an undisturbed run's processor time
STEPS_OF_A_SAVE = 30  # file operations of a save and of pruning, at one of which a child kills itself
# a run takes five steps an epoch; a signal comes after the step EARLY
EPOCHS = 4
EARLY = 8
SIGNALLED_AT = 10  # file operation of a save at which a signal comes


class AtOperation:
    """Audit hook that acts, by default dies, at this process's nth file operation on paths that start with `mark`."""

    def __init__(self, mark, nth, act=lambda: os.kill(os.getpid(), signal.SIGKILL)):
        self.mark = str(mark)
        self.left = nth
        self.act = act
        sys.addaudithook(self)

    def __call__(self, event, arguments):
        """Count an operation; Python calls this before every open, mkdir, rename, remove and rmdir."""
        if self.left > 0 and event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"):
            self.left -= any(str(argument).startswith(self.mark) for argument in arguments)
            if self.left == 0:
                self.act()


def child(task):
    """Fork; the child runs the task and exits with its result, None as 0, after an exception REFUSED. Return its process id."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = REFUSED
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        code = task() or 0
    except BaseException:
        traceback.print_exc()  # to what the task has opened for its output
    finally:
        os._exit(code)


def kill_after(pid, seconds):
    """Kill the child once it has used this many seconds of processor time, unless it ends before."""
    while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        used = psutil.Process(pid).cpu_times()
        if used.user + used.system >= seconds:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.002)


def wait(pid):
    """Wait for the child and return its exit code, or minus the number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def train(data, root, name, save_every=1000.0):
    """Start the run, or resume it if it exists; return the exit code of the command."""
    if (root / name / "config.toml").exists():
        return command(["--resume", str(root / name)])
    config = tiny_config(Path(data), name, epochs=EPOCHS, evaluate_every=3, save_every=save_every)
    try:
        start_run(config, root, quiet())
    except StoppedError:
        return 3
    return 0


def newest_step(folder):
    """Return the step of the newest save that verifies (0 if none does) and the number of damaged saves."""
    save = SaveStore(folder / "state", keep=2).newest()
    return (int(save.name), len(save.skipped)) if save else (0, 0)


def kills(data, root, *, anywhere=RANDOM_KILLS, in_saves=SAVE_KILLS, seed=0):
    """Kill and resume one run until it finishes, then the next, until all kills are done; report each kill."""
    random.seed(seed)
    plan = ["random"] * anywhere + ["save"] * in_saves
    random.shuffle(plan)
    reports = []
    number = 0
    _, whole, usage = os.wait4(child(lambda: train(data, root, "whole")), 0)
    longest = LATEST_KILL * (usage.ru_utime + usage.ru_stime)
    while plan:
        folder = root / f"run-{number}"
        before = newest_step(folder)[0]
        kind = plan.pop()

        def task(kind=kind, folder=folder):
            if kind == "save":
                AtOperation(folder / "state" / ".tmp-", random.randrange(1, STEPS_OF_A_SAVE))
            return train(data, root, folder.name, 0.03)

        pid = child(task)
        random.random()  # skip the number that the child drew from its copy of the generator
        if kind == "random":
            kill_after(pid, random.uniform(0, longest))
        code = wait(pid)
        if code == 0:  # finished before it was killed: repeat this kill on another run
            plan.insert(0, kind)
            number += 1
            continue
        after, damaged = newest_step(folder)
        unfinished = len(list((folder / "state").glob(".tmp-*"))) if (folder / "state").is_dir() else 0
        report = {"kind": kind, "run": number, "code": code, "before": before, "after": after}
        reports.append(report | {"damaged": damaged, "unfinished": unfinished})
    last = wait(child(lambda: train(data, root, f"run-{number}", 0.03)))
    return {"kills": reports, "runs": number + 1, "last": last, "whole": whole}


def signals(data, root):
    """Send a signal between saves, in a save, and twice in a save; then resume each run to its end."""
    reports = []

    def report(name, code, seconds=0.0):
        status = read_status(root / name) or {}
        saved, damaged = newest_step(root / name)
        facts = {"name": name, "code": code, "seconds": seconds, "saved": saved, "damaged": damaged}
        facts |= {"state": status.get("state"), "step": status.get("step")}
        reports.append(facts | {"continued": wait(child(lambda: train(data, root, name)))})

    for number in (signal.SIGTERM, signal.SIGINT):
        name = number.name
        pid = child(lambda name=name: train(data, root, name))
        until(lambda name=name: (read_status(root / name) or {}).get("step", 0) >= EARLY)
        started = time.monotonic()
        os.kill(pid, number)
        report(name, wait(pid), time.monotonic() - started)

    def in_a_save(name, times):
        def act():
            for _ in range(times):
                signal.raise_signal(signal.SIGTERM)

        AtOperation(root / name / "state" / ".tmp-", SIGNALLED_AT, act)
        return train(data, root, name, 0.05)

    for name, times in (("once", 1), ("twice", 2)):
        report(name, wait(child(lambda name=name, times=times: in_a_save(name, times))))
    return reports


def shrinks(data, root):
    """Empty a features file during a save, restore it once the run has ended, and resume the run."""
    reports = []
    for split in ("train", "dev"):
        features = Path(data) / f"{split}_ims.npy"
        content = features.read_bytes()

        def task(name=split, features=features):
            mark = root / name / "state" / ".tmp-"
            AtOperation(mark, 2 * STEPS_OF_A_SAVE, lambda: os.truncate(features, 0))
            return train(data, root, name, 0.03)

        code = wait(child(task))
        facts = {"code": code, "status": read_status(root / split) or {}, "saved": newest_step(root / split)}
        features.write_bytes(content)
        continued = wait(child(lambda name=split: train(data, root, name)))
        reports.append({"name": split, **facts, "continued": continued})
    return reports


def main(data, root):
    """Drive runs over `data` in folders of `root`."""
    drives = {"kills": kills, "signals": signals, "shrinks": shrinks}
    print(json.dumps({name: drive(data, Path(root) / name) for name, drive in drives.items()}))
