"""The Concepts page in a real browser: drawn in both themes, a click chooses a concept, deaf to hostile captions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.concept_runs import write_concept_run
from tests.support.visits import PATIENCE, Visit, given_runs, payloads

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = given_runs()
    if given is not None:
        return given
    root = tmp_path_factory.mktemp("concepts") / "runs"
    write_concept_run(root, "coder")
    return root


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_draws(serve: Callable[[Path], int], browser: Any, runs: Path, theme: str) -> None:
    Visit(browser, serve(runs), theme).look("concepts", f"concepts-{theme}")


def test_a_click_on_a_mark_chooses_the_concept(serve: Callable[[Path], int], browser: Any, tmp_path: Path) -> None:
    write_concept_run(tmp_path / "runs", "coder")
    visit = Visit(browser, serve(tmp_path / "runs"), "light")
    visit.open("concepts?concept=dog")
    spot = visit.page.evaluate(
        """() => {
          const chart = document.querySelector('.st-key-concept-graph-0 .js-plotly-plot'), full = chart._fullLayout
          for (const t of chart._fullData) if (t.mode === 'markers+text') {
            const i = Array.from(t.text).indexOf('ball'), box = chart.getBoundingClientRect()
            if (i >= 0) return [box.x + full.xaxis._offset + full.xaxis.d2p(t.x[i]),
                                box.y + full.yaxis._offset + full.yaxis.d2p(t.y[i])]
          }
        }"""
    )
    visit.page.mouse.click(*spot)
    visit.page.wait_for_url("**concept=ball*", timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_text("Top readers of “ball”").count() == 1
    visit.check()
    visit.context.close()


def test_hostile_captions_stay_text(
    serve: Callable[[Path], int], browser: Any, tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    port, seen = listener
    evil = payloads(port)
    root = tmp_path / "runs"
    write_concept_run(root, "x", images=8, captions=[evil[i % len(evil)] for i in range(40)])
    visit = Visit(browser, serve(root), "light")
    visit.read_all("concepts")
    assert seen == []
    visit.context.close()
