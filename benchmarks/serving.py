"""Serve the app as `streamlit run` does, for measurements and for tests with a browser."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PATIENCE = 120  # seconds


@contextmanager
def served(root: Path, log: Path = Path(os.devnull), **more: str) -> Iterator[tuple[int, int]]:
    """Serve a folder of runs, with `more` environment variables; yield the port and the server's process id."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])

    command = [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", "--server.port", str(port)]
    environment = os.environ | {"CODER_CHECKPOINTS": str(root)} | more
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=output, stderr=output)

    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and server.poll() is None:
            with suppress(OSError):  # not ready
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2).close()
                break
            time.sleep(0.1)
        yield port, server.pid
    finally:
        server.terminate()
        server.wait(timeout=20)
