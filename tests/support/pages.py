"""Pages without a browser: open one with AppTest, change its widgets, read what it shows."""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path

import numpy as np
from streamlit.testing.v1 import AppTest

from app.components.table import NAME

PROJECT = Path(__file__).resolve().parents[2]
ABOUT_SCORES = ("overview", "diversity", "similarity", "retrieval")
PAGES = (*ABOUT_SCORES, "weights", "joint", "clusters", "concepts", "slices", "data", "reviews")
FIELDS = ("segmented_control", "number_input", "text_input", "text_area")
FIELDS += ("selectbox", "multiselect", "slider", "toggle")


class Page:
    """A page of the app after its last script run, which did not fail; anything else is asked of the AppTest."""

    def __init__(self, app):
        self.app = app
        self.again()

    def __getattr__(self, name):
        return getattr(self.app, name)

    def again(self):
        """Run the script."""
        self.app.run()
        assert not self.app.exception, [item.value for item in self.app.exception]
        return self

    def change(self, **values):
        """Give widgets these values by their keys, with _ for -, in one script run."""
        for key, value in values.items():
            self.widget(key).set_value(value)
        return self.again()

    def widget(self, key):
        """The widget of this key, of whatever kind; _ stands for - as well."""
        fields = (item for kind in FIELDS for item in getattr(self.app, kind) if item.key)
        return {item.key.replace("-", "_"): item for item in fields}[key.replace("-", "_")]

    def value(self, key):
        """The value of a widget."""
        return self.widget(key).value

    def click(self, key):
        """Click a button."""
        self.app.button(key=key).click()
        return self.again()

    def upload(self, name, content, kind="image/png"):
        """Hand a file to the field of pictures."""
        self.app.file_uploader(key="picture").upload(name, content, kind)
        return self.again()

    def keys(self, kind):
        """The keys of the widgets of a kind."""
        return [str(item.key) for item in getattr(self.app, kind)]

    def labels(self, start):
        """The labels of buttons that start with these words."""
        return [button.label for button in self.app.button if button.label.startswith(start)]

    def parts(self):
        """Every piece of HTML and every metric."""
        metrics = (f"{m.label}: {m.value} {m.delta} {m.proto.delta_description}" for m in self.app.metric)
        return [*(str(item.proto.body) for item in self.app.get("html")), *metrics]

    def texts(self):
        """Everything said in HTML and in metrics."""
        return "\n".join([*self.parts(), ""])

    def saying(self, *values):
        """The parts that hold these names and numbers in this order, whatever is written between them."""
        escaped = (re.escape(html.escape(str(value))) for value in values)
        pattern = ".*?".join(rf"(?<![\w.]){value}(?!\w|[.,]\d)" for value in escaped)
        return [part for part in self.parts() if re.search(pattern, part, re.DOTALL)]

    def refusals(self):
        """Notices in place of results: the fact and the way on."""
        return [part for part in self.parts() if 'class="cl-empty' in part]

    def cards(self):
        """The grids and lists of cards, as HTML."""
        return [part for part in self.parts() if 'class="cl-card' in part]

    def headings(self):
        """The headings, one per line."""
        return "\n".join(item.value for item in self.app.header)

    def figures(self):
        """The figures, as Plotly reads them."""
        return [json.loads(chart.proto.spec) for chart in self.app.get("plotly_chart")]

    def tables(self):
        """Data that the page sends to its tables: label, columns, rows of a page, and more."""
        parts = (part.proto for part in self.app.get("bidi_component"))
        return [json.loads(part.json) for part in parts if part.component_name == NAME]

    def rows(self, column):
        """The rows of every table with this column, each as column → text."""
        tables = [([c["label"] for c in table["columns"]], table["rows"]) for table in self.tables()]
        found = [(names, rows) for names, rows in tables if column in names]
        return [[dict(zip(names, row["cells"], strict=True)) for row in rows] for names, rows in found]


def open_page(monkeypatch, root, page, **query):
    """A page over a folder of runs, opened by a link with these parameters, with _ for - in a key without -; "" is the
    first page."""
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    monkeypatch.chdir(PROJECT)
    app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=120)
    app.query_params.update({k if "-" in k else k.replace("_", "-"): value for k, value in query.items()})
    if page:
        app.switch_page(f"pages/{page}.py")
    return Page(app)


def numbers(values):
    """Values of a trace, which Plotly packs."""
    return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
