"""One served app over a folder with every kind of run, and one browser tab, shared by all tests marked `browser`."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from streamlit.components.v2 import manifest_scanner

from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from coder_core.runs.history import HistoryWriter
from coder_core.runs.status import write_status
from tests.support.clip_runs import import_clip
from tests.support.concept_runs import write_concept_run
from tests.support.pages import PROJECT, Opened, open_page
from tests.support.run_folders import damage, import_run_folder, write_run
from tests.support.small_runs import SMALL, write_small_runs
from tests.support.visits import SIZE, Visit, payloads, picture
from tests.support.weighted_runs import train_weighted

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_SECONDS = 90
IMAGES = 60
ROOTS = ("none", "one", "two", "damaged", "no pictures", "imported")


class _Listener(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.seen.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Silence."""


@pytest.fixture(scope="session")
def listener() -> Iterator[tuple[int, list[str]]]:
    """A server that hostile captions would call; its port, and the paths it was asked for."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_address[1], _Listener.seen
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="session", autouse=True)
def _one_search_for_components() -> Iterator[None]:
    """Every AppTest searches all installed packages for components, 0.1 s; what is installed does not change here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests)
        )
        yield


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Open a page with AppTest: `opened(root, page, **query)`."""
    return partial(open_page, monkeypatch)


@pytest.fixture(scope="session")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of runs: none, one, a pair, one with a damaged run, one without pictures, one with an imported run."""
    base = tmp_path_factory.mktemp("app")
    folders = {name: base / name.replace(" ", "-") for name in ROOTS}
    folders["none"].mkdir()
    for name in ("one", "damaged", "no pictures", "imported"):
        write_run(folders[name], "demo", images=20, pictures=name != "no pictures")
    for name, loss, noise in (("demo-baseline", "btr-hardest", 3.0), ("demo", "dcl", 1.5)):
        write_run(folders["two"], name, loss=loss, noise=noise, images=20)
    damage(write_run(folders["damaged"], "torn", images=12))
    import_run_folder(folders["imported"], "clip", images=20)
    queries = [f"query {i}" for i in range(3)]
    import_run_folder(
        folders["imported"], "clip-pictures", images=20, pictures=base / "two-pictures", queries=queries
    )
    return folders


@pytest.fixture(scope="session", params=SMALL)
def small_root(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs of one, two or five images, or all ranks 1: see `tests.support.small_runs`."""
    return write_small_runs(tmp_path_factory.mktemp("small") / "runs", request.param)


@pytest.fixture(scope="session")
def weighted_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs trained with sample weights; what training sets in this process is set back."""
    threads, precision = torch.get_num_threads(), torch.backends.mkldnn.matmul.fp32_precision
    root = train_weighted(tmp_path_factory.mktemp("weights"))
    torch.set_num_threads(threads)
    torch.backends.mkldnn.matmul.fp32_precision = precision
    return root


@pytest.fixture(scope="session")
def runs(
    tmp_path_factory: pytest.TempPathFactory, listener: tuple[int, list[str]], weighted_root: Path
) -> Path:
    """Three demo runs, two of imported embeddings, a concept run, two runs with weights, and hostile ones.

    Two demo runs have clusters. The last have hostile captions and names: "run", "run-baseline", "concepts",
    "more-concepts", "combined", "opposite" as `picture` writes them.
    """
    root = tmp_path_factory.mktemp("browser") / "runs"
    evil = [payloads(listener[0])[i % 20] for i in range(40)]
    name = partial(picture, listener[0])
    for suffix, noise, loss in (("-baseline", 3.0, "btr-hardest"), ("", 2.0, "dcl")):
        make_clusters(
            write_run(root, f"demo{suffix}", loss=loss, noise=noise, images=IMAGES), "dev", ClusterSettings()
        )
        hostile = write_run(
            root,
            name(f"run{suffix}"),
            noise=noise,
            images=8,
            captions=evil,
            pictures=False,
            picture_names=[f"{name('picture')}{i}" for i in range(8)],
        )
        make_clusters(hostile, "dev", ClusterSettings(4))
        with HistoryWriter(hostile / "history.jsonl") as history:
            history.write("epoch", step=40, epoch=4, **{name("value"): 1.0}, metrics={name("metric"): 2.0})
        write_status(hostile, name("state"), message=name("message"))
    write_run(root, "demo-late", noise=2.4, images=IMAGES)
    for suffix, noise in (("-blurred", 2.0), ("", 1.0)):
        import_clip(root, f"clip{suffix}", images=12, noise=noise)
    write_concept_run(root, "concepts")
    words = [(name(f"word{i}"), name("kind") if i == 2 else "object") for i in range(5)]
    for kind in ("concepts", "more-concepts"):
        write_concept_run(root, name(kind), images=8, captions=evil, concepts=words)
    for kind in ("combined", "opposite"):
        shutil.copytree(weighted_root / kind, root / kind)
        shutil.copytree(weighted_root / kind, root / name(kind))
    analyses = write_run(root, name("holder"), images=8, pictures=False) / "analysis"
    (analyses / "dev").rename(analyses / name("split"))
    return root


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], int]]:
    """Serve a folder of runs as `streamlit run` does, by a server of its own; returns the port."""
    servers = []

    def begin(root: Path) -> int:
        port, log = free_port(), tmp_path_factory.mktemp("server") / "log"
        command = [sys.executable, "-m", "streamlit", "run", "streamlit_app.py", "--server.port", str(port)]
        environment = os.environ | {"CODER_CHECKPOINTS": str(root)}
        with log.open("wb") as output:
            server = subprocess.Popen(
                command, cwd=PROJECT, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        servers.append(server)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and server.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=2):
                    return port
            except OSError:
                time.sleep(0.2)
        raise AssertionError(log.read_text())

    yield begin
    for server in servers:
        server.terminate()
    for server in servers:
        server.wait(timeout=20)


@pytest.fixture(scope="session")
def port(serve: Callable[[Path], int], runs: Path) -> int:
    return serve(runs)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium through Playwright; skipped where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="Playwright's Python package is not installed"
    )
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}; set CHROMIUM to one")
    with playwright.sync_playwright() as session:
        chromium = session.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def tab(browser: Any, port: int) -> Iterator[Visit]:
    visit = Visit(browser, port)
    yield visit
    visit.context.close()


@pytest.fixture
def visit(tab: Visit) -> Iterator[Visit]:
    """The shared tab, cleared before the test and checked after it."""
    tab.errors.clear()
    tab.foreign.clear()
    tab.page.set_viewport_size(SIZE)
    tab.page.emulate_media(color_scheme="light")
    yield tab
    tab.check()
