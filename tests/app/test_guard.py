"""A foreign Host or Origin is refused for page, health check, upload and socket alike; an address is completed."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import streamlit as st

from app.choice import default_runs
from app.frame.guard import Guard, is_allowed
from app.frame.server import complete, send_at_once
from coder_core.api import RunSummary
from coder_core.api.listing import SplitSamples
from tests.support.run_folders import write_run

OWN = (b"host", b"127.0.0.1:8501")
STRANGERS = (b"evil.example:8501", b"localhost.evil.example", b"localhost@evil.example", b"evil@localhost")
STRANGERS += (b"localhost:80; script-src *", b"[", b"")
ORIGINS = (b"http://evil.example", b"null", b"http://127.0.0.1:8502", b"http://127.0.0.1")
ORIGINS += (b"http://localhost:8501", b"https://127.0.0.1:8501")
RUNS = [RunSummary(name, Path(name), "finished", splits=("dev", "test")) for name in ("a", "x", "x-baseline")]
RUNS.append(RunSummary("other", Path("other"), "finished", splits=("test",)))
PAIR = "run=x-baseline&run=x&split=dev"
ZERO_SHOT = {"state": "imported", "documents": frozenset({"towers"})}


def test_only_requests_from_this_machine_are_allowed():
    for host in (b"localhost", b"127.0.0.1", b"localhost:8501", b"127.0.0.1:1", b"LOCALHOST:80"):
        assert is_allowed([(b"host", host)])
        assert is_allowed([(b"host", host), (b"origin", b"http://" + host)])
    for headers in (
        [],
        *([(b"host", host)] for host in STRANGERS),
        *([OWN, (b"origin", origin)] for origin in ORIGINS),
        [OWN, (b"host", b"evil.example")],
        [OWN, (b"origin", b"http://127.0.0.1:8501"), (b"origin", b"http://evil.example")],
    ):
        assert not is_allowed(headers), headers


def response(kind, host, answer, **scope):
    """Return the guard's response to a request with this Host, in front of an app that gives this answer."""
    sent = []

    async def app_behind(scope, receive, send):
        await send(answer)

    async def receive():
        return {"type": f"{kind}.connect"}

    async def send(message):
        sent.append(message)

    request = {"type": kind, "headers": [(b"host", host)], **scope}
    with ThreadPoolExecutor(1) as thread:  # this thread may run an event loop of the browser tests
        thread.submit(asyncio.run, Guard(app_behind)(request, receive, send)).result()
    return sent


@pytest.mark.parametrize(
    ("kind", "extensions", "answer"),
    [
        ("http", {}, "http.response.start"),
        ("websocket", {}, "websocket.close"),
        ("websocket", {"websocket.http.response": {}}, "websocket.http.response.start"),
    ],
)
def test_refused_requests_do_not_reach_the_app(kind, extensions, answer):
    reached = {"type": "reached"}
    first, *further = response(kind, b"evil.example", reached, extensions=extensions)
    assert (first["type"], first.get("status", 403)) == (answer, 403)
    assert reached not in further


@pytest.mark.parametrize(
    ("server", "port"), [(("127.0.0.1", 9000), 9000), (None, 8501), (("/socket", None), 8501)]
)
def test_the_refusal_names_the_way_that_works(server, port):
    _, body = response("http", b"gpu01:9000", {"type": "reached"}, server=server)
    assert f"ssh -L {port}:localhost:{port} MACHINE" in body["body"].decode()
    assert f"open http://localhost:{port}\n" in body["body"].decode()
    assert is_allowed([(b"host", f"localhost:{port}".encode())])


@pytest.mark.parametrize("kind", ["http.response.start", "websocket.accept"])
def test_security_headers_are_added_once_with_the_servers_port(kind):
    theirs = [(b"Referrer-Policy", b"unsafe-url"), (b"etag", b"1")]
    [answer] = response(kind.partition(".")[0], OWN[1], {"type": kind, "headers": theirs})
    headers = dict(answer["headers"])
    assert len(headers) == len(answer["headers"])
    assert (headers[b"etag"], headers[b"referrer-policy"]) == (b"1", b"no-referrer")
    assert b"ws://127.0.0.1:8501;" in headers[b"content-security-policy"]


@pytest.mark.parametrize(
    ("path", "query", "page", "completed"),
    [
        ("/", "", "/overview", PAIR),
        ("/", "run=a&run=x&split=test", "/overview", "run=a&run=x&split=test"),
        ("/retrieval", "at=5&at=10", "/retrieval", f"{PAIR}&at=5&at=10"),
        ("/joint", "run=a", "/joint", "run=a&split=dev"),
        ("/joint", "run=&split=test", "/joint", "run=x-baseline&run=x&split=test"),
        ("/overview", "run=a&versus=other&also=x", "/overview", "run=a&run=x&run=other&split=test"),
        ("/train", "run=gone&versus=—", "/train", "run=gone"),
    ],
)
def test_missing_parts_of_an_address_are_added(path, query, page, completed):
    address = urlsplit(complete(path, query, RUNS))
    assert (address.path, parse_qsl(address.query)) == (page, parse_qsl(completed))
    assert complete(page, address.query, RUNS) is None


def test_former_names_of_controls_open_the_same_view():
    former = f"{PAIR}&words=dog&heat=true&map=Cosine&caption=7"
    present = f"{PAIR}&anchor-words=dog&anchor-heat=true&anchor-heat-map=Cosine&caption=7"
    assert complete("/diversity", former, RUNS) == f"/diversity?{present}"
    assert complete("/diversity", present, RUNS) is None
    assert (
        complete("/retrieval", f"{PAIR}&words=dog&heat=true", RUNS) is None
    )  # their names there are the same


def test_other_addresses_are_kept_and_without_runs_the_start_page_opens():
    for path in ("/static/js/index.js", "/_stcore/health", "/start", "/none", "//overview"):
        assert complete(path, "", RUNS) is None
    assert complete("/", "", []) == "/start"
    assert complete("/overview", "", []) is None


SMALL, LARGE = ({"dev": SplitSamples(size, 5 * size, "digest")} for size in (10, 20))


def run(name, created="2026-01-01", **values):
    values = {"state": "finished", "config": {"about": {"created": created}}} | values
    if "samples" in values:
        values["splits"] = tuple(values["samples"])
    return RunSummary(name, Path(name), **values)


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([run("coder-demo"), run("demo"), run("demo-baseline")], ["demo-baseline", "coder-demo"]),
        ([run("demo"), run("demo-baseline")], ["demo-baseline", "demo"]),
        ([run("a", created="2026-02-02"), run("b")], ["b", "a"]),
        ([run("tuned"), run("zero-shot", **ZERO_SHOT)], ["zero-shot", "tuned"]),
        ([run("a")], ["a"]),
        ([run("a", samples=SMALL), run("b", samples=LARGE), run("c", samples=SMALL)], ["a", "c"]),
        ([run("demo-baseline", samples=SMALL), run("demo", samples=LARGE)], ["demo-baseline"]),
        (
            [run(name, f"2026-01-0{day}", samples=SMALL) for day, name in enumerate("abc", start=1)],
            ["b", "c"],
        ),
    ],
)
def test_the_default_comparison_is_a_baseline_or_the_newest_pair_of_equal_samples(runs, names):
    assert default_runs(runs) == names


def test_the_comparison_includes_new_runs_until_runs_are_chosen(tmp_path, opened):
    """For example, the demo's second run finishes while the first page is open."""
    write_run(tmp_path, "demo-baseline", images=4)
    assert complete("/", "", [run("demo-baseline", splits=("dev",))]) == "/overview?split=dev"
    app = opened(tmp_path, "overview", split="dev")
    assert app.value("run") == ["demo-baseline"]
    for name in ("other", "coder-demo"):
        write_run(tmp_path, name, images=4)
        st.cache_data.clear()  # the listing is kept for two seconds
        assert app.again().value("run") == ["demo-baseline", name]
    app.change(run=["demo-baseline"])
    write_run(tmp_path, "demo", images=4)
    assert opened(tmp_path, "overview", run="demo").figures()  # a link to a new run is not refused
    assert app.again().value("run") == ["demo-baseline"]


def test_accepted_connections_have_tcp_nodelay():
    """The socket is opened as Streamlit does it; asyncio sets TCP_NODELAY only if the protocol is given."""
    with socket.socket(socket.AF_INET) as listening, socket.socket() as client:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        send_at_once()
        client.connect(listening.getsockname())
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
