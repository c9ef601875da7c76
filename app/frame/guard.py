"""Reject requests from foreign pages, and forbid browsers what the app's own pages do not need.

A foreign page opened in the same browser may call this server under its own name (DNS rebinding) or under ours (with a
foreign Origin, such as another port of this machine), or show our pages in a frame and direct a click to a button.
Streamlit rejects foreign names only on its socket; this module rejects all of these on every request. Names that
`coder-lab app --allow-host` allows are answered as this machine's own are, to visitors who show the token.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import h11
import streamlit
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response

_HOST = re.compile(r"(?P<name>[a-z0-9.-]+)(:(?P<port>\d{1,5}))?", re.IGNORECASE)
OWN = frozenset({"localhost", "127.0.0.1"})
PORTS = {"http": 80, "https": 443}
REFUSED = """Refused: this server answers only requests from its own pages, at localhost and 127.0.0.1.

To open the app from another machine, or from behind a proxy, forward the port to that machine:

    ssh -L {port}:localhost:{port} MACHINE

MACHINE is the name of the machine on which the app runs. Then open http://localhost:{port}
"""
NO_TOKEN = """Refused: this server asks every visitor for its token.

Open the address that coder-lab app printed when it started; it ends in token=…
"""
KEY = "token"  # in an address
COOKIE = "coder_token"
DEFAULT_PORT = 8501
_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
# 'unsafe-eval' is for the WebAssembly in Streamlit's protobuf.js, inline styles for the style elements it writes, data:
# for a font and the pictures on cards. It was not tested whether blob: and the socket's address can be removed.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval' blob: {hashes}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' {socket}; worker-src 'self' blob:; "
    "object-src 'none'; frame-src 'none'; media-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_BEGINNINGS = ("http.response.start", "websocket.accept", "websocket.http.response.start")


def is_allowed(headers: list[tuple[bytes, bytes]], hosts: frozenset[str] = frozenset()) -> bool:
    """True if a request has exactly one Host, this machine or one of `hosts`, and its Origin (if any) has the same host
    and port. The pages of `hosts` may have come by https."""
    given = [value.decode("latin-1") for name, value in headers if name == b"host"]
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    if len(given) != 1 or _address(given[0], "http", hosts) is None:
        return False
    return all(_is_same(origin, given[0], hosts) for origin in origins)


def _is_same(origin: str, host: str, hosts: frozenset[str]) -> bool:
    """True if an Origin is the page of a Host."""
    scheme, _, theirs = origin.partition("://")
    if scheme not in PORTS:
        return False
    ours = _address(host, scheme, hosts)
    return ours is not None and _address(theirs, scheme, hosts) == ours


def _address(host: str, scheme: str, hosts: frozenset[str]) -> tuple[str, int] | None:
    """Return name and port of a host that is answered by this scheme; None for any other."""
    match = _HOST.fullmatch(host)
    name = "" if match is None else match["name"].lower()
    if match is None or name not in (OWN | hosts if scheme == "http" else hosts):
        return None
    return name, int(match["port"] or PORTS[scheme])


@cache
def _hashes() -> str:
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_bytes()
    digests = (base64.b64encode(hashlib.sha256(script).digest()).decode() for script in _INLINE.findall(page))
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def protection(host: str) -> dict[str, str]:
    """Return the headers of every answer, which forbid frames, foreign content, type sniffing and referrers."""
    own = host.partition(":")[0].lower() in OWN
    socket = f"ws://{host}" if own else f"ws://{host} wss://{host}"
    return {
        "content-security-policy": _POLICY.format(hashes=_hashes(), socket=socket),
        "x-frame-options": "DENY",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
    }


def refusal(server: Sequence[Any] | None) -> str:
    """Return the answer to a foreign request, with the way that works. server: the server's address and port."""
    port = server[1] if server and isinstance(server[1], int) else DEFAULT_PORT
    return REFUSED.format(port=port)


def shows_token(headers: Headers, token: str) -> bool:
    """True if a request's cookie holds the token, or if there is none to show."""
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return not token
    shown = cookies[COOKIE].value if COOKIE in cookies else ""
    return not token or hmac.compare_digest(shown.encode(), token.encode())


def is_https(scope: Any) -> bool:
    """True if a browser's request came by https, to this server or to the first proxy that reports it.

    X-Forwarded-Proto is believed from anybody: a web page cannot add it to a visit, and those who forge it only prevent
    their own browser from sending the cookie by http.
    """
    first = Headers(scope=scope).get("x-forwarded-proto", "").partition(",")[0]
    return scope.get("scheme") == "https" or first.strip().lower() == "https"


def admission(scope: Any, token: str) -> Response | None:
    """Return the answer to a page's address that ends in the right token: a cookie, and the address without it. None for
    any other request."""
    if scope["type"] != "http" or scope["method"] != "GET":
        return None
    values = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    shown = [value for key, value in values if key == KEY]
    if len(shown) != 1 or not hmac.compare_digest(shown[0].encode(), token.encode()):
        return None
    rest = urlencode([(key, value) for key, value in values if key != KEY])
    # relative, because a proxy may have cut the beginning of the path
    page = scope["path"].rpartition("/")[2] or "./"
    answer = Response(status_code=303, headers={"location": f"{page}?{rest}" if rest else page})
    answer.headers["cache-control"] = "no-store"
    answer.set_cookie(COOKIE, token, httponly=True, samesite="lax", secure=is_https(scope))
    return answer


class Guard:
    """ASGI middleware: answer 403 to foreign requests and to visitors without the token, if there is one, on pages and on
    the socket, and add `protection` to all. `hosts`: further names to answer; `token`: what visitors show, or ""."""

    def __init__(self, app: Any, hosts: frozenset[str] = frozenset(), token: str = "") -> None:
        self.app = app
        self.hosts = hosts
        self.token = token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        known = is_allowed(scope["headers"], self.hosts)
        allowed = known and shows_token(headers, self.token)
        entry = admission(scope, self.token) if known and not allowed else None
        ours = protection(headers["host"] if known else "localhost")

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
        text = NO_TOKEN if known else refusal(scope.get("server"))
        answer = PlainTextResponse(text, 403) if entry is None else entry
        await answer(scope, receive, protected)
