"""Visits to the app with a real browser, and captions that would do harm if they were taken for more than text."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

SHOTS = Path(__file__).resolve().parents[2] / "artifacts" / "screenshots"
PATIENCE = 240_000  # milliseconds; a busy machine draws slowly
SIZE = {"width": 1280, "height": 800}
SIZES = (SIZE, {"width": 1920, "height": 1080})
DRAWN = ".js-plotly-plot .plot-container"
WEBGL_POINTS = "chart => chart._fullData.some(trace => trace.type === 'scattergl' && trace.x.length > 0)"
# Streamlit's own probes on a page's address, answered 404 and repeated at the root
PROBES = ("/_stcore/health", "/_stcore/host-config")
# Streamlit's messages: which fields say that a run was asked for, began and ended
NUMBERS = {
    "rerun_script": BackMsg.RERUN_SCRIPT_FIELD_NUMBER,
    "new_session": ForwardMsg.NEW_SESSION_FIELD_NUMBER,
    "script_finished": ForwardMsg.SCRIPT_FINISHED_FIELD_NUMBER,
    "early_for_rerun": ForwardMsg.FINISHED_EARLY_FOR_RERUN,
}
SETTLED = f"({Path(__file__).with_name('settled.js').read_text('utf-8')})({json.dumps(NUMBERS)})"
# No rule and no element is left out: neither Streamlit's nor Plotly's own markup fails any of them
AXE_OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
COLOUR_RULES = ["color-contrast", "link-in-text-block"]  # all that another theme can break


def given_runs() -> Path | None:
    """The folder of real runs that CODER_SCREENSHOT_RUNS names, for the documentation's pictures."""
    given = os.environ.get("CODER_SCREENSHOT_RUNS")
    return Path(given).resolve() if given else None


class Visit:
    """A browser tab with its console errors and all requests to other hosts."""

    def __init__(self, browser: Any, port: int) -> None:
        self.context = browser.new_context(viewport=SIZE, color_scheme="light")
        self.context.add_init_script(SETTLED)
        self.page = self.context.new_page()
        self.port = port
        self.waits = 0
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("dialog", lambda dialog: self.foreign.append(f"dialog {dialog.message}"))

    def _on_console(self, message: Any) -> None:
        if message.type == "error" and not message.location.get("url", "").endswith(PROBES):
            self.errors.append(f"{message.text} {message.location}")

    def _on_request(self, request: Any) -> None:
        local = (f"http://127.0.0.1:{self.port}/", f"ws://127.0.0.1:{self.port}/", "data:", "blob:")
        if not request.url.startswith(local):
            self.foreign.append(request.url)

    def open(self, path: str, *, charts: bool = True) -> None:
        self.page.goto(f"http://127.0.0.1:{self.port}/{path}")
        self.page.get_by_role("heading", level=1).wait_for(timeout=PATIENCE)
        if charts:
            self.page.locator(DRAWN).first.wait_for(timeout=PATIENCE)
        self.settle()

    def settle(self) -> None:
        """Wait until the server has answered, the script has run through and every element is drawn and at rest."""
        self.waits += 1
        self.page.wait_for_function("call => window.settled(call)", arg=self.waits, timeout=PATIENCE)

    def turn(self, theme: str) -> None:
        """Open the same page in the other theme."""
        self.page.emulate_media(color_scheme=theme)
        self.page.reload()
        self.page.locator(DRAWN).first.wait_for(timeout=PATIENCE)
        self.settle()

    def check(self) -> None:
        """Nothing failed, nobody else was asked, and every chart has marks in it."""
        assert self.page.locator("[data-testid=stException]").count() == 0
        assert self.errors == []
        assert self.foreign == []
        for chart in self.page.locator(".js-plotly-plot").all():
            marks = chart.locator(".trace, .point, .hm image, .heatmaplayer image").count()
            assert marks > 0 or chart.evaluate(WEBGL_POINTS), "a chart is empty"

    def check_accessibility(self, *, colours_only: bool = False) -> None:
        """axe-core finds nothing against WCAG 2.2 AA, nor headings out of order, on the whole page.

        Args:
            colours_only: check contrast alone, on a page that was checked in the other theme.
        """
        from axe_playwright_python.base import AXE_SCRIPT

        options = AXE_OPTIONS | (
            {"runOnly": {"type": "rule", "values": COLOUR_RULES}} if colours_only else {}
        )
        self.page.set_viewport_size(SIZE | {"height": 5000})  # contrast is measured of what is in sight
        self.page.evaluate(AXE_SCRIPT)
        violations = self.page.evaluate("options => axe.run(options)", options)["violations"]
        self.page.set_viewport_size(SIZE)
        found = [
            (rule["id"], node["html"][:200], node["failureSummary"])
            for rule in violations
            for node in rule["nodes"]
        ]
        assert found == [], found

    def shoot(self, name: str) -> None:
        """Photograph the whole page; of real runs, for the documentation, also in two window sizes."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        for size in SIZES if given_runs() is not None else ():
            self.page.set_viewport_size(size)
            self.settle()
            self.page.screenshot(path=SHOTS / f"{name}-{size['width']}.png", timeout=PATIENCE)
        self.page.set_viewport_size(SIZE | {"height": 3000})
        self.settle()
        self.page.screenshot(path=SHOTS / f"{name}-whole.png", timeout=PATIENCE)
        self.page.set_viewport_size(SIZE)

    def downloaded(self, label: str) -> io.BytesIO:
        """The page's first table as a file of this kind, "CSV" for example."""
        self.page.get_by_role("button", name="Download table").first.click()
        with self.page.expect_download(timeout=PATIENCE) as download:
            self.page.get_by_role("button", name=label, exact=True).click()
        content = io.BytesIO(Path(download.value.path()).read_bytes())
        self.page.keyboard.press("Escape")
        return content

    def colour(self) -> str:
        """The colour of text in the first chart."""
        return str(self.page.evaluate("document.querySelector('.js-plotly-plot')._fullLayout.font.color"))


def picture(port: int, kind: str) -> str:
    """A name that is a Markdown picture of the listener's; a file's name holds no slash, a character reference does."""
    return f"x{kind}![{kind}](http:&#47;&#47;127.0.0.1:{port}&#47;{kind})"


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
