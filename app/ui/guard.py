"""Whom the server answers: this machine's own names, and pages it served itself.

A page of somebody else's, opened in the same browser, may call this server under a name of its own (DNS rebinding) or
under ours (a foreign Origin). Streamlit refuses both on its socket; this refuses them everywhere.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

NAMES = frozenset({"localhost", "127.0.0.1"})
REFUSED = b"Refused: this server answers localhost and 127.0.0.1 only.\n"


def is_own(host: str) -> bool:
    """Whether a Host header, or an Origin's host and port, is this machine's."""
    return urlsplit(f"//{host}").hostname in NAMES


def welcome(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a request's Host is ours and its Origin, if it has one, too."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    try:
        return len(hosts) == 1 and is_own(hosts[0]) and all(urlsplit(o).hostname in NAMES for o in origins)
    except ValueError:  # an address that is none
        return False


class Guard:
    """ASGI middleware: 403 for everybody else, on pages and on the socket."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or welcome(scope["headers"]):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted: answered with 403
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(REFUSED))]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSED})
