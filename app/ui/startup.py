"""What the server prepares before the first visit."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from threading import Thread
from typing import Any

import psutil

MODULES = ("app.ui.sidebar", "app.ui.downloads", "app.views.separation", "app.views.query")


@asynccontextmanager
async def prepare(app: Any) -> AsyncIterator[None]:
    """While the server runs: answers leave at once, and what pages need is imported.

    Modules with caches are imported here and not at the top: Streamlit's caches warn where there is no server yet.
    """
    send_at_once()
    Thread(target=lambda: [import_module(name) for name in MODULES], daemon=True).start()
    yield


def send_at_once() -> None:
    """Set TCP_NODELAY on this process's listening sockets, whose connections inherit it.

    Streamlit 1.67 opens its socket in a way that asyncio does not set it for. Without it the body of an answer waits up
    to 40 ms for the browser's acknowledgement of the head, for each of the 130 files of a first visit.
    """
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.fd >= 0:
            with socket.socket(fileno=os.dup(connection.fd)) as listening:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
