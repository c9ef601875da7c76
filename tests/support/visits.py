"""A visit to the app with a real browser, and captions that would do harm where they are taken for more than text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.app.conftest import PROJECT

SHOTS = PROJECT / "artifacts" / "screenshots"
PATIENCE = 240_000  # milliseconds; a busy machine draws slowly
SIZES = ((1280, 800), (1920, 1080))
DRAWN = ".js-plotly-plot .plot-container"
# Streamlit's own probes on a page's address, answered 404 and repeated at the root
PROBES = ("/_stcore/health", "/_stcore/host-config")


def given_runs() -> Path | None:
    """The folder of real runs that CODER_SCREENSHOT_RUNS names, for the documentation's pictures."""
    given = os.environ.get("CODER_SCREENSHOT_RUNS")
    return Path(given).resolve() if given else None


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

    def look(self, path: str, name: str) -> None:
        """Open a page, photograph it under this name, and leave: nothing fails, every chart holds something."""
        self.open(path)
        self.check()
        self.check_charts()
        self.shoot(name)
        self.check()
        self.context.close()

    def read_all(self, *paths: str) -> None:
        """Open pages and point at their charts: nothing fails, and no text has become a part of the page."""
        for path in paths:
            self.open(path)
            for chart in self.page.locator(".js-plotly-plot").all()[:2]:
                chart.hover()
            self.check()
            assert self.page.locator("h1", has_text="closed").count() == 0


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
