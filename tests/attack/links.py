"""Put links and special files at every place of a run; whatever writes is started on it, and the outside is hashed.

python -m tests.attack.links --cases 0 --seed 0        (0: every kind at every place)
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from coder_core.api import list_runs, open_run
from coder_core.console.faults import InputError
from tests.attack.campaign import (
    FIXTURE,
    USUAL_EXITS,
    Campaign,
    Finding,
    Listener,
    arguments,
    forked,
    import_all,
    report,
    workplace,
)
from tests.runs.test_links import COMMANDS, KINDS, PLACES, digest, put

OUTSIDE = "outside"
MADE: dict[str, Callable[[Path, Path], object]] = {
    "link to a folder": lambda path, outside: path.symlink_to(outside / "folder"),
    "link to a file": lambda path, outside: path.symlink_to(outside / "dotfile"),
    "link to the folder of the runs": lambda path, outside: path.symlink_to(outside.parent / "runs"),
    "link to another run": lambda path, outside: path.symlink_to(outside.parent / "runs" / "neighbour"),
    **{kind: lambda path, outside, make=make: make(path) for kind, (make, _) in KINDS.items()},  # type: ignore[misc]
}
DOORS = (*COMMANDS, "api")
Case = tuple[str, str]  # where, what


def places() -> list[str]:
    """Every entry of a run, and those that a run may come to have."""
    whole = FIXTURE / "checkpoints" / "whole"
    return list(dict.fromkeys([*PLACES, *(str(path.relative_to(whole)) for path in sorted(whole.rglob("*")))]))


def surroundings(folder: Path) -> Path:
    """A run, its neighbour and, outside, a folder and a file that nobody may touch."""
    (folder / "runs" / "neighbour").mkdir(parents=True)
    (folder / "runs" / "neighbour" / "mine").write_text("x")
    shutil.copytree(FIXTURE / "checkpoints" / "whole", folder / "runs" / "run")
    shutil.copytree(FIXTURE / "checkpoints" / "whole" / "analysis", folder / OUTSIDE / "folder")
    (folder / OUTSIDE / "folder" / "9").mkdir()
    (folder / OUTSIDE / "dotfile").write_text("export PATH=/bin\nno newline at the end")
    return folder / "runs" / "run"


def look(run: Path) -> int:
    """Open the run as a page does."""
    listed = list_runs(run.parent)
    try:
        opened = open_run(run)
        opened.metrics("dev"), opened.history, opened.embeddings("dev"), opened.captions("dev")
    except InputError as error:
        print(error)
        return 1
    print(*(entry.fault for entry in listed))
    return 0


def attack(case: Case, folder: Path, listener: Listener) -> Iterator[Finding]:
    """One thing at one place, then every command."""
    place, kind = case
    run = surroundings(folder)
    path = put(run, place, lambda path: MADE[kind](path, folder / OUTSIDE))
    name = f"{kind} at {place}"
    outside = digest(folder / OUTSIDE), digest(folder / "runs")
    for door in DOORS:
        status, text = listener.hear(lambda door=door: look(run) if door == "api" else COMMANDS[door](run))
        if status is None or status not in (0, *USUAL_EXITS):
            yield Finding(name, door, "traceback", f"{status}: {text}")
        elif (digest(folder / OUTSIDE), digest(folder / "runs")) != outside:
            yield Finding(name, door, "silent", f"something changed. {text}")
        elif door != "api" and (not status or str(path) not in text):
            yield Finding(name, door, "silent", f"went on, or did not name it: {text}")
        else:
            yield Finding(name, door, "named" if str(path) in text or status else "harmless", text)


def warm_up(folder: Path) -> None:
    """Everything a case imports."""
    run = surroundings(folder / "warm-up")
    for command in COMMANDS.values():
        command(run)
    look(run)


def campaign(folder: Path, cases: int = 0, seed: int = 0, jobs: int = 2) -> Campaign:
    """Every kind at every place, or `cases` of them drawn at random."""
    (folder / "cases").mkdir()
    import_all(folder, warm_up)
    everything = [(place, kind) for place in places() for kind in MADE]
    if cases:
        everything = random.Random(seed).sample(everything, min(cases, len(everything)))
    return Campaign("links", list(forked(everything, attack, folder / "cases", jobs)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    given = arguments("links", 0)
    with workplace() as place:
        raise SystemExit(report([campaign(place, given.cases, given.seed, given.jobs)], given.show))
