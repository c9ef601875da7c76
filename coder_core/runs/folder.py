"""Recognise run folders, and name the likely ones when a folder is not a run."""

from difflib import get_close_matches
from pathlib import Path

from coder_core.console.faults import InputError

RUN_FILES = ("config.toml", "history.jsonl", "status.json", "analysis", "unranked")
RUNS_NAMED = 3  # in the error for a folder that is not a run


def holds_run(path: Path) -> bool:
    """True if a folder looks like a run, or cannot be read."""
    try:
        return any((path / name).exists() for name in RUN_FILES)
    except OSError:
        return True


def check_run(folder: Path) -> None:
    """Raise InputError if a folder is not a run; it names the runs in the folder, or those nearby, likeliest first."""
    if holds_run(folder):
        return
    around = [*folder.parents[:2], *_runs_in(folder.parent), *_runs_in(Path("checkpoints"))]
    nearby = {path.name: path for path in around if holds_run(path)}
    names = get_close_matches(folder.name, nearby, RUNS_NAMED, cutoff=0)
    runs = ", ".join(map(str, _runs_in(folder)[:RUNS_NAMED] or map(nearby.get, names)))
    fix = "coder-lab train makes one, coder-lab embed turns embeddings into one"
    problem = "is not a run" if folder.is_dir() else "there is no such folder"
    raise InputError.at(folder, problem, "the folder of a run", f"name one: {runs}" if runs else fix)


def _runs_in(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*")) if path.is_dir() and holds_run(path)]
