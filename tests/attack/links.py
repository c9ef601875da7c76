"""Put links and special files at every place of runs and jobs, start whatever writes there, and hash files outside.

python -m tests.attack links --cases 0 --seed 0        (0: every kind at every place)

The three subjects are a trained run, an imported run that gets another split, and the folder of the app's jobs.
`tests/runs/test_links.py` tries one kind at every place.
"""

import hashlib
import os
import random
import socket
import stat
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree

from app import jobs
from coder_core import cluster, embed, evaluate, project, train
from coder_core.api import list_runs, open_run
from coder_core.console.faults import InputError
from tests.attack.campaign import USUAL_EXITS, Finding, try_all
from tests.support.run_folders import FINISHED_RUNS, import_run_folder

WHOLE = FINISHED_RUNS / "checkpoints" / "whole"
DATA = str(FINISHED_RUNS / "data")
PLACES = ["best", "state", "analysis", "derived", "analysis/dev", "derived/dev", "best/99", "best/x/y/z"]
PLACES += ["state/.tmp-5-old", "history.jsonl", "status.json", "config.toml", "words.json", "manifest.json"]
PLACES += [".lock", ".lock.json", ".tmp-.lock.json", ".tmp-status.json", "analysis/dev/captions.json"]
OUTSIDE = "outside"

JOB = "name"
COMMANDS = {
    "resume": lambda run: train.main(["--resume", str(run), f"--data={DATA}"]),
    "evaluate": lambda run: evaluate.main([str(run), "--data", DATA]),
    "project": lambda run: project.main([str(run), "--method", "pca"]),
    "cluster": lambda run: cluster.main([str(run), "--clusters", "3"]),
}


def make_socket(path):
    """Bind a Unix socket at a path; from inside its folder, because its address has at most 108 characters."""
    with chdir(path.parent), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)


MADE = {
    "link to a folder": lambda path, outside: path.symlink_to(outside / "folder"),
    "link to a file": lambda path, outside: path.symlink_to(outside / "dotfile"),
    "pipe": lambda path, outside: os.mkfifo(path),
    "link to the folder of the runs": lambda path, outside: path.symlink_to(outside.parent / "runs"),
    "link to another run": lambda path, outside: path.symlink_to(outside.parent / "runs" / "neighbour"),
    "hard link to a file": lambda path, outside: path.hardlink_to(outside / "dotfile"),
    "socket": lambda path, outside: make_socket(path),
    "link to a device": lambda path, outside: path.symlink_to("/dev/zero"),
    "dead link": lambda path, outside: path.symlink_to("nowhere"),
}


def digest(folder):
    """Return the SHA-256 of the names, modes, modification times and contents of everything below a folder."""
    sha256 = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        sha256.update(f"{path.relative_to(folder)} {status.st_mode} {status.st_mtime_ns}".encode())
        if stat.S_ISREG(status.st_mode):
            sha256.update(path.read_bytes())
    return sha256.hexdigest()


def result_files(folder):
    """Return the SHA-256 of every plain file of results in a folder: saves, analyses and what is derived from them."""
    parts = [folder / part for part in ("best", "state", "analysis", "derived")]
    paths = [path for part in parts for path in sorted(part.rglob("*")) if not part.is_symlink()]
    files = [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def put(folder, place, make):
    """Replace whatever is at a place in a folder by what `make` creates; return its path."""
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        rmtree(path)
    path.unlink(missing_ok=True)
    make(path)
    return path


@dataclass(frozen=True)
class Subject:
    """Subject of the attack: function that makes its folder in a folder of runs, places in it, programs that use it."""

    make: Callable[[Path], Path]
    places: list[str]
    doors: dict[str, Callable[[Path], int]]


@dataclass(frozen=True)
class Case:
    """One kind of file at one place of a subject."""

    subject: str
    place: str
    kind: str

    def __str__(self):
        return f"{self.kind} at {self.place} of the {self.subject}"


def import_again(run, *flags):
    """Import the same embeddings as another split."""
    folder = run.parents[1] / "run-embeddings"
    files = [f"--{name}={folder}/{name}.npy" for name in ("images", "texts")]
    files += [f"--captions={folder}/captions.txt", "--split=test"]
    return embed.main(["import", *files, f"--root={run.parent}", "--name=run", *flags])


def start_job(runs):
    """Start a job as a page does."""
    os.environ["CODER_CHECKPOINTS"] = str(runs)
    try:
        jobs.start(("true",), JOB)
    except (OSError, InputError) as error:
        print(error)
        return 1
    return 0


def forget_job(runs):
    """Remove the files of a job as a page does."""
    os.environ["CODER_CHECKPOINTS"] = str(runs)
    jobs.forget(JOB)
    return 0


def look(run):
    """Open the run as a page does."""
    print(*(entry.fault for entry in list_runs(run.parent)))
    try:
        opened = open_run(run)
        opened.metrics, opened.history, opened.embeddings("dev"), opened.captions("dev")
    except InputError as error:
        print(error)
        return 1
    return 0


IMPORTED_PLACES = ["analysis", "analysis/test", "analysis/.tmp-test-old", "analysis/dev"]
IMPORTED_PLACES += [f"analysis/dev/{name}.json" for name in ("manifest", "captions")]
IMPORTED_PLACES += [f"analysis/dev/image_{name}.npy" for name in ("embeddings", "ranks")]
IMPORTED_PLACES += ["derived", "derived/dev/x", "anything"]
# every entry of a run, and entries that it may get later
ENTRIES = dict.fromkeys([*PLACES, *(str(path.relative_to(WHOLE)) for path in sorted(WHOLE.rglob("*")))])
JOB_FILES = ("lock", "output.log", "job.json", ".tmp-job.json", "progress.json", "anything")
JOB_PLACES = [".work", f".work/{JOB}", *(f".work/{JOB}/{file}" for file in JOB_FILES)]
IMPORTING = {"embed import": import_again, "… --overwrite": lambda run: import_again(run, "--overwrite")}
IMPORTING |= {"api": look}
SUBJECTS = {
    "run": Subject(lambda runs: Path(copytree(WHOLE, runs / "run")), [*ENTRIES], COMMANDS | {"api": look}),
    "imported run": Subject(partial(import_run_folder, name="run", images=8), IMPORTED_PLACES, IMPORTING),
    "jobs": Subject(lambda runs: runs, JOB_PLACES, {"start": start_job, "forget": forget_job}),
}
TRAINING = ("resume",)  # it saves epochs until it meets the place


def surroundings(folder, subject):
    """Make the subject, a neighbour, and files outside that nothing may touch; return the subject's folder."""
    (folder / "runs" / "neighbour").mkdir(parents=True)
    (folder / "runs" / "neighbour" / "mine").write_text("x")
    subject_folder = SUBJECTS[subject].make(folder / "runs")
    copytree(WHOLE / "analysis", folder / OUTSIDE / "folder")
    (folder / OUTSIDE / "folder" / "9").mkdir()
    (folder / OUTSIDE / "dotfile").write_text("export PATH=/bin\nno newline at the end")
    return subject_folder


def attack(case, folder, listener):
    """Put one kind of file at one place and try every door."""
    subject_folder = surroundings(folder, case.subject)
    path = put(subject_folder, case.place, lambda path: MADE[case.kind](path, folder / OUTSIDE))
    watched = [folder / OUTSIDE, folder / "runs" / "neighbour"]
    before = [digest(path) for path in watched]
    for door, use in SUBJECTS[case.subject].doors.items():
        results = result_files(subject_folder)
        status, text = listener.hear(lambda use=use: use(subject_folder))
        if status is None or status not in (0, *USUAL_EXITS):
            yield Finding(str(case), door, "traceback", f"{status}: {text}")
        elif [digest(path) for path in watched] != before:
            yield Finding(str(case), door, "silent", f"something changed. {text}")
        elif status and str(path) not in text and f"{subject_folder}: already exists" not in text:
            yield Finding(str(case), door, "silent", f"refused without naming the place: {text}")
        elif status and door not in TRAINING and result_files(subject_folder) != results:
            yield Finding(str(case), door, "silent", f"refused, but changed results: {text}")
        else:
            yield Finding(str(case), door, "named" if status else "harmless", text)


def warm_up(folder):
    """Run every door once, to import its modules."""
    for number, (name, subject) in enumerate(SUBJECTS.items()):
        subject_folder = surroundings(folder / f"warm-up-{number}", name)
        for use in subject.doors.values():
            use(subject_folder)


def campaign(folder, cases=0, seed=0, jobs=2):
    """Try every kind at every place of every subject, or `cases` of them drawn at random."""

    def draw():
        places = [(name, place) for name, subject in SUBJECTS.items() for place in subject.places]
        everything = [Case(*place, kind) for place in places for kind in MADE]
        return random.Random(seed).sample(everything, min(cases, len(everything))) if cases else everything

    return try_all("links", folder, warm_up, draw, attack, jobs)
