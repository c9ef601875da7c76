"""Server time and memory of the app: `python -m benchmarks.app [--images N …]`.

A page's script is run as the server runs it, without a browser; each size in a process of its own. The bars are
seconds, so processor time is what is held against them; wall time stands beside it and grows on a busy machine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console

from benchmarks.app_runs import CAPTIONS_AN_IMAGE, WORDS, write_runs
from benchmarks.evaluation import held
from benchmarks.timing import Line, Seconds, clock

PROJECT = Path(__file__).resolve().parents[1]
PAGES = ("overview", "diversity", "similarity", "joint", "retrieval")
SIZES = (1_000, 5_000, 123_000)
PAGE_BARS = {1_000: 1.0, 5_000: 3.0}
CHANGE_BAR, QUERY_BAR, MEMORY_BAR = 0.3, 0.3, 1_500.0
SMALL = 1_000
REPEATS = 3
TIMEOUT = 600
NOT_MEASURED = ("There is no evaluated run", "the first one is shown alone", "cannot answer")

# What somebody changes on a page: (page, what, session keys and values, one set a repeat)
CHANGES: tuple[tuple[str, str, str, tuple[Any, ...]], ...] = (
    ("diversity", "ε", "epsilon", (0.2, 0.3, 0.4)),
    ("diversity", "another anchor", "caption", (17, 29, 41)),
    ("retrieval", "another query", "query-text", (17, 29, 41)),
    ("retrieval", "right within the first", "at", ("5", "10", "1")),
    ("retrieval", "hubs", "look", ("hubs", "near", "hubs")),
)


@dataclass(frozen=True)
class Arguments:
    """What to measure.

    Args:
        images: sizes; five captions each.
    """

    images: tuple[int, ...] = SIZES


def measure(root: Path) -> dict[str, Any]:
    """In this process: seconds of every cold and warm page, of changes and of free texts, and the peak memory."""
    os.environ["CODER_CHECKPOINTS"] = str(root)
    from streamlit.testing.v1 import AppTest

    found: dict[str, Any] = {"cold": {}, "warm": {}, "change": {}, "query": []}
    app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=TIMEOUT)
    app.run()

    def seconds(work: Callable[[], object]) -> Seconds:
        taken = clock(work)
        if app.exception:
            raise SystemExit(f"the page failed: {app.exception[0].value}")
        if any(word in str(item.proto.body) for item in app.get("html") for word in NOT_MEASURED):
            raise SystemExit("the page shows less than two runs")
        return taken

    for page in PAGES:
        app.switch_page(f"pages/{page}.py")
        found["cold"][page] = seconds(app.run)
        found["warm"][page] = [seconds(app.run) for _ in range(REPEATS)]
        for where, what, key, values in CHANGES:
            if where != page:
                continue
            taken = []
            for value in values:
                app.session_state[key] = value
                taken.append(seconds(app.run))
            found["change"][f"{page}: {what}"] = taken
    app.session_state["ask"] = "text"
    app.session_state["text"] = "the first one loads the models"
    app.run()
    for words in WORDS[: REPEATS + 1]:
        app.session_state["text"] = f"{words} on the beach"
        found["query"].append(seconds(app.run))
    found["memory"] = held("VmHWM")
    return found


def in_process(root: Path) -> dict[str, Any]:
    """`measure` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.app", "--measure", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=PROJECT)
    if done.returncode:
        raise SystemExit(done.stderr[-2_000:] or done.stdout)
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def line(name: str, bar: float | None, taken: list[list[float]], note: str = "") -> Line:
    """Median seconds ÷ the bar; without a bar, the seconds themselves are in the note."""
    cpu, wall = (statistics.median(one[part] for one in taken) for part in (0, 1))
    if bar is None:
        return Line(name, "", None, None, 1e3 * cpu, None, f"{wall:.2f} s on the clock{note}")
    return Line(name, f"≤ {bar:g} s", cpu / bar, wall / bar, 1e3 * cpu, cpu <= bar, note)


def lines(folder: Path, images: int) -> list[Line]:
    """Every line of one size."""
    root = write_runs(folder / str(images), images)
    found = in_process(root)
    size = f"{images:,} × {CAPTIONS_AN_IMAGE * images:,}"
    bar = PAGE_BARS.get(images)
    table = [line(f"{size}, {page}, warm", bar, taken) for page, taken in found["warm"].items()]
    small = images == SMALL
    first = None if small else bar
    table += [line(f"{size}, {page}, first time", first, [taken]) for page, taken in found["cold"].items()]
    for what, taken in found["change"].items():
        table.append(line(f"{size}, {what}", CHANGE_BAR if small else None, taken))
    table.append(line(f"{size}, free text", QUERY_BAR if small else None, found["query"]))
    memory, bound = found["memory"], f"≤ {MEMORY_BAR:,.0f} MiB" if small else ""
    ratio = memory / MEMORY_BAR if small else None
    table.append(Line(f"{size}, memory", bound, ratio, None, None, memory <= MEMORY_BAR if small else None,
                      f"{memory:,.0f} MiB at the most, mapped files included"))  # fmt: skip
    return table


def main(arguments: Arguments) -> None:
    """Measure and print."""
    from benchmarks.__main__ import show

    table = []
    with tempfile.TemporaryDirectory() as name:
        for images in arguments.images:
            table += lines(Path(name), images)
    show(table, Console(width=150))


if __name__ == "__main__":
    if "--measure" in sys.argv:
        print(json.dumps(measure(Path(sys.argv[-1]))))
    else:
        main(tyro.cli(Arguments))
