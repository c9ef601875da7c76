"""What the server prepares before the first visit."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from threading import Thread
from typing import Any

import numpy as np
import psutil

from app import questions
from app.ask import all_runs, ask

MODULES = ("app.ui.sidebar", "app.ui.downloads", "app.views.separation", "app.views.query")


@asynccontextmanager
async def prepare(app: Any) -> AsyncIterator[None]:
    """While the server runs: answers leave at once, and what the first page needs is loaded beside it."""
    send_at_once()
    Thread(target=load, daemon=True).start()
    yield


def load() -> None:
    """Import what pages need, draw a figure, with which Plotly loads its parts, and list and open the default runs.

    Modules with caches are imported here and not at the top: Streamlit's caches warn where there is no server yet.
    """
    for name in MODULES:
        import_module(name)
    from app import charts
    from app.ui.sidebar import default_pair, default_split

    charts.histogram({"": np.arange(2)}, "", "", charts.LIGHT).to_json()
    runs = {run.name: run for run in all_runs() if run.usable}
    pair = [runs[name] for name in default_pair(list(runs)) if name in runs] if runs else []
    for run in pair:
        ask(questions.analysis_fault, run, default_split(pair))


def send_at_once() -> None:
    """Set TCP_NODELAY on this process's listening sockets, whose connections inherit it.

    Streamlit 1.67 opens its socket in a way that asyncio does not set it for. Without it the body of an answer waits up
    to 40 ms for the browser's acknowledgement of the head, for each of the 130 files of a first visit.
    """
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.fd >= 0:
            with socket.socket(fileno=os.dup(connection.fd)) as listening:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
