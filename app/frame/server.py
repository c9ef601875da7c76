"""Server tasks around pages: complete addresses, and load the modules and runs that the first page needs."""

from __future__ import annotations

import gc
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

import numpy as np
import psutil
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse

from app.frame import PAGES

if TYPE_CHECKING:
    from app.ask import RunSummary

HOME = "/"
FIRST = "/overview"
COLLECT_SECONDS = 20
QUIET_PERCENT = 10  # of one processor, during a second
START = "/start"
PATHS = {HOME, *(f"/{name}" for name in PAGES)} - {START}


def complete(path: str, query: str, runs: Sequence[RunSummary] | None = None) -> str | None:
    """Return the address with runs and split, if one is missing, and with the present names of controls; None if it is
    complete, or not a page. "/" leads to the overview, or to the start page while there is no run. Unknown names stay
    as they are."""
    from app.address import FORMER_RUNS, RUNS, SPLIT, renamed
    from app.ask import all_runs
    from app.choice import named

    if path not in PATHS:
        return None
    usable = {run.name: run for run in (all_runs() if runs is None else runs) if run.usable}
    if not usable:
        return f"{START}{'?' if query else ''}{query}" if path == HOME else None
    given = parse_qs(query, keep_blank_values=True)
    present = renamed(path.removeprefix("/"), given)
    address = named(present, [*usable.values()])
    state = {} if address.may_leave_out(address.names) else {RUNS: address.names}
    if address.names[0] in usable:
        state[SPLIT] = [address.split]
    completed = state | {key: values for key, values in present.items() if key not in (*state, *FORMER_RUNS)}
    if completed == given and path != HOME:
        return None
    return f"{FIRST if path == HOME else path}?{urlencode(completed, doseq=True)}"


class Addresses:
    """ASGI middleware: redirect to the completed address, so that Back does not lead to the incomplete one."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        address = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and scope["path"] in PATHS:
            query = scope["query_string"].decode("latin-1")
            address = await run_in_threadpool(complete, scope["path"], query)
        fresh = {"cache-control": "no-store"}
        # relative, because a proxy may have cut the beginning of the path
        target = None if address is None else address.removeprefix("/")
        answer = self.app if target is None else RedirectResponse(target, headers=fresh)
        await answer(scope, receive, send)


MODULES = ("frame.sidebar", "frame.runner", "components.downloads", "views.overview", "views.retrieval")


@asynccontextmanager
async def prepare(app: Any) -> AsyncIterator[None]:
    """Prepare the server at its start: send answers without delay, and load what the first page needs in a thread."""
    send_at_once()
    Thread(target=load, daemon=True).start()
    Thread(target=collect_when_quiet, daemon=True).start()
    yield


def collect_when_quiet() -> None:
    """Collect garbage once in a while, when the server does nothing: a full collection stops every visitor."""
    process = psutil.Process()
    while True:
        time.sleep(COLLECT_SECONDS)
        if process.cpu_percent(interval=1.0) < QUIET_PERCENT:
            gc.collect()


def load() -> None:
    """Import the modules of pages, draw a figure, so that Plotly loads its parts, and list and open the default runs.
    Modules with caches are imported here and not at the top, because Streamlit's caches warn before a server exists."""
    for name in MODULES:
        import_module(f"app.{name}")
    from app import charts, questions
    from app.ask import all_runs, ask
    from app.choice import default_runs, default_split

    charts.histogram({"": np.arange(2)}, "", "", charts.LIGHT).to_json()
    runs = {run.name: run for run in all_runs() if run.usable}
    first = [runs[name] for name in default_runs([*runs.values()])]
    for run in first:
        ask(questions.analysis_fault, run, default_split(first))
    gc.collect()
    gc.freeze()  # what is loaded stays; later collections need not look at it


def send_at_once() -> None:
    """Set TCP_NODELAY on this process's listening sockets, whose connections inherit it.

    Streamlit 1.67 opens its socket in a way that prevents asyncio from setting it. Without it the body of an answer
    waits up to 40 ms for the browser's acknowledgement of the head, for each of the 130 files of a first visit.
    """
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.fd >= 0:
            with socket.socket(fileno=os.dup(connection.fd)) as listening:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
