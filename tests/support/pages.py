"""Pages without a browser: open one with AppTest, change its widgets, read what it shows."""

from __future__ import annotations

import base64
import html
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.pages_manager import PagesManager
from streamlit.testing.v1 import AppTest, app_test, local_script_runner

from app.components.space_map.columns import published
from app.components.space_map.component import NAME as MAP
from app.components.table import NAME
from app.frame import PAGES as ENTRIES

PROJECT = Path(__file__).resolve().parents[2]
# every AppTest searches the installed packages for components, in 0.1 s
SEARCHED_ONCE = cache(manifest_scanner.scan_component_manifests)
FINISHED = local_script_runner.require_widgets_deltas
PAGES = tuple(name for name, entry in ENTRIES.items() if "alone" not in entry)  # about the chosen runs
IN_SIDEBAR = tuple(
    name for name, entry in ENTRIES.items() if not {"tab_of", "needs"} & {*entry} and name != "start"
)
ABOUT_SCORES = ("overview", "diversity", "similarity", "retrieval")
FIELDS = ("segmented_control", "number_input", "text_input", "text_area")
FIELDS += ("selectbox", "multiselect", "slider", "toggle")


class WarmPages(PagesManager):
    """Pages of a server that has drawn one before. AppTest forgets this, so that a script run would begin twice; see
    `frame.pages.require`, which browser tests cover."""


class Page:
    """Page of the app after a script run without exceptions; other attributes are those of the AppTest."""

    def __init__(self, app):
        self.app = app
        self.again()

    def __getattr__(self, name):
        return getattr(self.app, name)

    def again(self):
        """Run the script again and assert that it raised nothing."""
        self.app.run()
        assert not self.app.exception, [item.value for item in self.app.exception]
        return self

    def change(self, **values):
        """Set the values of widgets, by key with _ for -, and run the script once."""
        for key, value in values.items():
            self.widget(key).set_value(value)
        return self.again()

    def widget(self, key):
        """Return the widget of any kind with this key, in which _ may replace -."""
        fields = (item for kind in FIELDS for item in getattr(self.app, kind) if item.key)
        return {item.key.replace("-", "_"): item for item in fields}[key.replace("-", "_")]

    def value(self, key):
        """Return the value of a widget."""
        return self.widget(key).value

    def click(self, key):
        """Click a button and run the script."""
        self.app.button(key=key).click()
        return self.again()

    def upload(self, name, content, kind="image/png"):
        """Upload a file to the picture field and run the script."""
        self.app.file_uploader(key="picture").upload(name, content, kind)
        return self.again()

    def keys(self, kind):
        """Return the keys of all widgets of a kind."""
        return [str(item.key) for item in getattr(self.app, kind)]

    def labels(self, start):
        """Return the button labels that start with these words."""
        return [button.label for button in self.app.button if button.label.startswith(start)]

    def parts(self):
        """Return every piece of HTML, and every metric as text."""
        metrics = (f"{m.label}: {m.value} {m.delta} {m.proto.delta_description}" for m in self.app.metric)
        return [*(str(item.proto.body) for item in self.app.get("html")), *metrics]

    def texts(self):
        """Return all HTML and metrics as one string."""
        return "\n".join([*self.parts(), ""])

    def saying(self, *values):
        """Return the parts that contain these names and numbers in this order, with any text between them."""
        escaped = (re.escape(html.escape(str(value))) for value in values)
        pattern = ".*?".join(rf"(?<![\w.]){value}(?!\w|[.,]\d)" for value in escaped)
        return [part for part in self.parts() if re.search(pattern, part, re.DOTALL)]

    def answer(self):
        """Return the page's only title, without the marks that keep it from being Markdown."""
        [title] = self.app.title
        return title.value.replace("\\", "")

    def refusals(self):
        """Return the notices shown in place of results."""
        return [part for part in self.parts() if 'class="cl-empty' in part]

    def cards(self):
        """Return the grids and lists of cards as HTML."""
        return [part for part in self.parts() if 'class="cl-card' in part]

    def headings(self):
        """Return the headings, one per line."""
        return "\n".join(item.value for item in self.app.header)

    def figures(self):
        """Return the figures as Plotly's JSON documents."""
        return [json.loads(chart.proto.spec) for chart in self.app.get("plotly_chart")]

    def tables(self):
        """Return the data of the page's tables: label, columns, rows of the current table page, and more."""
        parts = (part.proto for part in self.app.get("bidi_component"))
        return [json.loads(part.json) for part in parts if part.component_name == NAME]

    def maps(self):
        """Return the data of the page's maps of the joint space; `column` reads the columns that they name."""
        parts = (part.proto for part in self.app.get("bidi_component"))
        return [json.loads(part.json) for part in parts if part.component_name == MAP]

    def rows(self, column):
        """Return the rows, column → text, of every table that has this column."""
        tables = [([c["label"] for c in table["columns"]], table["rows"]) for table in self.tables()]
        found = [(names, rows) for names, rows in tables if column in names]
        return [[dict(zip(names, row["cells"], strict=True)) for row in rows] for names, rows in found]


def open_page(monkeypatch, root, page, **query):
    """Open a page ("": the first) on a folder of runs with these parameters; _ in a key without - becomes -."""
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    monkeypatch.setattr(manifest_scanner, "scan_component_manifests", SEARCHED_ONCE)
    monkeypatch.setattr(local_script_runner, "require_widgets_deltas", _finished)
    monkeypatch.setattr(app_test, "PagesManager", WarmPages)
    monkeypatch.chdir(PROJECT)
    app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=120)
    app.query_params.update({k if "-" in k else k.replace("_", "-"): value for k, value in query.items()})
    if page:
        app.switch_page(f"pages/{page}.py")
    return Page(app)


def _finished(runner, timeout):
    """Wait for the end of a script run as AppTest does, but asleep: it would interrupt the script a thousand times a
    second."""
    runner._script_thread.join(timeout)
    FINISHED(runner, timeout)


def numbers(values):
    """Unpack the values of a Plotly trace."""
    return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])


def column(key, kind):
    """Return a column that a map names, as an array of this kind; None for no column."""
    return None if key is None else np.frombuffer(published(key), kind)
