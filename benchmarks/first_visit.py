"""Seconds until a fresh browser shows the overview complete: server, scripts and figures, without anything cached.

Needs Chromium at /usr/bin/chromium, or where CHROMIUM says, and Playwright; without them there is no line.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from benchmarks.timing import Line

PROJECT = Path(__file__).resolve().parents[1]
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
BAR = 3.0  # seconds on idle cores
VISITS = 5
PATIENCE = 120  # seconds
DONE = "[data-testid=stApp][data-test-script-state=notRunning]"


@contextmanager
def served(root: Path) -> Iterator[tuple[int, psutil.Process]]:
    """Serve a folder of runs as `streamlit run` does; the port and the server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", "--server.port", str(port)]
    environment = os.environ | {"CODER_CHECKPOINTS": str(root)}
    with subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end and server.poll() is None:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield port, psutil.Process(server.pid)
        finally:
            server.terminate()


def spent(processes: Iterable[psutil.Process]) -> float:
    """Processor seconds of processes so far; of one that is over, none."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def visit(browser: Any, port: int, server: psutil.Process) -> tuple[float, float, float]:
    """Wall seconds until every figure is drawn, in a profile without a cache, and the processor seconds of browser
    and server."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page, start = context.new_page(), time.perf_counter()
    before = _spent_by_both(server)
    page.goto(f"http://127.0.0.1:{port}/")
    page.locator(".js-plotly-plot .plot-container").first.wait_for(timeout=1e3 * PATIENCE)
    page.locator(DONE).wait_for(timeout=1e3 * PATIENCE)
    seconds = time.perf_counter() - start
    browser_seconds, server_seconds = (b - a for a, b in zip(before, _spent_by_both(server), strict=True))
    context.close()
    return seconds, browser_seconds, server_seconds


def _spent_by_both(server: psutil.Process) -> tuple[float, float]:
    others = [process for process in psutil.Process().children(recursive=True) if process.pid != server.pid]
    return spent(others), spent([server])


def lines(root: Path) -> list[Line]:
    """The first visit to a new server, and the median of later ones; each by a fresh browser, against the bar."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return []
    if not CHROMIUM.exists():
        return []
    with served(root) as (port, server), sync_playwright() as session:
        browser = session.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu"]
        )
        first, *later = [visit(browser, port, server) for _ in range(1 + VISITS)]
        browser.close()
    medians = [statistics.median(values) for values in zip(*later, strict=True)]
    result = []
    visits = {"first visit of a fresh browser": medians, "the same, of a new server": first}
    for name, (wall, in_browser, in_server) in visits.items():
        spent = f"{in_browser:.1f} s of processors in the browser, {in_server:.1f} s in the server"
        note = f"{wall:.2f} s on the clock; {spent}"
        result.append(Line(name, f"≤ {BAR:g} s", None, wall / BAR, None, wall <= BAR, note))
    return result
