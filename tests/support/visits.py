"""Visits to the app with a real browser, and captions that would do harm if they were taken for code."""

from __future__ import annotations

import io
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from app.charts import DARK

PATIENCE = int(os.environ.get("CODER_TEST_PATIENCE", 240_000))  # milliseconds; a busy machine draws slowly
SIZE = {"width": 1280, "height": 800}
CHART = ".js-plotly-plot"
WEBGL_POINTS = "chart => chart._fullData.some(trace => trace.type === 'scattergl' && trace.x.length > 0)"
# Streamlit first probes these below the page's address, gets 404, and then repeats them at the root
PROBES = ("/_stcore/health", "/_stcore/host-config")
# field numbers of Streamlit's messages for a run that is requested, begins and ends
NUMBERS = {
    "rerun_script": BackMsg.RERUN_SCRIPT_FIELD_NUMBER,
    "new_session": ForwardMsg.NEW_SESSION_FIELD_NUMBER,
    "script_finished": ForwardMsg.SCRIPT_FINISHED_FIELD_NUMBER,
    "early_for_rerun": ForwardMsg.FINISHED_EARLY_FOR_RERUN,
}
SETTLED = f"({Path(__file__).with_name('settled.js').read_text('utf-8')})({json.dumps(NUMBERS)})"
# All rules apply to all elements: Streamlit's and Plotly's own markup passes them too
AXE_OPTIONS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
# Animated skeletons and spinners cost a quarter of a page's processor time
STILL = """document.addEventListener("DOMContentLoaded", () => {
  const style = document.createElement("style")
  style.textContent = "*, *::before, *::after { animation: none !important; transition: none !important }"
  document.head.append(style)
})"""
STEP = """path => !!document.querySelector("[data-testid=stApp]") && (document.title = "",
  history.pushState({}, "", path), dispatchEvent(new PopStateEvent("popstate")))"""
IS_DARK = f"getComputedStyle(document.documentElement).getPropertyValue('--cl-paper') === '{DARK.paper}'"
PRESSES = "addEventListener('pointerdown', event => event.isTrusted && window.pressed?.(), true)"
MOST_CLICKS = 6  # of a newcomer's task
COLOUR_RULES = ["color-contrast", "link-in-text-block"]  # the only rules that another theme can break


def given_runs():
    """Return the folder of real runs for the documentation's pictures, from CODER_SCREENSHOT_RUNS, or None."""
    given = os.environ.get("CODER_SCREENSHOT_RUNS")
    return Path(given).resolve() if given else None


def new_context(browser):
    """Open a window without animations whose pages have `window.settled`, see `Visit.settle`."""
    context = browser.new_context(viewport=SIZE, color_scheme="light")
    context.set_default_timeout(PATIENCE)
    context.add_init_script(SETTLED)
    context.add_init_script(STILL)
    context.add_init_script(PRESSES)
    return context


class Visit:
    """Browser tab that records its console errors, dialogs and requests to other hosts."""

    def __init__(self, browser, port, context=None):
        self.context = context or new_context(browser)
        self.page = self.context.new_page()
        self.port = port
        self.waits = 0
        self.dark = False
        self.clicks = 0
        self.errors = []
        self.foreign = []
        self.page.expose_function("pressed", self._on_press)
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._on_request)
        self.page.on("dialog", lambda dialog: self.foreign.append(f"dialog {dialog.message}"))

    def another_tab(self):
        """Open a second tab in the same window; a tab pauses while another is in front."""
        return Visit(None, self.port, self.context)

    def _on_press(self):
        self.clicks += 1

    def _on_console(self, message):
        if message.type == "error" and not message.location.get("url", "").endswith(PROBES):
            self.errors.append(f"{message.text} {message.location}")

    def _on_request(self, request):
        local = (f"http://127.0.0.1:{self.port}/", f"ws://127.0.0.1:{self.port}/", "data:", "blob:")
        if not request.url.startswith(local):
            self.foreign.append(request.url)

    def open(self, path, *, charts=True, reload=False):
        """Show a page and wait until it is drawn, with at least one chart if `charts`. Navigate as Back and Forward do,
        which takes half the processor time of loading a document, as `reload` does."""
        if reload or not self.page.evaluate(STEP, f"/{path}"):
            self.page.goto(f"http://127.0.0.1:{self.port}/{path}")
        self.page.wait_for_function("document.title !== ''")
        self.page.get_by_role("heading", level=1).wait_for()
        if charts:
            self.page.locator(f"{CHART} .plot-container").first.wait_for()
        self.settle()

    @contextmanager
    def task(self, runs, *, most=MOST_CLICKS):
        """Begin a newcomer's task on Overview of the runs in this query; assert that it takes few clicks and drags."""
        self.open(f"overview?{runs}", charts=False)
        self.clicks = 0
        yield
        self.settle()
        assert self.clicks <= most

    def settle(self):
        """Wait until the server has answered, the script has finished and all elements are drawn and at rest."""
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
        """Return the parameters of the address."""
        return parse_qs(urlsplit(self.page.url).query)

    def number(self, label):
        """Return the value of a number field."""
        return int(self.page.get_by_label(label, exact=True).input_value())

    def unsliced(self):
        """Wait until no slice is active."""
        self.page.get_by_role("button", name="Clear slice").wait_for(state="detached")
        self.settle()

    def enter(self, label, text):
        """Type into the field with this label and press Enter."""
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")

    def follow(self, page):
        """Click a page's link in the sidebar and wait until it is drawn."""
        self.page.locator(".st-key-pages").get_by_role("link", name=page).click()
        self.titled(page)

    def titled(self, page):
        """Wait until the page of this name is drawn."""
        self.page.wait_for_function("page => document.title.startsWith(page)", arg=page)
        self.settle()

    def darken(self):
        """Switch to the dark theme and wait until the server has redrawn the page."""
        self.dark = True
        self.page.emulate_media(color_scheme="dark")
        self.page.wait_for_function(IS_DARK)
        self.settle()

    def check(self):
        """Assert that there were no errors and no requests to other hosts, and that every chart has marks."""
        exceptions = self.page.locator("[data-testid=stException]").all_inner_texts()
        assert not exceptions, exceptions
        assert self.errors == []
        assert self.foreign == []
        for chart in self.page.locator(CHART).all():
            marks = chart.locator(".trace, .point, .hm image, .heatmaplayer image").count()
            assert marks > 0 or chart.evaluate(WEBGL_POINTS), "a chart is empty"

    def check_accessibility(self):
        """Assert that axe-core finds no violations of WCAG 2.2 AA or of its best practices on the whole page; in the dark
        theme, only no weak contrast."""
        self.page.set_viewport_size(SIZE | {"height": 5000})  # axe measures contrast only in the viewport
        failures = self.violations("html", colours_only=self.dark)
        self.page.set_viewport_size(SIZE)
        assert failures == [], failures

    def violations(self, within, *, colours_only=False):
        """Return (rule, element, summary) of every violation within a selector; `colours_only`: of contrast rules."""
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
        """Download the page's first table as the kind of file that the button names, for example "CSV"."""
        self.page.get_by_role("button", name="Download table").first.click()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=label, exact=True).click()
        content = io.BytesIO(Path(download.value.path()).read_bytes())
        self.page.keyboard.press("Escape")
        return content

    def read_from_disk(self, file):
        """Open an HTML file, assert that it requests nothing, logs nothing and draws all pictures; return its text."""
        page = self.context.new_page()
        requests = []
        errors = []
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
        """Return the text colour of the first chart."""
        return str(self.page.evaluate(f"document.querySelector('{CHART}')._fullLayout.font.color"))


def row_number(visit, row):
    """Return the caption number in a row of the page's first table."""
    return int(re.findall(r"caption (\d+)", visit.page.locator("tbody tr").nth(row).inner_text())[0])


def picture(port, kind):
    """Return a name that is a Markdown picture on the listener; file names cannot have slashes, so they are escaped."""
    return f"x{kind}![{kind}](http:&#47;&#47;127.0.0.1:{port}&#47;{kind})"


def payloads(port):
    """Return captions that would call the listener if they were interpreted as code or markup."""
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
