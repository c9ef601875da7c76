"""Reject requests from foreign pages, and forbid browsers what the app's own pages do not need.

A foreign page opened in the same browser may call this server under its own name (DNS rebinding) or under ours (with a
foreign Origin, such as another port of this machine), or show our pages in a frame and direct a click to a button.
Streamlit rejects foreign names only on its socket; this module rejects all of these on every request.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import h11
import streamlit
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

_HOST = re.compile(r"(?P<name>localhost|127\.0\.0\.1)(:(?P<port>\d{1,5}))?", re.IGNORECASE)
SCHEME = "http://"
REFUSED = """Refused: this server answers only requests from its own pages, at localhost and 127.0.0.1.

To open the app from another machine, or from behind a proxy, forward the port to that machine:

    ssh -L {port}:localhost:{port} MACHINE

MACHINE is the name of the machine on which the app runs. Then open http://localhost:{port}
"""
DEFAULT_PORT = 8501
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
# 'unsafe-eval' is for the WebAssembly in Streamlit's protobuf.js, inline styles for the style elements it writes, data:
# for a font and the pictures on cards. It was not tested whether blob: and the socket's address can be removed.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' blob: {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws://{host}; worker-src 'self' blob:; "
    "object-src 'none'; frame-src 'none'; media-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_BEGINNINGS = ("http.response.start", "websocket.accept", "websocket.http.response.start")


def is_allowed(headers: list[tuple[bytes, bytes]]) -> bool:
    """True if a request has exactly one Host, this machine, and its Origin (if any) has the same host and port."""
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    ours = [_address(host) for host in hosts]
    theirs = [_address(origin[len(SCHEME) :]) if origin.startswith(SCHEME) else None for origin in origins]
    return len(ours) == 1 and ours[0] is not None and all(address == ours[0] for address in theirs)


def _address(host: str) -> tuple[str, int] | None:
    """Return name and port of a host that is this machine; None for any other."""
    match = _HOST.fullmatch(host)
    return None if match is None else (match["name"].lower(), int(match["port"] or 80))


@cache
def _hashes() -> str:
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_bytes()
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(page))
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def protection(host: str) -> dict[str, str]:
    """Return the headers of every answer, which forbid frames, foreign content, type sniffing and referrers."""
    return {
        "content-security-policy": _POLICY.format(hashes=_hashes(), host=host),
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }


def refusal(server: Sequence[Any] | None) -> str:
    """Return the answer to a foreign request, with the way that works. server: the server's address and port."""
    port = server[1] if server and isinstance(server[1], int) else DEFAULT_PORT
    return REFUSED.format(port=port)


class Guard:
    """ASGI middleware: answer 403 to foreign requests, on pages and on the socket, and add `protection` to all."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        allowed = is_allowed(scope["headers"])
        ours = protection(Headers(scope=scope)["host"] if allowed else "localhost")

        async def protected(message: Any) -> None:
            if message["type"] in _BEGINNINGS:
                theirs = [(name.lower(), value) for name, value in message.get("headers", [])]
                headers = MutableHeaders(raw=theirs)
                headers.update(ours)
                message = message | {"headers": headers.raw}
            await send(message)

        async def received() -> Any:
            message = await receive()
            if message["type"] == "websocket.receive" and message.get("bytes") is None:
                return {"type": "websocket.disconnect", "code": 1003}  # Streamlit's messages are bytes
            return message

        if allowed:
            # the server itself has refused the rest of a malformed request
            with suppress(h11.LocalProtocolError):
                await self.app(scope, received if scope["type"] == "websocket" else receive, protected)
            return
        if scope["type"] == "websocket":
            await receive()
            if "websocket.http.response" not in (scope.get("extensions") or {}):
                await send({"type": "websocket.close", "code": 1008})  # not accepted: the server answers 403
                return
        await PlainTextResponse(refusal(scope.get("server")), 403)(scope, receive, protected)
