"""An address is completed before the page loads."""

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from app.frame.server import complete
from coder_core.api import RunSummary

RUNS = [RunSummary(name, Path(name), "finished", splits=("dev", "test")) for name in ("a", "x", "x-baseline")]
RUNS.append(RunSummary("other", Path("other"), "finished", splits=("test",)))
PAIR = [("run", "x-baseline"), ("versus", "x"), ("split", "dev")]


@pytest.mark.parametrize(
    ("path", "query", "page", "values"),
    [
        ("/", "", "/overview", PAIR),
        ("/", "run=a&versus=x&split=test", "/overview", [("run", "a"), ("versus", "x"), ("split", "test")]),
        ("/retrieval", "at=5&at=10", "/retrieval", [*PAIR, ("at", "5"), ("at", "10")]),
        ("/joint", "run=a", "/joint", [("versus", "—"), ("split", "dev"), ("run", "a")]),
        ("/joint", "run=&split=test", "/joint", [*PAIR[:2], ("split", "test")]),
        (
            "/overview",
            "run=a&versus=other",
            "/overview",
            [("split", "test"), ("run", "a"), ("versus", "other")],
        ),
        ("/train", "run=gone", "/train", [("versus", "—"), ("run", "gone")]),
    ],
)
def test_what_is_missing_is_added(path: str, query: str, page: str, values: list[tuple[str, str]]) -> None:
    address = complete(path, query, RUNS)
    assert address is not None
    assert urlsplit(address).path == page
    assert parse_qsl(urlsplit(address).query) == values
    assert path == "/" or complete(page, urlsplit(address).query, RUNS) is None


@pytest.mark.parametrize("path", ["/static/js/index.js", "/_stcore/health", "/start", "/none", "//overview"])
def test_other_addresses_stay(path: str) -> None:
    assert complete(path, "", RUNS) is None


def test_without_a_run_the_start_page_comes_first() -> None:
    assert complete("/", "", []) == "/start"
    assert complete("/overview", "", []) is None
