"""A foreign Host or Origin is refused on page, health check, upload and socket alike."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.ui.guard import Guard, is_allowed, is_own


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:8501", "127.0.0.1:1", "LOCALHOST:80"])
def test_this_machine_is_is_allowed(host: str) -> None:
    assert is_own(host)
    assert is_allowed([(b"host", host.encode())])
    assert is_allowed([(b"host", host.encode()), (b"origin", f"http://{host}".encode())])


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"evil.example:8501")],
        [(b"host", b"localhost.evil.example")],
        [(b"host", b"localhost@evil.example")],
        [(b"host", b"127.0.0.1"), (b"host", b"evil.example")],
        [(b"host", b"127.0.0.1"), (b"origin", b"http://evil.example")],
        [(b"host", b"127.0.0.1"), (b"origin", b"null")],
        [(b"host", b"[")],
        [(b"host", b"")],
    ],
)
def test_everybody_else_is_not(headers: list[tuple[bytes, bytes]]) -> None:
    assert not is_allowed(headers)


@pytest.mark.parametrize(("kind", "answer"), [("http", "http.response.start"), ("websocket", "websocket.close")])
def test_the_app_behind_is_not_reached(kind: str, answer: str) -> None:
    sent: list[dict[str, Any]] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("reached")

    async def receive() -> dict[str, str]:
        return {"type": f"{kind}.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": kind, "headers": [(b"host", b"evil.example")]}
    with ThreadPoolExecutor(1) as thread:  # in this one an event loop of the browser tests may be running
        thread.submit(asyncio.run, Guard(behind)(scope, receive, send)).result()
    assert sent[0]["type"] == answer
    assert sent[0].get("status", 403) == 403
