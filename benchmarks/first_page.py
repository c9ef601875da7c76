"""Measure the time from `make app` in a fresh clone, after its installation, to the first page in a browser.

    python -m benchmarks.first_page [--python PYTHON]

PYTHON is that of an environment in which the package's dependencies are installed; the app runs from a new clone of this
repository, with no run and an empty cache, so the demo is drawn and trained meanwhile. Needs git and Chromium. Prints
the seconds on the clock and those of the server's processor time; other programs lengthen only the first.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
from playwright.sync_api import sync_playwright

from coder_core.console.processes import JobFolder

PROJECT = Path(__file__).resolve().parents[1]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/lib/chromium/chromium-headless-shell")
LONGEST = 600.0  # seconds


def open_port() -> int:
    """Return a port that no program uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process so far, without that of its children."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def wait_for_server(port: int, start: float) -> float:
    """Return the seconds from `start` to the server's first answer."""
    while time.monotonic() - start < LONGEST:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5):
                return time.monotonic() - start
        except (OSError, urllib.error.URLError):
            time.sleep(0.1)
    raise TimeoutError(f"no answer in {LONGEST:.0f} s")


def wait_for_page(port: int, start: float) -> float:
    """Return the seconds from `start` to the heading of the first page."""
    with sync_playwright() as session:
        browser = session.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/", timeout=LONGEST * 1000)
        page.locator("h1").first.wait_for(timeout=LONGEST * 1000)
        seconds = time.monotonic() - start
        print(f"page: {page.url.partition(str(port))[2]}, {page.locator('h1').first.inner_text()!r}")
        browser.close()
    return seconds


def main() -> int:
    """Clone, serve, measure, stop; return 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_page", description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(PROJECT), str(clone)], check=True)
        port = open_port()
        command = [parsed.python, "-m", "coder_core", "app", "--port", str(port), "--no-browser"]
        environment = os.environ | {"CODER_CACHE": str(Path(folder) / "cache")}
        start = time.monotonic()
        server = subprocess.Popen(command, cwd=clone, env=environment, start_new_session=True)
        try:
            answered = wait_for_server(port, start)
            until_answer = processor_seconds(server.pid)
            shown = wait_for_page(port, start)
            until_page = processor_seconds(server.pid)
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            job = JobFolder(clone / "checkpoints" / ".training").current()
            if job is not None and job.running:
                os.kill(job.pid, signal.SIGKILL)

    print(f"first answer after {answered:.1f} s, first page after {shown:.1f} s")
    print(f"processor time of the server: {until_answer:.1f} s, {until_page:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
