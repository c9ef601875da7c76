"""Put links and special files at every place of runs and jobs; whatever writes is started, and the outside is hashed.

python -m tests.attack links --cases 0 --seed 0        (0: every kind at every place)

Three subjects: a trained run, an imported one that gets another split, and the folder of the app's jobs.
`tests/runs/test_links.py` tries the kinds in turn.
"""

import hashlib
import os
import random
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app import jobs
from coder_core import cluster, embed, evaluate, project, train
from coder_core.api import list_runs, open_run
from coder_core.console.faults import InputError
from tests.attack.campaign import ROOT, USUAL_EXITS, Campaign, Finding, try_all
from tests.support.run_folders import import_run_folder

FIXTURE = ROOT / "tests" / "fixtures" / "finished_runs"
DATA = str(FIXTURE / "data")
PLACES = ["best", "state", "analysis", "derived", "analysis/dev", "derived/dev", "best/99", "best/x/y/z"]
PLACES += ["state/.tmp-5-old", "history.jsonl", "status.json", "config.toml", "words.json", "manifest.json"]
PLACES += [".lock", ".lock.json", ".tmp-.lock.json", ".tmp-status.json", "analysis/dev/captions.json"]
OUTSIDE = "outside"
HARD_LINK = "hard link to a file"
JOB = "name"
Door = Callable[[Path], int]
COMMANDS: dict[str, Door] = {
    "resume": lambda run: train.main(["--resume", str(run), f"--data={DATA}"]),
    "evaluate": lambda run: evaluate.main([str(run), "--data", DATA]),
    "project": lambda run: project.main([str(run), "--method", "pca"]),
    "cluster": lambda run: cluster.main([str(run), "--clusters", "3"]),
}


def make_socket(path: Path) -> None:
    """Bind a socket; its address has at most 108 letters."""
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


MADE: dict[str, Callable[[Path, Path], object]] = {
    "link to a folder": lambda path, outside: path.symlink_to(outside / "folder"),
    "link to a file": lambda path, outside: path.symlink_to(outside / "dotfile"),
    "pipe": lambda path, outside: os.mkfifo(path),
    "link to the folder of the runs": lambda path, outside: path.symlink_to(outside.parent / "runs"),
    "link to another run": lambda path, outside: path.symlink_to(outside.parent / "runs" / "neighbour"),
    HARD_LINK: lambda path, outside: path.hardlink_to(outside / "dotfile"),
    "socket": lambda path, outside: make_socket(path),
    "link to a device": lambda path, outside: path.symlink_to("/dev/zero"),
    "dead link": lambda path, outside: path.symlink_to("nowhere"),
}


class Hearing(Protocol):
    """Starts a command; its exit status, None when it raised, and all it printed."""

    def hear(self, call: Callable[[], int | None]) -> tuple[int | None, str]: ...


def digest(folder: Path) -> str:
    """sha256 of every name, kind, time of change and content below a folder."""
    sha256 = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        sha256.update(f"{path.relative_to(folder)} {status.st_mode} {status.st_mtime_ns}".encode())
        if stat.S_ISREG(status.st_mode):
            sha256.update(path.read_bytes())
    return sha256.hexdigest()


def put(folder: Path, place: str, make: Callable[[Path], object]) -> Path:
    """Make something at a place of a folder, in the stead of what is there."""
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    make(path)
    return path


@dataclass(frozen=True)
class Subject:
    """Subject of the attack.

    Args:
        make: it, in a folder of runs; returns its folder.
        places: in that folder.
        doors: the programs that write there, and "api", which reads.
    """

    make: Callable[[Path], Path]
    places: Callable[[], list[str]]
    doors: dict[str, Door]


@dataclass(frozen=True)
class Case:
    """A kind of file at a place of a subject."""

    subject: str
    place: str
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.place} of the {self.subject}"


def trained_run(runs: Path) -> Path:
    """A finished run."""
    return Path(shutil.copytree(FIXTURE / "checkpoints" / "whole", runs / "run"))


def places_of_a_run() -> list[str]:
    """Every entry of a run, and those that a run may come to have."""
    whole = FIXTURE / "checkpoints" / "whole"
    entries = [str(path.relative_to(whole)) for path in sorted(whole.rglob("*"))]
    return list(dict.fromkeys([*PLACES, *entries]))


def imported_run(runs: Path) -> Path:
    """A run of another model's embeddings; these stay beside it."""
    return import_run_folder(runs, "run", images=8)


def import_again(run: Path, *flags: str) -> int:
    """Import the same embeddings as another split."""
    folder = run.parents[1] / "run-embeddings"
    files = [f"--{name}={folder / name}.npy" for name in ("images", "texts")]
    files.append(f"--captions={folder}/captions.txt")
    return embed.main(["import", *files, "--split=test", f"--root={run.parent}", "--name=run", *flags])


def start_job(runs: Path) -> int:
    """Start a job as a page does."""
    os.environ["CODER_CHECKPOINTS"] = str(runs)
    try:
        jobs.start(("true",), JOB)
    except (OSError, InputError) as error:
        print(error)
        return 1
    return 0


def forget_job(runs: Path) -> int:
    """Remove the files of a job as a page does."""
    os.environ["CODER_CHECKPOINTS"] = str(runs)
    jobs.forget(JOB)
    return 0


def look(run: Path) -> int:
    """Open the run as a page does."""
    entries = list_runs(run.parent)
    try:
        opened = open_run(run)
        opened.metrics("dev"), opened.history, opened.embeddings("dev"), opened.captions("dev")
    except InputError as error:
        print(error)
        return 1
    print(*(entry.fault for entry in entries))
    return 0


IMPORTED_PLACES = [
    *("analysis", "analysis/test", "analysis/.tmp-test-old", "analysis/dev"),
    *("analysis/dev/manifest.json", "analysis/dev/captions.json", "analysis/dev/image_embeddings.npy"),
    *("analysis/dev/image_ranks.npy", "derived", "derived/dev/x", "anything"),
]
JOB_FILES = ("lock", "output.log", "job.json", ".tmp-job.json", "progress.json", "anything")
JOB_PLACES = [".work", f".work/{JOB}", *(f".work/{JOB}/{file}" for file in JOB_FILES)]
IMPORTING: dict[str, Door] = {
    "embed import": import_again,
    "… --overwrite": lambda run: import_again(run, "--overwrite"),
    "api": look,
}
SUBJECTS = {
    "run": Subject(trained_run, places_of_a_run, {**COMMANDS, "api": look}),
    "imported run": Subject(imported_run, lambda: IMPORTED_PLACES, IMPORTING),
    "jobs": Subject(lambda runs: runs, lambda: JOB_PLACES, {"start": start_job, "forget": forget_job}),
}
READING = ("api", "forget")  # doors that need not print anything


def surroundings(folder: Path, subject: str) -> Path:
    """The subject, its neighbour and, outside, a folder and a file that nothing may touch."""
    (folder / "runs" / "neighbour").mkdir(parents=True)
    (folder / "runs" / "neighbour" / "mine").write_text("x")
    subject_folder = SUBJECTS[subject].make(folder / "runs")
    shutil.copytree(FIXTURE / "checkpoints" / "whole" / "analysis", folder / OUTSIDE / "folder")
    (folder / OUTSIDE / "folder" / "9").mkdir()
    (folder / OUTSIDE / "dotfile").write_text("export PATH=/bin\nno newline at the end")
    return subject_folder


def attack(case: Case, folder: Path, listener: Hearing) -> Iterator[Finding]:
    """One thing at one place, then every door."""
    subject_folder = surroundings(folder, case.subject)
    path = put(subject_folder, case.place, lambda path: MADE[case.kind](path, folder / OUTSIDE))
    # A hard link stops only what writes in place; a job that is forgotten loses its own files.
    watched = [folder / OUTSIDE, folder / "runs" / "neighbour"]
    watched += [folder / "runs"] if case.kind != HARD_LINK and case.subject != "jobs" else []
    before = [digest(path) for path in watched]
    for door, use in SUBJECTS[case.subject].doors.items():
        status, text = listener.hear(lambda use=use: use(subject_folder))
        refused = bool(status) and str(path) in text
        if status is None or status not in (0, *USUAL_EXITS):
            yield Finding(str(case), door, "traceback", f"{status}: {text}")
        elif [digest(path) for path in watched] != before:
            yield Finding(str(case), door, "silent", f"something changed. {text}")
        elif door not in READING and not refused and case.kind != HARD_LINK:
            yield Finding(str(case), door, "silent", f"went on, or did not name it: {text}")
        else:
            yield Finding(str(case), door, "named" if str(path) in text or status else "harmless", text)


def warm_up(folder: Path) -> None:
    """Import everything that a case imports."""
    for number, (name, subject) in enumerate(SUBJECTS.items()):
        subject_folder = surroundings(folder / f"warm-up-{number}", name)
        for use in subject.doors.values():
            use(subject_folder)


def campaign(folder: Path, cases: int = 0, seed: int = 0, jobs: int = 2) -> Campaign:
    """Every kind at every place of every subject, or `cases` of them drawn at random."""

    def draw() -> list[Case]:
        places = [(name, place) for name, subject in SUBJECTS.items() for place in subject.places()]
        everything = [Case(*place, kind) for place in places for kind in MADE]
        count = min(cases, len(everything)) if cases else 0
        return random.Random(seed).sample(everything, count) if count else everything

    return try_all("links", folder, warm_up, draw, attack, jobs)
