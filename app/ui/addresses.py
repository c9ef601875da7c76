"""Complete the address of a page before it loads, so that it names its runs and split from the beginning.

Streamlit could only do it after a first run of the script, and would leave an entry in the browser's history that
"Back" returns to without effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool

from app.ask import RunSummary, all_runs

if TYPE_CHECKING:
    from app.ask import RunSummary

HOME, FIRST, START = "/", "/overview", "/start"


@cache
def _pages() -> frozenset[str]:
    """The paths of the pages about runs."""
    files = (Path(__file__).parents[2] / "pages").glob("*.py")
    return frozenset({HOME, *(f"/{file.stem}" for file in files)} - {START})


def complete(path: str, query: str, runs: Sequence[RunSummary]) -> str | None:
    """The address with runs and split, where one of them is missing; None where the address is complete, or no page's.

    "/" leads to the overview, or to the start page while there is no run. Unknown names stay as they are.
    """
    from app.choice import NO_RUN
    from app.ui.sidebar import default_pair, default_split

    if path not in _pages():
        return None
    named = dict(usable := [(run.name, run) for run in runs if run.usable])
    if not usable:
        return f"{START}{'?' if query else ''}{query}" if path == HOME else None
    parameters = parse_qsl(query, keep_blank_values=True)
    values = {key: value for key, value in parameters if value}
    first, second = default_pair(list(named))
    if "run" in values:
        first, second = values["run"], NO_RUN
    second = values.get("versus", second)
    added = {"run": first, "versus": second}
    if first in named:
        added["split"] = default_split([named[name] for name in (first, second) if name in named])
    missing = {key: value for key, value in added.items() if key not in values}
    if not missing and path != HOME:
        return None
    retained = [(key, value) for key, value in parameters if key not in missing]
    return f"{FIRST if path == HOME else path}?{urlencode([*missing.items(), *retained])}"


def _completed(path: str, query: str) -> str | None:

    return complete(path, query, all_runs())


class Addresses:
    """ASGI middleware: redirect to the completed address."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and scope["path"] in _pages():
            query = scope["query_string"].decode("latin-1")
            address = await run_in_threadpool(_completed, scope["path"], query)
            if address is not None:
                headers = [(b"location", address.encode("latin-1")), (b"cache-control", b"no-store")]
                await send({"type": "http.response.start", "status": 307, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self.app(scope, receive, send)
