"""Visits to the app with a real browser, and captions that would do harm if they were taken for more than text."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from app.charts import DARK

PATIENCE = 240_000  # milliseconds; a busy machine draws slowly
SIZE = {"width": 1280, "height": 800}
CHART = ".js-plotly-plot"
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
# Skeletons and spinners that nobody watches cost a quarter of the processor time of a page
STILL = """document.addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style")
  style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important }"
  document.head.append(style)
})"""
STEP = """path => !!document.querySelector("[data-testid=stApp]") && (document.title = "",
  history.pushState({}, "", path), dispatchEvent(new PopStateEvent("popstate")))"""
IS_DARK = f"getComputedStyle(document.documentElement).getPropertyValue('--cl-paper') === '{DARK.paper}'"
COLOUR_RULES = ["color-contrast", "link-in-text-block"]  # all that another theme can break


def given_runs():
    """The folder of real runs that CODER_SCREENSHOT_RUNS names, for the documentation's pictures."""
    given = os.environ.get("CODER_SCREENSHOT_RUNS")
    return Path(given).resolve() if given else None


def new_context(browser):
    """A window whose pages know when they are drawn."""
    context = browser.new_context(viewport=SIZE, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    context.add_init_script(SETTLED)
    context.add_init_script(STILL)
    return context


class Visit:
    """A browser tab with its console errors and all requests to other hosts."""

    def __init__(self, browser, port, context=None):
        self.context = context or new_context(browser)
        self.page = self.context.new_page()
        self.port = port
        self.waits, self.dark = 0, False
        self.errors, self.foreign = [], []
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("dialog", lambda dialog: self.foreign.append(f"dialog {dialog.message}"))

    def another_tab(self):
        """A second tab in the same window, which rests while another is in front."""
        return Visit(None, self.port, self.context)

    def _on_console(self, message):
        if message.type == "error" and not message.location.get("url", "").endswith(PROBES):
            self.errors.append(f"{message.text} {message.location}")

    def _on_request(self, request):
        local = (f"http://127.0.0.1:{self.port}/", f"ws://127.0.0.1:{self.port}/", "data:", "blob:")
        if not request.url.startswith(local):
            self.foreign.append(request.url)

    def open(self, path, *, charts=True, reload=True):
        """Show a page and wait until it is drawn, with at least one chart unless it has none. Without `reload` as Back
        and Forward show it, a second of processor time cheaper; a dark document is loaded again all the same."""
        if reload or self.dark or not self.page.evaluate(STEP, f"/{path}"):
            self.page.goto(f"http://127.0.0.1:{self.port}/{path}")
        self.dark = False
        self.page.wait_for_function("document.title !== ''")
        self.page.get_by_role("heading", level=1).wait_for()
        if charts:
            self.page.locator(f"{CHART} .plot-container").first.wait_for()
        self.settle()

    def settle(self):
        """Wait until the server has answered, the script has run through and every element is drawn and at rest."""
        self.waits += 1
        self.page.wait_for_function("call => window.settled(call)", arg=self.waits, polling=30)

    def reach(self, pattern):
        """Wait until the address matches and its page is drawn."""
        self.page.wait_for_url(re.compile(pattern))
        self.settle()

    def show(self, text, **options):
        """Wait until the page shows this text and is drawn."""
        self.page.get_by_text(text, **options).first.wait_for()
        self.settle()

    def query(self):
        """The parameters of the address."""
        return parse_qs(urlsplit(self.page.url).query)

    def number(self, label):
        """The value of a number field."""
        return int(self.page.get_by_label(label, exact=True).input_value())

    def unsliced(self):
        """Wait until nothing is filtered."""
        self.page.get_by_role("button", name="Clear slice").wait_for(state="detached")
        self.settle()

    def enter(self, label, text):
        """Type into the field of this name and press Enter."""
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")

    def follow(self, page):
        """Click on a link of the sidebar."""
        self.page.locator(".st-key-pages").get_by_role("link", name=page).click()
        self.titled(page)

    def titled(self, page):
        """Wait until the page of this name is drawn."""
        self.page.wait_for_function("page => document.title.startsWith(page)", arg=page)
        self.settle()

    def darken(self):
        """Switch to the dark theme and wait until the server has coloured the page anew."""
        self.dark = True
        self.page.emulate_media(color_scheme="dark")
        self.page.wait_for_function(IS_DARK)
        self.settle()

    def check(self):
        """Nothing failed, no other host was asked, and every chart has marks in it."""
        assert self.page.locator("[data-testid=stException]").count() == 0
        assert self.errors == []
        assert self.foreign == []
        for chart in self.page.locator(CHART).all():
            marks = chart.locator(".trace, .point, .hm image, .heatmaplayer image").count()
            assert marks > 0 or chart.evaluate(WEBGL_POINTS), "a chart is empty"

    def check_accessibility(self, *, in_dark=False):
        """axe-core finds nothing against WCAG 2.2 AA, nor headings out of order, on the whole page; then, `in_dark`,
        no weak contrast in the dark theme."""
        self.page.set_viewport_size(SIZE | {"height": 5000})  # contrast is measured of what is in sight
        failures = self.violations("html")
        if in_dark:
            self.darken()
            failures += self.violations("html", colours_only=True)
        self.page.set_viewport_size(SIZE)
        assert failures == [], failures

    def violations(self, within, *, colours_only=False):
        """Rule, element and summary of what axe-core finds (with `colours_only` of contrast) within a selector."""
        from axe_playwright_python.base import AXE_SCRIPT

        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE_SCRIPT)
        rules = {"runOnly": {"type": "rule", "values": COLOUR_RULES}} if colours_only else {}
        arguments = [within, AXE_OPTIONS | rules]
        result = self.page.evaluate("([within, options]) => axe.run(within, options)", arguments)
        return [
            (rule["id"], node["html"][:200], node["failureSummary"])
            for rule in result["violations"]
            for node in rule["nodes"]
        ]

    def downloaded(self, label):
        """The page's first table as a file of this kind, "CSV" for example."""
        self.page.get_by_role("button", name="Download table").first.click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=label, exact=True).click()
        content = io.BytesIO(Path(download.value.path()).read_bytes())
        self.page.keyboard.press("Escape")
        return content

    def read_from_disk(self, file):
        """The text of a page that requests nothing else, reports no error and draws all its pictures."""
        page = self.context.new_page()
        requests, errors = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: errors.append(message.text))
        page.goto(file.as_uri())
        drawn = "images => images.every(image => image.complete && image.naturalWidth > 0)"
        assert page.locator("figure.own img").evaluate_all(drawn)
        text = str(page.locator("body").inner_text())
        page.close()
        assert [url for url in requests if not url.startswith("data:")] == [file.as_uri()]
        assert errors == []
        return text

    def colour(self):
        """The colour of text in the first chart."""
        return str(self.page.evaluate(f"document.querySelector('{CHART}')._fullLayout.font.color"))


def row_number(visit, row):
    """The caption of a row of the page's first table."""
    return int(re.findall(r"caption (\d+)", visit.page.locator("tbody tr").nth(row).inner_text())[0])


def picture(port, kind):
    """A name that is a Markdown picture of the listener's; a file's name holds no slash, a character reference does."""
    return f"x{kind}![{kind}](http:&#47;&#47;127.0.0.1:{port}&#47;{kind})"


def payloads(port):
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
