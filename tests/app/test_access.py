"""Names that --allow-host adds: over real HTTP, they are answered to visitors who show the token, and to nobody else."""

import http.client
import time
from contextlib import contextmanager
from threading import Thread

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute

from app.frame.guard import Guard, admission
from coder_core import serve
from coder_core.console.access import read_access
from tests.support.precomp_folders import assert_refused

NAME = "lab.example.org"
TOKEN = "0123456789abcdef"
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
UPGRADE["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
COOKIE = {"Cookie": f"coder_token={TOKEN}"}
WRONG = {"Cookie": "coder_token=0123456789abcdeg"}


async def page(request):
    return PlainTextResponse(request.url.query)


async def accept(socket):
    await socket.accept()
    await socket.close()


@pytest.fixture(scope="module")
def port():
    """Port of a server with one page and one socket behind the guard."""
    guard = Middleware(Guard, hosts=frozenset({NAME}), token=TOKEN)
    routes = [Route("/overview", page), Route("/", page), WebSocketRoute("/socket", accept)]
    with running(Starlette(routes=routes, middleware=[guard])) as number:
        yield number


@contextmanager
def running(app):
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error"))
    thread = Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def ask(port, path, host, headers=()):
    """Return status, headers and text of the answer to a request with this Host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", path, skip_host=True)
    for name, value in ({"Host": host} | dict(headers)).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    body = b"" if response.status == 101 else response.read()
    connection.close()
    return response.status, response.headers, body.decode()


def test_the_token_in_an_address_becomes_a_cookie(port):
    """The address that follows has no token, and is relative, for a proxy that cuts the beginning of paths."""
    status, headers, _ = ask(port, f"/overview?run=a+b&token={TOKEN}&run=c", NAME)
    assert (status, headers["Location"]) == (303, "overview?run=a+b&run=c")
    kept = {part.strip().lower() for part in headers["Set-Cookie"].split(";")}
    assert {f"coder_token={TOKEN}", "httponly", "samesite=lax", "path=/"} <= kept
    assert ask(port, f"/?token={TOKEN}", NAME)[1]["Location"] == "./"
    assert ask(port, "/overview?run=c", NAME, COOKIE)[::2] == (200, "run=c")


@pytest.mark.parametrize(
    ("forwarded", "secure"),
    [
        ({}, False),
        ({"X-Forwarded-Proto": "http"}, False),
        ({"X-Forwarded-Proto": "https"}, True),
        (
            {"X-Forwarded-Proto": "https,http"},
            True,
        ),  # https to the first of two proxies, as before a JupyterHub
        ({"X-Forwarded-Proto": "http,https"}, False),
    ],
)
def test_the_cookie_of_a_page_by_https_is_never_sent_by_http(port, forwarded, secure):
    """A browser drops a Secure cookie that comes by http, so a page by http must get another one."""
    _, headers, _ = ask(port, f"/overview?token={TOKEN}", NAME, forwarded)
    kept = {part.strip().lower() for part in headers["Set-Cookie"].split(";")}
    assert ("secure" in kept) == secure


def test_a_server_with_a_certificate_of_its_own_sends_a_secure_cookie():
    visit = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": f"token={TOKEN}".encode(),
        "headers": [],
    }
    for scheme in ("http", "https"):
        answer = admission(visit | {"scheme": scheme}, TOKEN)
        assert ("; secure" in answer.headers["set-cookie"].lower()) == (scheme == "https")


@pytest.mark.parametrize("host", [NAME, f"{NAME}:8443", "LAB.example.org", "localhost:8501"])
def test_a_visitor_needs_the_token_under_every_name(port, host):
    for path, headers in (("/overview", {}), ("/overview", WRONG), (f"/overview?token={TOKEN[1:]}", {})):
        status, _, text = ask(port, path, host, headers)
        assert status == 403
        assert "asks every visitor for its token" in text
    assert ask(port, "/socket", host, UPGRADE | WRONG)[0] == 403
    assert ask(port, "/overview", host, COOKIE)[0] == 200
    assert ask(port, "/socket", host, UPGRADE | COOKIE)[0] == 101


@pytest.mark.parametrize(
    "host", ["evil.example", f"{NAME}.evil.example", "sub.lab.example.org", f"evil@{NAME}"]
)
def test_another_name_is_refused_in_spite_of_the_token(port, host):
    status, _, text = ask(port, f"/overview?token={TOKEN}", host, COOKIE)
    assert status == 403
    assert f"ssh -L {port}:localhost:{port} MACHINE" in text


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        (NAME, f"https://{NAME}", 200),
        (NAME, f"http://{NAME}", 200),
        (f"{NAME}:8443", f"https://{NAME}:8443", 200),
        (NAME, f"https://{NAME}:8443", 403),
        (NAME, "https://evil.example", 403),
        (NAME, "null", 403),
        ("localhost", "https://localhost", 403),
        ("localhost:8501", f"https://{NAME}", 403),
    ],
)
def test_the_page_of_an_allowed_name_may_come_by_https(port, host, origin, status):
    answer, headers, _ = ask(port, "/overview", host, COOKIE | {"Origin": origin})
    assert answer == status
    if status == 200:
        assert f"wss://{host}" in headers["Content-Security-Policy"]


def test_names_without_a_token_are_refused():
    assert_refused("is set without CODER_TOKEN", read_access, {"CODER_ALLOWED_HOSTS": NAME})
    assert_refused("at least 16", read_access, {"CODER_ALLOWED_HOSTS": NAME, "CODER_TOKEN": "short"})
    for name in ("*", "http://lab", "lab:80", "a b"):
        assert_refused("is not a host name", serve.check_server, serve.ServerArguments(allow_host=(name,)))


def test_an_open_server_is_announced_with_a_warning_and_its_token(monkeypatch, capsys, tmp_path):
    started = []
    monkeypatch.setenv("CODER_TOKEN", TOKEN)
    monkeypatch.setattr(serve.os, "execve", lambda *arguments: started.append(arguments))
    monkeypatch.setattr(serve.os, "chdir", lambda folder: None)
    server = serve.ServerArguments(root=tmp_path, port=9000, browser=False, allow_host=(NAME,))
    serve.serve(server, "overview?run=mine")
    printed = " ".join(capsys.readouterr().out.split())
    assert f"warning: --allow-host {NAME}: whoever has the address" in printed
    assert f"http://127.0.0.1:9000/overview?run=mine&token={TOKEN}" in printed
    ((_, words, variables),) = started
    assert (variables["CODER_ALLOWED_HOSTS"], variables["CODER_TOKEN"]) == (NAME, TOKEN)
    assert [words[i + 1] for i, word in enumerate(words) if word.endswith("allowedHosts")][-1] == NAME
