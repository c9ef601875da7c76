"""Time of the first view of Joint space: python -m benchmarks.first_map [--points 1000000] [--runs FOLDER].

Serves two imports of half as many images with one caption each, and opens their principal planes, first of one run and
then of both, each time in a new browser that draws by software. The first visit also computes the maps. Prints wall
seconds from the navigation to the drawn points, and the processor seconds of the server and of the browser meanwhile.
Needs Playwright and Chromium, at /usr/bin/chromium-headless-shell or at $CHROMIUM.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import tyro
from playwright.sync_api import Playwright, sync_playwright

from benchmarks.app_runs import NAMES, write_imports
from benchmarks.serving import served

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium-headless-shell")
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
SIZE = {"width": 1280, "height": 800}
DRAWN = ".cl-map[data-state=drawn]"
PATIENCE = 300_000  # milliseconds
VISITS = 3


@dataclass(frozen=True)
class FirstMapArguments:
    """Time of the first view of a map of many points."""

    points: int = 1_000_000  # Images and captions of a run.
    runs: Path | None = None  # Folder with such runs, which are written if it does not exist.


def processor(processes: list[psutil.Process]) -> float:
    """Return the processor seconds of some processes so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes if process.is_running())


def visit(play: Playwright, port: int, server: psutil.Process, query: str) -> str:
    """Open the map in a new browser and return its times in words."""
    before = set(psutil.Process().children(recursive=True))
    browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
    page = browser.new_context(viewport=SIZE).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(f"http://127.0.0.1:{port}/_stcore/health")

    def taken() -> tuple[float, float]:
        of_browser = [
            process for process in psutil.Process().children(recursive=True) if process not in before
        ]
        return processor([server]), processor(of_browser)

    started = time.perf_counter()
    of_server, of_browser = taken()
    page.goto(f"http://127.0.0.1:{port}/joint?{query}&split=dev&map=PCA")
    page.wait_for_selector(DRAWN, state="attached")
    wall = time.perf_counter() - started
    server_then, browser_then = taken()
    browser.close()
    return f"{wall:.1f} s, processor: server {server_then - of_server:.1f}, browser {browser_then - of_browser:.1f}"


def main() -> None:
    """Measure one run, then both."""
    parsed = tyro.cli(FirstMapArguments, prog="python -m benchmarks.first_map")
    with tempfile.TemporaryDirectory() as folder:
        root = parsed.runs or Path(folder) / "runs"
        if not root.exists():
            write_imports(root, parsed.points // 2)
        with served(root) as (port, pid), sync_playwright() as play:
            for names in (list(NAMES)[:1], list(NAMES)):
                query = "&".join(f"run={name}" for name in names)
                for number in range(VISITS):
                    times = visit(play, port, psutil.Process(pid), query)
                    print(f"{' and '.join(names)}, visit {number + 1}: {times}", flush=True)


if __name__ == "__main__":
    main()
