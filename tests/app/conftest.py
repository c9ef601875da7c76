"""Folders of every kind of run; one served app and one browser for all tests in files named `…browser.py`."""

import os
import shutil
import threading
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks.serving import served
from coder_core.api import open_run
from coder_core.api.data_quality import splits_of_run
from coder_core.data.content.report import check_content
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from coder_core.runs.record import HistoryWriter, write_status
from tests.support.numerics import numerics_unchanged
from tests.support.pages import open_page
from tests.support.run_folders import CONCEPTS, damage, import_clip, import_run_folder, write_run
from tests.support.trained_runs import train_weighted
from tests.support.visits import SIZE, Visit, payloads, picture

# Chromium's headless shell takes a tenth less processor time
CHROMIUM = Path(os.environ.get("CHROMIUM") or shutil.which("chromium-headless-shell") or "/usr/bin/chromium")
SWITCHES = "headless no-sandbox disable-quic no-first-run disable-background-networking disable-component-update disable-sync"
# room for new objects: collecting them takes a twelfth of a page's processor time
ROOMY = "js-flags=--min-semi-space-size=64"
PLAIN = "disable-gpu"
WEBGL = "use-gl=angle use-angle=swiftshader enable-unsafe-swiftshader"  # drawn by software
IMAGES = 60
HOSTILE = 4  # images with five captions each, so that every payload occurs once


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the tests of browser files: they need Chromium and run early, with the slow ones."""
    for item in items:
        if item.path.name.endswith("browser.py"):
            for mark in (pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)):
                item.add_marker(mark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Add what the page shows, and its errors, to the report of a failed browser test."""
    report = yield
    tab = item.funcargs.get("tab") or item.funcargs.get("map_tab")
    if report.failed and tab:
        report.sections.append(("page", f"{tab.page.url}\n{tab.errors}\n{tab.page.inner_text('body')}"))
    return report


class _Listener(BaseHTTPRequestHandler):
    seen: ClassVar[list[str]] = []

    def do_GET(self):
        self.seen.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format, *arguments):
        """Log nothing."""


@pytest.fixture(scope="session")
def listener():
    """Server that hostile captions would call: its port, and the list of requested paths."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Listener) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], _Listener.seen
        server.shutdown()


@pytest.fixture
def opened(monkeypatch):
    """Function that opens a page with AppTest: `opened(root, page, **query)`."""
    return partial(open_page, monkeypatch)


@pytest.fixture(scope="session")
def roots(tmp_path_factory):
    """Folders of runs: none, one, a pair, one without pictures beside a damaged one, one beside imported ones."""
    base = tmp_path_factory.mktemp("app")
    folders = {name: base / name for name in ("none", "one", "two", "damaged", "imported")}
    folders["none"].mkdir()
    for name in ("one", "damaged", "imported"):
        write_run(folders[name], "demo", images=20, pictures=name != "damaged")
    write_pair(folders["two"])
    damage(write_run(folders["damaged"], "torn", images=12))
    import_run_folder(folders["imported"], "clip", images=20)
    saved = {"pictures": base / "two-pictures", "queries": [f"query {i}" for i in range(3)]}
    import_run_folder(folders["imported"], "clip-pictures", images=20, **saved)
    return folders


def write_pair(root):
    """Write the runs "demo-baseline" and "demo", which is better, and return their folder."""
    for name, loss, noise in (("demo-baseline", "btr-hardest", 3.0), ("demo", "dcl", 1.5)):
        write_run(root, name, loss=loss, noise=noise, images=20)
    return root


@pytest.fixture(scope="session")
def weighted_root(tmp_path_factory):
    """Folder of runs trained with sample weights."""
    with numerics_unchanged():
        return train_weighted(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="session")
def runs(tmp_path_factory, listener, weighted_root):
    """Three demo runs, two of imported embeddings, a concept run, two runs with weights, and hostile runs.

    Two demo runs have clusters. Hostile runs have hostile captions or names, made by `picture`: "run", "run-baseline",
    "concepts", "more-concepts", "combined", "opposite", "holder".
    """
    root = tmp_path_factory.mktemp("browser") / "runs"
    evil = payloads(listener[0])
    name = partial(picture, listener[0])
    options = {"captions": evil, "pictures": False, "images": HOSTILE}
    options["picture_names"] = [f"{name('picture')}{i}" for i in range(HOSTILE)]
    for suffix, noise, loss in (("-baseline", 3.0, "btr-hardest"), ("", 2.0, "dcl")):
        demo = write_run(root, f"demo{suffix}", loss=loss, noise=noise, images=IMAGES)
        hostile = write_run(root, name(f"run{suffix}"), noise=noise, **options)
        make_clusters(demo, "dev", ClusterSettings())
        make_clusters(hostile, "dev", ClusterSettings(4))
        with HistoryWriter(hostile / "history.jsonl") as history:
            history.write("epoch", step=40, epoch=4, **{name("value"): 1.0}, metrics={name("metric"): 2.0})
        write_status(hostile, name("state"), message=name("message"))
    for checked in (demo, hostile):
        check_content(splits_of_run(open_run(checked)))
    write_run(root, "demo-late", noise=2.4, images=IMAGES)
    for suffix, noise in (("-blurred", 2.0), ("", 1.0)):
        import_clip(root, f"imported{suffix}", images=12, noise=noise)
    write_run(root, "concepts", concepts=CONCEPTS, images=30)
    words = [(name(f"word{i}"), name("kind") if i == 2 else "object") for i in range(5)]
    for kind in ("concepts", "more-concepts"):
        write_run(root, name(kind), images=HOSTILE, captions=evil, concepts=words)
    for kind in ("combined", "opposite"):
        for target in (kind, name(kind)):
            shutil.copytree(weighted_root / kind, root / target)
    analyses = write_run(root, name("holder"), images=HOSTILE, pictures=False) / "analysis"
    (analyses / "dev").rename(analyses / name("split"))
    return root


@pytest.fixture(scope="session")
def served_link(tmp_path_factory, runs):
    """Link to the folder of `runs`, through which the app reaches it: another server would need 7 s of processor time."""
    link = tmp_path_factory.mktemp("server") / "link"
    link.symlink_to(runs.parent)
    return link


@pytest.fixture(scope="session")
def port(served_link):
    """Port of an app that serves `runs` and the data sets beside it."""
    with serve(served_link / "runs", served_link.parent / "log") as port:
        yield port


@contextmanager
def serve(root, log):
    """Serve a folder of runs and the data sets beside it; yield the port."""
    with served(root, log, CODER_DATA=str(root.parent / "sets"), CODER_REVIEWS="") as (port, _):
        yield port


@pytest.fixture(scope="session")
def chromium():
    """Function that starts Chromium with these switches beside the usual ones, driven by Playwright; tests are skipped if
    either is not installed."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"no Chromium at {CHROMIUM}; set CHROMIUM to one")
    with playwright.sync_playwright() as session, ExitStack() as started:

        def start(switches):
            flags = [f"--{name}" for name in f"{SWITCHES} {ROOMY} {switches}".split()]
            return started.enter_context(session.chromium.launch(executable_path=str(CHROMIUM), args=flags))

        yield start


@pytest.fixture(scope="session")
def browser(chromium):
    """Browser without WebGL, which by software takes a sixth of the processor time of every page."""
    return chromium(PLAIN)


@pytest.fixture(scope="session")
def map_browser(chromium):
    """Browser with WebGL, for the maps of Joint space."""
    return chromium(WEBGL)


@pytest.fixture(scope="session")
def tab(browser, port):
    """One tab for all tests: a new context would load and compile the app's scripts again, in 4 s of processor time.
    The server's first request is for a page; its sidebar must not list the files of pages/, as Streamlit's own does."""
    visit = Visit(browser, port)
    visit.open("retrieval?direction=Image+→+captions")
    links = [name.split()[-1] for name in visit.page.locator("a").all_inner_texts() if name.strip()]
    assert links.count("Overview") == 1
    assert "app" not in links
    yield visit
    visit.context.close()


@pytest.fixture
def visit(tab):
    """The shared tab, cleared before the test and checked after it."""
    yield from checked(tab)


@pytest.fixture
def move(visit, served_link):
    """Function that moves the app to another folder's runs/ and sets/ until the end of the test."""
    before = served_link.readlink()

    def point(folder):
        visit.page.goto("about:blank")  # ends the session
        served_link.unlink()
        served_link.symlink_to(folder)

    yield point
    try:
        visit.check()
    finally:
        point(before)


@pytest.fixture(scope="session")
def map_tab(map_browser, port):
    """One tab for all tests of maps."""
    visit = Visit(map_browser, port)
    yield visit
    visit.context.close()


@pytest.fixture
def map_visit(map_tab):
    """The tab for maps, cleared before the test and checked after it."""
    yield from checked(map_tab)


def checked(tab):
    """Clear a tab, yield it, and check it."""
    tab.errors.clear()
    tab.foreign.clear()
    tab.page.set_viewport_size(SIZE)
    tab.page.emulate_media(color_scheme="light")
    yield tab
    tab.check()
    if tab.dark:
        tab.page.goto("about:blank")  # loading a document takes less than drawing the same one in light
        tab.dark = False
