"""A served app and a browser, for tests marked `browser`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

PROJECT = Path(__file__).resolve().parents[2]
CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
START_SECONDS = 90


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], int]]:
    """Serve a folder of runs as `streamlit run` does; returns the port. Ends every server afterwards."""
    started: dict[Path, tuple[subprocess.Popen[bytes], int]] = {}

    def begin(root: Path) -> int:
        if root in started:
            return started[root][1]
        port = free_port()
        log = tmp_path_factory.mktemp("server") / "log"
        command = [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", "--server.port", str(port)]
        environment = os.environ | {"CODER_CHECKPOINTS": str(root)}
        with log.open("wb") as output:
            server = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=output, stderr=subprocess.STDOUT)
        started[root] = (server, port)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and server.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                    return port
            except OSError:
                time.sleep(0.2)
        raise AssertionError(log.read_text())

    yield begin
    for server, _ in started.values():
        server.terminate()
    for server, _ in started.values():
        server.wait(timeout=20)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium through Playwright; skipped where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright's Python package is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}; set CHROMIUM to one")
    with playwright.sync_playwright() as session:
        chromium = session.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


class _Listener(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silence."""


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    _Listener.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1], _Listener.seen
    server.shutdown()
    server.server_close()
    thread.join()
