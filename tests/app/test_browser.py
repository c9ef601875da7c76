"""A real browser opens every page: a chart is drawn, nothing fails, nothing is asked of anybody else."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import PROJECT
from tests.support.run_folders import write_run
from tests.support.visits import PATIENCE, Visit, given_runs, payloads

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder CODER_SCREENSHOT_RUNS names (real runs for the documentation), or two synthetic ones."""
    given = given_runs()
    if given is not None:
        return given
    root = tmp_path_factory.mktemp("browser") / "runs"
    write_run(root, "demo-baseline", loss="btr-hardest", noise=3.0, images=60)
    write_run(root, "demo", noise=2.0, images=60)
    return root


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        "", "diversity", "diversity?anchors=Images", "similarity", "retrieval", "retrieval?direction=Image+→+captions",
        "train",
    ],
)  # fmt: skip
def test_every_page_draws(serve: Callable[[Path], int], browser: Any, two_runs: Path, path: str, theme: str) -> None:
    name = path.replace("?", "-").split("=")[0] or "overview"
    Visit(browser, serve(two_runs), theme).look(path, f"{name}-{theme}")


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


def test_the_bare_address_leads_to_the_overview_with_what_it_asks_for(
    serve: Callable[[Path], int], browser: Any, two_runs: Path
) -> None:
    visit = Visit(browser, serve(two_runs), "light")
    visit.open("?curves=demo&curves=demo-baseline")
    visit.page.wait_for_url("**/overview?curves=demo&curves=demo-baseline", timeout=PATIENCE)
    assert visit.page.get_by_role("link", name="Overview").get_attribute("aria-current") == "page"
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


def test_the_runs_a_link_names_follow_to_the_first_page_that_is_clicked(
    serve: Callable[[Path], int], browser: Any, two_runs: Path
) -> None:
    visit = Visit(browser, serve(two_runs), "light")
    visit.open("overview?run=demo&versus=demo-baseline")
    visit.page.get_by_role("link", name="Diversity").click()
    visit.page.wait_for_url("**/diversity?*run=demo&versus=demo-baseline*", timeout=PATIENCE)
    visit.settle()
    assert visit.page.locator(".legendtext").all_text_contents()[:2] == ["demo", "demo-baseline"]
    visit.check()
    visit.context.close()


def test_a_picture_is_chosen_from_the_disk_and_answered(
    serve: Callable[[Path], int], browser: Any, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    for name, noise in (("demo-baseline", 3.0), ("demo", 2.0)):
        write_run(root, name, noise=noise, images=12)
    visit = Visit(browser, serve(root), "light")
    visit.page.goto(f"http://127.0.0.1:{visit.port}/retrieval?ask=A+picture")
    visit.page.get_by_text("No picture yet.").wait_for(timeout=PATIENCE)
    chosen = visit.page.locator("input[type=file]")
    chosen.set_input_files(tmp_path / "runs-pictures" / "7.png")
    visit.page.get_by_text("Using image 7 as the query", exact=False).first.wait_for(timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_text("7.png").count() > 0
    assert visit.page.locator(".cl-card").count() == 20  # the ten captions of either run
    torn = tmp_path / "torn.png"
    torn.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(200))
    visit.page.locator("input[type=file]").set_input_files(torn)
    visit.page.get_by_text("This file cannot be used.").wait_for(timeout=PATIENCE)
    visit.check()
    visit.context.close()


def test_hostile_captions_stay_text(
    serve: Callable[[Path], int], browser: Any, tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    port, seen = listener
    evil = payloads(port)
    root = tmp_path / "runs"
    for name, noise in (("x-baseline", 3.0), ("x", 2.0)):
        write_run(root, name, noise=noise, images=8, captions=[evil[i % len(evil)] for i in range(40)])
    visit = Visit(browser, serve(root), "light")
    images = "retrieval?direction=Image+→+captions"
    visit.read_all("", "diversity", "diversity?anchors=Images", "similarity", "retrieval", images)
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
