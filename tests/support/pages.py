"""Pages without a browser: open one with AppTest, read what it says."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.components.table import NAME

PROJECT = Path(__file__).resolve().parents[2]
Opened = Callable[..., AppTest]
PAGES = (
    "overview",
    "diversity",
    "weights",
    "similarity",
    "joint",
    "clusters",
    "concepts",
    "retrieval",
    "slices",
    "data",
    "reviews",
)


def open_page(monkeypatch: pytest.MonkeyPatch, root: Path, page: str, **query: str | list[str]) -> AppTest:
    """A page over a folder of runs, opened by a link with these query parameters; "" is the first page."""
    monkeypatch.setenv("CODER_CHECKPOINTS", str(root))
    monkeypatch.chdir(PROJECT)
    app = AppTest.from_file(str(PROJECT / "streamlit_app.py"), default_timeout=120)
    app.query_params.update(query)
    if page:
        app.switch_page(f"pages/{page}.py")
    app.run()
    assert not app.exception, [item.value for item in app.exception]
    return app


def parts(app: AppTest) -> list[str]:
    """Every piece of HTML and every metric of a page."""
    metrics = (f"{m.label}: {m.value} {m.delta} {m.proto.delta_description}" for m in app.metric)
    return [*(str(item.proto.body) for item in app.get("html")), *metrics]


def texts(app: AppTest) -> str:
    """Everything a page says in HTML and in metrics."""
    return "\n".join([*parts(app), ""])


def saying(app: AppTest, *values: object) -> list[str]:
    """The parts of a page that hold these names and numbers in this order, whatever is written between them."""
    escaped = (re.escape(html.escape(str(value))) for value in values)
    pattern = ".*?".join(rf"(?<![\w.]){value}(?!\w|[.,]\d)" for value in escaped)
    return [part for part in parts(app) if re.search(pattern, part, re.DOTALL)]


def refusals(app: AppTest) -> list[str]:
    """Notices a page shows in place of results: the fact and the way on."""
    return [part for part in parts(app) if 'class="cl-empty' in part]


def headings(app: AppTest) -> str:
    """The headings of a page, one per line."""
    return "\n".join(item.value for item in app.header)


def shown_tables(app: AppTest) -> list[dict[str, Any]]:
    """Data that the page sends to its tables: label, columns, rows of a page, and more."""
    parts = (part.proto for part in app.get("bidi_component"))
    return [json.loads(part.json) for part in parts if part.component_name == NAME]


def table_rows(app: AppTest, column: str) -> list[list[dict[str, str]]]:
    """The rows of every table with this column, each as column → text."""
    tables = [([c["label"] for c in table["columns"]], table["rows"]) for table in shown_tables(app)]
    return [
        [dict(zip(names, row["cells"], strict=True)) for row in rows]
        for names, rows in tables
        if column in names
    ]


def labels(app: AppTest, start: str) -> list[str]:
    """The labels of buttons that start with these words."""
    return [button.label for button in app.button if button.label.startswith(start)]
