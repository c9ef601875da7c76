"""A real browser opens every page: a chart is drawn, nothing fails, nothing is asked of anybody else."""

from __future__ import annotations

import http.client
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.app.conftest import PROJECT
from tests.app.run_folders import write_run

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]

SHOTS = PROJECT / "artifacts" / "screenshots"
PATIENCE = 240_000  # milliseconds; a busy machine draws slowly
SIZES = ((1280, 800), (1920, 1080))
DRAWN = ".js-plotly-plot .plot-container"
# Streamlit's own probes on a page's address, answered 404 and repeated at the root
PROBES = ("/_stcore/health", "/_stcore/host-config")


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder CODER_SCREENSHOT_RUNS names (real runs for the documentation), or two synthetic ones."""
    given = os.environ.get("CODER_SCREENSHOT_RUNS")
    if given:
        return Path(given).resolve()
    root = tmp_path_factory.mktemp("browser") / "runs"
    write_run(root, "demo-baseline", loss="btr-hardest", noise=3.0, images=60)
    write_run(root, "demo", noise=2.0, images=60)
    return root


class Visit:
    """A page with everything it complained about and everybody it asked."""

    def __init__(self, browser: Any, port: int, theme: str) -> None:
        self.context = browser.new_context(
            viewport=dict(zip(("width", "height"), SIZES[0], strict=True)), color_scheme=theme
        )
        self.page = self.context.new_page()
        self.port, self.errors, self.foreign = port, [], []
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._asked)
        self.page.on("dialog", lambda dialog: self.foreign.append(f"dialog {dialog.message}"))

    def _said(self, message: Any) -> None:
        if message.type == "error" and not message.location.get("url", "").endswith(PROBES):
            self.errors.append(f"{message.text} {message.location}")

    def _asked(self, request: Any) -> None:
        local = (f"http://127.0.0.1:{self.port}/", f"ws://127.0.0.1:{self.port}/", "data:", "blob:")
        if not request.url.startswith(local):
            self.foreign.append(request.url)

    def open(self, path: str) -> None:
        self.page.goto(f"http://127.0.0.1:{self.port}/{path}")
        self.page.locator(DRAWN).first.wait_for(timeout=PATIENCE)
        self.settle()

    def settle(self) -> None:
        """Wait until the script has run through and the charts have stopped moving."""
        self.page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=PATIENCE)
        self.page.wait_for_timeout(1200)

    def check(self) -> None:
        assert self.page.locator("[data-testid=stException]").count() == 0
        assert self.errors == []
        assert self.foreign == []

    def check_charts(self) -> None:
        """Every chart has an axis box with marks in it."""
        charts = self.page.locator(".js-plotly-plot")
        for position in range(charts.count()):
            marks = charts.nth(position).locator(".trace, .point, .hm image, .heatmaplayer image").count()
            assert marks > 0, f"chart {position} is empty"

    def shoot(self, name: str) -> None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        for width, height in SIZES:
            self.page.set_viewport_size({"width": width, "height": height})
            self.settle()
            self.page.screenshot(path=SHOTS / f"{name}-{width}.png", timeout=PATIENCE)
        self.page.set_viewport_size({"width": SIZES[0][0], "height": 3000})
        self.settle()
        self.page.screenshot(path=SHOTS / f"{name}-whole.png", timeout=PATIENCE)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        "", "diversity", "diversity?anchors=Images", "similarity", "retrieval", "retrieval?direction=Image+→+captions",
        "train",
    ],
)  # fmt: skip
def test_every_page_draws(serve: Callable[[Path], int], browser: Any, two_runs: Path, path: str, theme: str) -> None:
    visit = Visit(browser, serve(two_runs), theme)
    visit.open(path)
    visit.check()
    visit.check_charts()
    name = path.replace("?", "-").split("=")[0] or "overview"
    visit.shoot(f"{name}-{theme}")
    visit.check()
    visit.context.close()


def test_a_link_to_a_page_may_be_the_first_thing_a_server_is_asked(
    serve: Callable[[Path], int], browser: Any, tmp_path: Path
) -> None:
    write_run(tmp_path / "runs", "demo", images=12)
    visit = Visit(browser, serve(tmp_path / "runs"), "light")
    visit.open("retrieval?direction=Image+→+captions")
    assert visit.page.get_by_role("link", name="Overview").count() == 1
    assert visit.page.get_by_role("link", name="streamlit app").count() == 0
    assert "direction=" in visit.page.url
    visit.check()
    visit.context.close()


def test_the_start_page_offers_the_demo(serve: Callable[[Path], int], browser: Any, tmp_path: Path) -> None:
    visit = Visit(browser, serve(tmp_path), "light")
    visit.page.goto(f"http://127.0.0.1:{visit.port}/")
    visit.page.get_by_role("button", name="Train the demo pair").wait_for(timeout=PATIENCE)
    visit.settle()
    visit.shoot("start-light")
    visit.check()
    visit.context.close()


def test_what_is_chosen_lives_in_the_url_and_follows_to_other_pages(
    serve: Callable[[Path], int], browser: Any, two_runs: Path
) -> None:
    visit = Visit(browser, serve(two_runs), "light")
    visit.open("diversity?measure=Entropy&caption=7&versus=—")
    assert visit.page.get_by_text("Caption 7 of image 1").count() == 1
    visit.page.get_by_role("button", name="Next").click()
    visit.page.wait_for_function("!location.search.includes('caption=7')", timeout=PATIENCE)
    visit.settle()
    copied = visit.page.url
    assert "measure=Entropy" in copied
    visit.page.get_by_role("link", name="Retrieval").click()
    visit.page.wait_for_url("**/retrieval*", timeout=PATIENCE)
    visit.settle()
    assert "versus=" in visit.page.url
    visit.check()
    visit.context.close()


class _Listener(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silence."""


@pytest.fixture
def listener() -> Iterator[tuple[int, list[str]]]:
    _Listener.seen = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1], _Listener.seen
    server.shutdown()
    server.server_close()
    thread.join()


def payloads(port: int) -> list[str]:
    """Captions that would call the listener if anything took them for more than text."""
    to = f"http://127.0.0.1:{port}"
    return [
        f"![picture]({to}/markdown)",
        f"[![a]({to}/nested)]({to}/link)",
        f"<img src='{to}/img'>",
        f'<img src=x onerror="fetch(`{to}/onerror`)">',
        f"<script>fetch('{to}/script')</script>",
        f"<svg onload=\"fetch('{to}/svg')\">",
        f"<style>body{{background:url({to}/style)}}</style>",
        f"<link rel=stylesheet href={to}/css>",
        f"<iframe src={to}/frame></iframe>",
        f"<a href='{to}/anchor' ping='{to}/ping'>here</a>",
        f"{to}/bare.png",
        r"$\href{" + to + r"/latex}{x}$ $$\includegraphics{" + to + "/tex}$$",
        ":material/home: :red[x] :blue-badge[y]",
        "%{x} %{customdata[0]} <b>%{y}</b>",
        f"data:text/html,<script src={to}/data></script>",
        "\u202eright to left\u202c and \u2066isolates",
        "a\u0000b",
        "e" + "\u0301" * 2_000,
        "x" * 100_000,
        "</div></style></script><h1>closed</h1>",
    ]


def test_hostile_captions_stay_text(
    serve: Callable[[Path], int], browser: Any, tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    port, seen = listener
    evil = payloads(port)
    root = tmp_path / "runs"
    for name, noise in (("x-baseline", 3.0), ("x", 2.0)):
        write_run(root, name, noise=noise, images=8, captions=[evil[i % len(evil)] for i in range(40)])
    visit = Visit(browser, serve(root), "light")
    for path in (
        "",
        "diversity",
        "diversity?anchors=Images",
        "similarity",
        "retrieval",
        "retrieval?direction=Image+→+captions",
    ):
        visit.open(path)
        for chart in visit.page.locator(".js-plotly-plot").all()[:2]:
            chart.hover()
        visit.check()
    assert visit.page.locator("h1", has_text="closed").count() == 0
    assert visit.page.get_by_text("![picture]").count() > 0
    assert seen == []
    visit.context.close()


def handshake(port: int, host: str, origin: str) -> int:
    """Status of opening the app's socket with this Host and Origin."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.putrequest("GET", "/_stcore/stream", skip_host=True)
    for name, value in {
        "Host": host, "Origin": origin, "Upgrade": "websocket", "Connection": "Upgrade",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }.items():  # fmt: skip
        connection.putheader(name, value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_a_foreign_host_or_origin_cannot_open_the_socket(serve: Callable[[Path], int], two_runs: Path) -> None:
    port = serve(two_runs)
    own = f"127.0.0.1:{port}"
    assert handshake(port, own, f"http://{own}") == 101
    assert handshake(port, f"localhost:{port}", f"http://localhost:{port}") == 101
    assert handshake(port, f"evil.example:{port}", f"http://evil.example:{port}") == 403
    assert handshake(port, own, "http://evil.example") == 403


def test_the_server_listens_on_this_machine_only_and_reports_nothing() -> None:
    import tomllib

    config = tomllib.loads((PROJECT / ".streamlit" / "config.toml").read_text())
    server = config["server"]
    assert server["address"] == "127.0.0.1"
    assert server["allowedHosts"] == ["localhost", "127.0.0.1"]
    assert server["enableCORS"] is server["enableXsrfProtection"] is True
    assert server["maxUploadSize"] == 10
    assert config["browser"]["gatherUsageStats"] is False
    assert json.dumps(config).count("magicEnabled") == 1
