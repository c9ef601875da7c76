"""Server time and memory of the app: `python -m benchmarks.app [--images N …] [--pairs 1000000]`.

Each size has its own process, which runs the pages' scripts as the server does, without a browser. The bars are seconds
of processor time. Only the first visit of a fresh browser is wall time, until the overview is complete with nothing
cached; it needs Playwright, and Chromium at /usr/bin/chromium or at $CHROMIUM. The runs of the largest size are 1.6 GB
of random numbers; `--runs` keeps them. `--pairs` measures two imports of a collection with one caption per image.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tyro

from app.frame import PAGES as ENTRIES
from benchmarks.app_runs import CONCEPT_NAMES, NAMES, WEIGHT_NAMES, WORDS, write_imports, write_runs
from benchmarks.kernels import memory
from benchmarks.serving import PATIENCE, PROJECT, served
from benchmarks.synthetic import CAPTIONS_PER_IMAGE
from benchmarks.timing import Line, Seconds, clock

# Retrieval is the last page, because the changes on it are measured with the free text
PAGES = (*(name for name in ENTRIES if name not in ("start", "retrieval")), "retrieval")
SIZES = (1_000, 5_000, 123_000)
SHOWN = {"concepts": CONCEPT_NAMES, "weights": WEIGHT_NAMES}  # runs for pages that need special data
PAGE_BARS = {1_000: 1.0, 5_000: 3.0}
WARM_BAR = 3.0  # seconds of a page of imports that was open before
# seconds of a change or a free text, MiB
CHANGE_BAR = 0.3
MEMORY_BAR = 1_500.0
SMALL = 1_000
REPEATS = 3
TIMEOUT = 1_800  # seconds; a first page of a million pairs on busy cores
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
VISIT_BAR = 3.0  # seconds on idle cores
VISITS = 5
DONE = "[data-testid=stApp][data-test-script-state=notRunning]"
TEXT = "free text"
START = "first page of a new server"
MEMORY = "memory"
MARK = "measured: "
NOT_MEASURED = ("There is no evaluated run", *(f"Only {name} is shown" for name in NAMES), "cannot answer")

# Changes on a page: (page, name, session key, its value in each repeat)
CHANGES: tuple[tuple[str, str, str, tuple[Any, ...]], ...] = (
    ("diversity", "ε", "epsilon", (0.2, 0.3, 0.4)),
    ("diversity", "another anchor", "caption", (17, 29, 41)),
    ("weights", "another pair", "weighed", (17, 29, 41)),
    ("similarity", "whole split, μ", "scaling-mu", (0.2, 0.3, 0.4)),
    ("clusters", "another cluster", "cluster", (3, 5, 7)),
    ("concepts", "another caption", "concept-caption", (17, 29, 41)),
    ("data", "another pair", "pair-caption-number", (17, 29, 41)),
    ("data", "another list", "list", ("empty", "pairs", "empty")),
    ("slices", "hit within the first", "slice-at", ("5", "10", "1")),
    ("slices", "images as queries", "queries", ("image", "text", "image")),
    ("reviews", "another queue", "queue", ("near", "likely", "ambiguous")),
    ("reviews", "other words", "verdict-words", ("dog", "beach", "wave")),
    ("retrieval", "another slice", "slice", ('"dog" in caption', "length > 8 and not spatial", "")),
    ("retrieval", "another query", "query-text", (17, 29, 41)),
    ("retrieval", "hit within the first", "at", ("5", "10", "1")),
    ("retrieval", "hubs", "look", ("hubs", "near", "hubs")),
)


@dataclass(frozen=True)
class AppArguments:
    """Choose what to measure."""

    images: tuple[int, ...] = SIZES  # numbers of images, each with five captions
    pairs: int = 0  # if given, only two imports of so many images, each with one caption
    runs: str = ""  # folder in which to keep the runs; empty: a temporary one


Measured = tuple[str, list[list[float]]]
"""A name, and the processor and wall seconds of each repeat."""


def measure(root: Path, tell: Callable[[Measured], None]) -> None:
    """Measure, in this process, the seconds of cold and warm pages, of changes and of free texts, and peak memory."""
    from streamlit.testing.v1 import AppTest

    os.environ["CODER_CHECKPOINTS"] = str(root)
    app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=TIMEOUT)

    def seconds(work: Callable[[], object]) -> Seconds:
        taken = clock(work)
        if app.exception:
            raise SystemExit(f"the page failed: {app.exception[0].value}")
        if any(word in str(item.proto.body) for item in app.get("html") for word in NOT_MEASURED):
            raise SystemExit("the page shows fewer than two runs")
        return taken

    tell((START, [[*seconds(app.run)]]))
    for page in PAGES:
        names = list(SHOWN.get(page, NAMES))
        if not (root / names[0]).is_dir():
            continue
        app.session_state["run"] = names
        app.switch_page(f"pages/{page}.py")
        tell((f"{page}, first time", [[*seconds(app.run)]]))
        tell((f"{page}, warm", [[*seconds(app.run)] for _ in range(REPEATS)]))
        for _, name, key, values in (change for change in CHANGES if change[0] == page):
            if page == "similarity":
                app.session_state["batch-of"] = "split"
                app.run()
            taken = []
            for value in values:
                app.session_state[key] = value
                taken.append([*seconds(app.run)])
            tell((f"{page}: {name}", taken))
    if (root / names[0] / "config.toml").exists():  # an import has no model
        _measure_free_texts(app, seconds, tell)
    tell((MEMORY, [[memory("VmHWM"), memory("RssAnon")]]))


def _measure_free_texts(app: Any, seconds: Callable[..., Seconds], tell: Callable[[Measured], None]) -> None:
    """Measure the search for texts that nobody has asked for."""
    app.session_state["ask"] = "text"
    app.session_state["text"] = "the first one loads the models"
    app.run()
    taken = []
    for words in WORDS[: REPEATS + 1]:
        app.session_state["text"] = f"{words} on the beach"
        taken.append([*seconds(app.run)])
    tell((TEXT, taken))


def in_process(root: Path) -> Iterator[Measured]:
    """Run `measure` in its own process; yield results as they arrive."""
    command = [sys.executable, "-m", "benchmarks.app", "--measure", str(root)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "cwd": PROJECT}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stderr=errors, **pipes) as process:
            assert process.stdout is not None
            for text in process.stdout:
                if text.startswith(MARK):
                    name, taken = json.loads(text[len(MARK) :])
                    yield name, taken
        if process.returncode:
            errors.seek(0)
            raise SystemExit(errors.read()[-2_000:])


def line(name: str, bar: float | None, taken: list[list[float]], note: str = "") -> Line:
    """Return a line of median seconds ÷ the bar; without a bar, the note has the seconds themselves."""
    cpu, wall = (statistics.median(times) for times in zip(*taken, strict=True))
    if bar is None:
        return Line(name, "", None, None, 1e3 * cpu, None, f"{wall:.2f} s of wall time{note}")
    return Line(name, f"≤ {bar:g} s", cpu / bar, wall / bar, 1e3 * cpu, cpu <= bar, note)


def line_of(measured: Measured, images: int) -> Line:
    """Return the line of a measurement, with its bar at this size."""
    name, taken = measured
    size = f"{images:,} × {CAPTIONS_PER_IMAGE * images:,}, {name}"
    small = images == SMALL
    if name == MEMORY:
        peak, private = taken[0]
        note = f"{peak:,.0f} MiB at most, including mapped files; {private:,.0f} MiB private at the end"
        if not small:
            return Line(size, "", None, None, None, None, note)
        return Line(size, f"≤ {MEMORY_BAR:,.0f} MiB", peak / MEMORY_BAR, None, None, peak <= MEMORY_BAR, note)
    if name.endswith((", warm", ", first time")):
        unbound = small and name.endswith(", first time")
        return line(size, None if unbound else PAGE_BARS.get(images), taken)
    return line(size, CHANGE_BAR if small and name != START else None, taken)


def lines(folder: Path, images: int) -> Iterator[Line]:
    """Yield every line of one size as it is measured."""
    root = folder / str(images)
    if not all((root / name / "analysis").is_dir() for name in NAMES):
        write_runs(root, images)
    for measured in in_process(root):
        yield line_of(measured, images)
    if images == SMALL:
        yield from first_visits(root)


def lines_of_imports(root: Path, pairs: int) -> Iterator[Line]:
    """Yield every line of two imports as it is measured."""
    if not all((root / name / "analysis").is_dir() for name in NAMES):
        write_imports(root, pairs)
    for name, taken in in_process(root):
        size = f"{pairs:,} pairs, {name}"
        if name == MEMORY:
            [[peak, private]] = taken
            note = f"{peak:,.0f} MiB at most, including mapped files; {private:,.0f} MiB private at the end"
            yield Line(size, "", None, None, None, None, note)
        else:
            yield line(size, WARM_BAR if name.endswith(", warm") else None, taken)


def as_text(result: Line) -> str:
    """Return one line of the table as plain text."""
    spent = "" if result.milliseconds is None else f"{result.milliseconds:,.0f} ms CPU"
    return f"{result.name:48} {spent:>14} {result.bar:>10} {result.verdict:3} {result.note}".rstrip()


def spent(processes: Iterable[psutil.Process]) -> float:
    """Return the processor seconds of processes so far; ended processes count as 0."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def visit(browser: Any, port: int, server: psutil.Process) -> tuple[float, float, float]:
    """Return the wall seconds until the page is complete, in a profile without a cache, and the processor seconds of
    browser and server."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    start = time.perf_counter()
    before = _spent_by_both(server)
    page.goto(f"http://127.0.0.1:{port}/")
    page.locator(".js-plotly-plot .plot-container").first.wait_for(timeout=1e3 * PATIENCE)
    page.locator(DONE).wait_for(timeout=1e3 * PATIENCE)
    seconds = time.perf_counter() - start
    browser_seconds, server_seconds = (b - a for a, b in zip(before, _spent_by_both(server), strict=True))
    context.close()
    return seconds, browser_seconds, server_seconds


def _spent_by_both(server: psutil.Process) -> tuple[float, float]:
    children = psutil.Process().children(recursive=True)
    return spent(child for child in children if child.pid != server.pid), spent([server])


def first_visits(root: Path) -> list[Line]:
    """Measure the first visit to a new server, and the median of later ones, each with a fresh browser profile."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    if not CHROMIUM.exists():
        return []
    with served(root) as (port, pid), sync_playwright() as session:
        server = psutil.Process(pid)
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = session.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        first, *later = [visit(browser, port, server) for _ in range(1 + VISITS)]
        browser.close()

    medians = [statistics.median(values) for values in zip(*later, strict=True)]
    result = []
    visits = {"first visit of a fresh browser": medians, "the same, on a new server": first}
    for name, (wall, in_browser, in_server) in visits.items():
        spent = f"{in_browser:.1f} s of CPU time in the browser, {in_server:.1f} s in the server"
        note = f"{wall:.2f} s of wall time; {spent}"
        result.append(Line(name, f"≤ {VISIT_BAR:g} s", None, wall / VISIT_BAR, None, wall <= VISIT_BAR, note))

    return result


def main(arguments: AppArguments) -> None:
    """Measure, and print each line at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(arguments.runs or name)
        if arguments.pairs:
            sizes = [lines_of_imports(folder / f"{arguments.pairs}-pairs", arguments.pairs)]
        else:
            sizes = [lines(folder, images) for images in arguments.images]
        for of_size in sizes:
            for result in of_size:
                print(as_text(result), flush=True)


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(Path(sys.argv[-1]), lambda measured: print(f"{MARK}{json.dumps(measured)}", flush=True))
    else:
        main(tyro.cli(AppArguments))
