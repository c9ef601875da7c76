"""Reject requests whose Host or Origin is not this machine.

A foreign page opened in the same browser may call this server under a name of its own (DNS rebinding) or under ours (a
foreign Origin). Streamlit rejects both on its socket; this rejects them everywhere.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

NAMES = frozenset({"localhost", "127.0.0.1"})
REFUSED = b"Refused: this server answers localhost and 127.0.0.1 only.\n"


def is_own(host: str) -> bool:
    """Whether a Host header, or an Origin's host and port, is this machine's."""
    return urlsplit(f"//{host}").hostname in NAMES


def is_allowed(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a request has exactly one Host, and Host and Origin (if any) are this machine's."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    try:
        return len(hosts) == 1 and is_own(hosts[0]) and all(urlsplit(o).hostname in NAMES for o in origins)
    except ValueError:  # not an address
        return False


class Guard:
    """ASGI middleware: answer 403 to all other requests, on pages and on the socket."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket") or is_allowed(scope["headers"]):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})  # before it is accepted, so the answer is 403
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(REFUSED))]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSED})
