"""Shared parts of the campaigns: modules are imported once, every case runs in a fork, and outcomes are counted."""

import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.fork_driver import child, wait

ROOT = Path(__file__).resolve().parents[2]
FIXTURE = Path("tests") / "fixtures" / "finished_runs"  # the campaigns run in ROOT
LONGEST = 300  # seconds per case, enough on a busy machine; a longer case counts as a hang
PACKAGES = ("app", "streamlit", "plotly", "coder_core", "numpy", "pandas", "rich", "safetensors", "sklearn")
PACKAGES += ("torch", "tyro", "typeguard")
USUAL_EXITS = (1, 2, 3)  # exit status of a command that refuses its input or was stopped

OUTCOMES = ("harmless", "named", "silent", "traceback")  # best to worst


@dataclass(frozen=True)
class Finding:
    """Outcome of one case at one door, which is a program or function that reads the input.

    "harmless": nothing differs; "named": refused or continued with a message that names the place; "silent": different
    numbers or files without a message, or a refusal that does not name it; "traceback": an exception, a crash, a hang.
    """

    case: str
    door: str
    outcome: str
    text: str = ""

    @property
    def bad(self):
        """True if the finding fails the campaign."""
        return self.outcome in ("silent", "traceback")


@dataclass
class Campaign:
    """Findings of one campaign, one list per case."""

    name: str
    cases: list[list[Finding]] = field(default_factory=list)

    @property
    def bad(self):
        """All silent findings and tracebacks."""
        return [finding for case in self.cases for finding in case if finding.bad]

    def counts(self):
        """Count the cases by their worst outcome; "named" is worse than "harmless"."""
        return Counter(max((f.outcome for f in case), key=OUTCOMES.index) for case in self.cases if case)


def draw_again(rng, possible, count):
    """Draw `count` cases: every one once before any is drawn again."""
    drawn = []
    while len(drawn) < count:
        drawn += rng.sample(possible, min(len(possible), count - len(drawn)))
    return drawn


class Listener:
    """Capture of this process's standard output and error in a file."""

    def __init__(self, path):
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)

    def hear(self, call):
        """Return a command's exit status and output; after an exception None and the traceback."""
        os.truncate(self.path, 0)
        try:
            status = call() or 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
        except BaseException:
            status = None
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        return status, self.path.read_bytes().decode("utf-8", "replace").strip()


def forked(cases, task, folder, jobs):
    """Fork for every case, `jobs` at once, and yield its findings when it ends. A child that dies is a traceback."""
    running = {}
    for number, case in enumerate(cases):
        if len(running) >= jobs:
            yield _reap(running, folder, cases)
        running[child(partial(_try, number, case, task, folder))] = number
    while running:
        yield _reap(running, folder, cases)


def _try(number, case, task, folder):
    signal.alarm(LONGEST)
    (folder / str(number)).mkdir()
    with (folder / f"{number}.findings").open("w") as file:
        for finding in task(case, folder / str(number), Listener(folder / f"{number}.output")):
            file.write(json.dumps(asdict(finding)) + "\n")
            file.flush()


def _reap(running, folder, cases):
    pid, status = os.wait()
    number = running.pop(pid)
    notes = folder / f"{number}.findings"
    output = folder / f"{number}.output"
    lines = notes.read_text().splitlines() if notes.exists() else []
    findings = [Finding(**json.loads(line)) for line in lines]
    code = os.waitstatus_to_exitcode(status)
    if code:
        heard = output.read_bytes().decode("utf-8", "replace")[-3000:] if output.exists() else ""
        name = findings[-1].case if findings else str(cases[number])
        door = f"after door {len(findings)}"
        findings.append(Finding(name, door, "traceback", f"ended with {code}: {heard}"))
    for path in (notes, output):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / str(number), ignore_errors=True)
    return findings


def import_all(folder, warm_up):
    """Run `warm_up` in a child and import here the modules it imported, so that later forks need not."""
    listing = folder / "modules"

    def work():
        Listener(folder / "warm-up.output")
        warm_up(folder)
        listing.write_text("\n".join(sys.modules))

    if wait(child(work)):
        raise RuntimeError((folder / "warm-up.output").read_text())
    for name in listing.read_text().splitlines():
        if name.partition(".")[0] in PACKAGES:
            with suppress(Exception):  # a module object that its package created without a file
                __import__(name)


def try_all(name, folder, warm_up, draw, task, jobs):
    """Import what the cases need, draw them, and try each in a fork with its own folder."""
    import_all(folder, warm_up)
    (folder / "cases").mkdir()
    return Campaign(name, list(forked(draw(), task, folder / "cases", jobs)))


@contextmanager
def workplace():
    """Change to the repository and yield a temporary folder, in memory if possible, which also holds the cache."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    os.chdir(ROOT)
    with (
        tempfile.TemporaryDirectory(prefix="attack-", dir=memory) as name,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("CODER_CACHE", str(Path(name) / "cache"))
        yield Path(name)


def report(campaigns, show=20):
    """Print the bad findings and the table; return the exit status."""
    console = Console(width=200, highlight=False)
    table = Table("campaign", "tried", *OUTCOMES)
    for campaign in campaigns:
        for finding in campaign.bad[:show]:
            text = f"{campaign.name}: {finding.case}: {finding.door}: {finding.outcome}: "
            console.print(text + " ".join(finding.text.split())[:700], markup=False, soft_wrap=True)
        if len(campaign.bad) > show:
            console.print(f"{campaign.name}: … and {len(campaign.bad) - show} more")
        counts = [str(campaign.counts()[outcome]) for outcome in OUTCOMES]
        table.add_row(campaign.name, str(len(campaign.cases)), *counts)
    console.print(table)
    return 1 if any(campaign.bad for campaign in campaigns) else 0
