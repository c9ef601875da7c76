"""A foreign Host or Origin is refused on page, health check, upload and socket alike; every answer is protected."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from app.frame.guard import Guard, is_allowed


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "localhost:8501", "127.0.0.1:1", "LOCALHOST:80"])
def test_this_machine_is_is_allowed(host: str) -> None:
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
        [(b"host", b"127.0.0.1:8501"), (b"origin", b"http://127.0.0.1:8502")],
        [(b"host", b"127.0.0.1:8501"), (b"origin", b"http://127.0.0.1")],
        [(b"host", b"127.0.0.1:8501"), (b"origin", b"http://localhost:8501")],
        [(b"host", b"127.0.0.1:8501"), (b"origin", b"https://127.0.0.1:8501")],
        [
            (b"host", b"127.0.0.1:8501"),
            (b"origin", b"http://127.0.0.1:8501"),
            (b"origin", b"http://evil.example"),
        ],
        [(b"host", b"localhost:80; script-src *")],
        [(b"host", b"evil@localhost")],
        [(b"host", b"[")],
        [(b"host", b"")],
    ],
)
def test_everybody_else_is_not(headers: list[tuple[bytes, bytes]]) -> None:
    assert not is_allowed(headers)


def asked(kind: str, host: bytes, answers: list[dict[str, Any]], **scope: Any) -> list[dict[str, Any]]:
    """Response of the guard to a request with this Host, over an app with these answers (none: not reached)."""
    sent: list[dict[str, Any]] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        assert answers, "reached"
        for message in answers:
            await send(message)

    async def receive() -> dict[str, str]:
        return {"type": f"{kind}.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    request = {"type": kind, "headers": [(b"host", host)], **scope}
    with ThreadPoolExecutor(1) as thread:  # in this one an event loop of the browser tests may be running
        thread.submit(asyncio.run, Guard(behind)(request, receive, send)).result()
    return sent


@pytest.mark.parametrize(
    ("kind", "extensions", "answer"),
    [
        ("http", {}, "http.response.start"),
        ("websocket", {}, "websocket.close"),
        ("websocket", {"websocket.http.response": {}}, "websocket.http.response.start"),
    ],
)
def test_the_app_behind_is_not_reached(kind: str, extensions: dict[str, Any], answer: str) -> None:
    sent = asked(kind, b"evil.example", [], extensions=extensions)
    assert sent[0]["type"] == answer
    assert sent[0].get("status", 403) == 403


@pytest.mark.parametrize("kind", ["http.response.start", "websocket.accept"])
def test_the_headers_of_an_answer_are_added_once_and_name_the_own_port(kind: str) -> None:
    theirs = [(b"Referrer-Policy", b"unsafe-url"), (b"etag", b"1")]
    [answer] = asked(kind.partition(".")[0], b"127.0.0.1:8501", [{"type": kind, "headers": theirs}])
    headers = dict(answer["headers"])
    assert len(headers) == len(answer["headers"])
    assert headers[b"etag"] == b"1"
    assert headers[b"referrer-policy"] == b"no-referrer"
    assert b"ws://127.0.0.1:8501;" in headers[b"content-security-policy"]
