"""Server tasks around pages: complete addresses, and load what the first page needs."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

import numpy as np
import psutil
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

if TYPE_CHECKING:
    from app.ask import RunSummary

HOME, FIRST, START = "/", "/overview", "/start"


@cache
def _pages() -> frozenset[str]:
    files = (Path(__file__).parents[2] / "pages").glob("*.py")
    return frozenset({HOME, *(f"/{file.stem}" for file in files)} - {START})


def complete(path: str, query: str, runs: Sequence[RunSummary] | None = None) -> str | None:
    """The address with runs and split, where one is missing; None where it is complete, or no page's. "/" leads to the
    overview, or to the start page while there is no run. Unknown names stay as they are."""
    from app.ask import all_runs
    from app.choice import NO_RUN
    from app.frame.sidebar import default_pair, default_split

    if path not in _pages():
        return None
    named = {run.name: run for run in (all_runs() if runs is None else runs) if run.usable}
    if not named:
        return f"{START}{'?' if query else ''}{query}" if path == HOME else None
    parameters = parse_qsl(query, keep_blank_values=True)
    values = {key: value for key, value in parameters if value}
    first, second = (values["run"], NO_RUN) if "run" in values else default_pair([*named.values()])
    added = {"run": first, "versus": values.get("versus", second)}
    if first in named:
        added["split"] = default_split([named[name] for name in added.values() if name in named])
    if len(named) == 1:  # a second run may be on its way, and will be the default then
        added = {key: value for key, value in added.items() if key == "split"}
    missing = {key: value for key, value in added.items() if key not in values}
    if not missing and path != HOME:
        return None
    retained = [(key, value) for key, value in parameters if key not in missing]
    return f"{FIRST if path == HOME else path}?{urlencode([*missing.items(), *retained])}"


class Addresses:
    """ASGI middleware: redirect to the completed address, so that Back does not lead to the incomplete one."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        address = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and scope["path"] in _pages():
            query = scope["query_string"].decode("latin-1")
            address = await run_in_threadpool(complete, scope["path"], query)
        fresh = {"cache-control": "no-store"}
        answer = self.app if address is None else RedirectResponse(address, headers=fresh)
        await answer(scope, receive, send)


MODULES = ("frame.sidebar", "components.downloads", "views.overview", "views.retrieval.queries")


@asynccontextmanager
async def prepare(app: Any) -> AsyncIterator[None]:
    """While the server runs: answers leave at once, and what the first page needs is loaded beside it."""
    send_at_once()
    Thread(target=load, daemon=True).start()
    yield


def load() -> None:
    """Import what pages need, draw a figure, with which Plotly loads its parts, and list and open the default runs.
    Modules with caches are imported here and not at the top: Streamlit's caches warn where there is no server yet."""
    for name in MODULES:
        import_module(f"app.{name}")
    from app import charts, questions
    from app.ask import all_runs, ask
    from app.frame.sidebar import default_pair, default_split

    charts.histogram({"": np.arange(2)}, "", "", charts.LIGHT).to_json()
    runs = {run.name: run for run in all_runs() if run.usable}
    pair = [runs[name] for name in default_pair([*runs.values()]) if name in runs] if runs else []
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
