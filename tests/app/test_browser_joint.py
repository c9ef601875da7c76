"""Joint space and Clusters in a real browser: drawn, driven from lasso to files, and deaf to hostile captions."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from coder_core.geometry.kmeans import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.run_folders import write_run
from tests.support.visits import PATIENCE, Visit, payloads

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
CORNERS = 32


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lasso") / "runs"
    write_run(root, "demo-baseline", loss="btr-hardest", noise=3.0, images=60)
    write_run(root, "demo", noise=2.0, images=60)
    for name in ("demo-baseline", "demo"):
        make_clusters(root / name, "dev", ClusterSettings())
    return root


def lasso(visit: Visit, pane: int, share: float) -> None:
    """Draw a circle around the middle of a map, over `share` of its height."""
    box = visit.page.locator(".st-key-joint-map .nsewdrag").nth(pane).bounding_box()
    x, y, radius = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, box["height"] * share / 2
    mouse = visit.page.mouse
    mouse.move(x + radius, y)
    mouse.down()
    for step in range(1, CORNERS + 1):
        angle = 2 * math.pi * step / CORNERS
        mouse.move(x + radius * math.cos(angle), y + radius * math.sin(angle))
    mouse.up()
    visit.page.wait_for_url("**area=*", timeout=PATIENCE)
    visit.settle()


def saved(visit: Visit, label: str) -> bytes:
    with visit.page.expect_download(timeout=PATIENCE) as waiting:
        visit.page.get_by_role("button", name=label, exact=True).click()
    return Path(waiting.value.path()).read_bytes()


def said(visit: Visit) -> int:
    """ "47 of 360 selected" → 47."""
    text = visit.page.get_by_text(" selected: ").first.inner_text()
    return int(text.split(" of ")[0].split()[-1].replace(",", ""))


@pytest.mark.parametrize("pane", [0, 1])
def test_a_lasso_on_either_map_fills_the_table_and_the_files(
    serve: Callable[[Path], int], browser: Any, runs: Path, pane: int
) -> None:
    visit = Visit(browser, serve(runs), "light")
    visit.page.set_viewport_size({"width": 1280, "height": 1800})
    visit.open("joint?map=PCA")
    lasso(visit, pane, 0.5)
    count = said(visit)
    assert 10 < count < 360
    assert f"area={'ab'[pane]}" in visit.page.url
    highlighted = visit.page.evaluate(
        """() => {
          const seen = {x: new Set(), x2: new Set()}
          for (const t of document.querySelector('.st-key-joint-map .js-plotly-plot')._fullData)
            if (t.mode === 'markers' && t.customdata && t.selectedpoints)
              for (const i of Array.from(t.selectedpoints)) seen[t.xaxis].add(Number(Array.from(t.customdata)[i]))
          return [[...seen.x].sort(), [...seen.x2].sort()]
        }"""
    )
    assert highlighted[0] == highlighted[1]  # the same samples light up on both maps
    assert len(highlighted[0]) == count
    table = pd.read_csv(io.BytesIO(saved(visit, "CSV")))
    assert len(table) == count
    ids = [n if kind == "image" else n + 60 for kind, n in zip(table["modality"], table["number"], strict=True)]
    assert sorted(ids) == sorted(highlighted[0])
    pd.testing.assert_frame_equal(
        pd.read_parquet(io.BytesIO(saved(visit, "Parquet"))), table, check_dtype=False, check_exact=False
    )
    copied = visit.page.url
    visit.page.goto(copied)
    visit.page.get_by_text(" selected: ").first.wait_for(timeout=PATIENCE)
    visit.settle()
    assert said(visit) == count  # a colleague sees the same
    visit.page.get_by_role("button", name="Clear selection").click()
    visit.page.wait_for_function("!location.search.includes('area=')", timeout=PATIENCE)
    visit.settle()
    assert visit.page.get_by_text(" selected: ").count() == 0
    visit.check()
    visit.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("path", ["joint?colour=rank&area=a:-9,-9,9,-9,9,0,-9,0&focus=caption-7", "clusters?cluster=3"])
def test_the_page_draws(serve: Callable[[Path], int], browser: Any, runs: Path, path: str, theme: str) -> None:
    Visit(browser, serve(runs), theme).look(path, f"{path.split('?')[0]}-{theme}")


def test_hostile_captions_stay_text(
    serve: Callable[[Path], int], browser: Any, tmp_path: Path, listener: tuple[int, list[str]]
) -> None:
    port, seen = listener
    evil = payloads(port)
    root = tmp_path / "runs"
    for name, noise in (("x-baseline", 3.0), ("x", 2.0)):
        run = write_run(root, name, noise=noise, images=8, captions=[evil[i % len(evil)] for i in range(40)])
        make_clusters(run, "dev", ClusterSettings(4))
    visit = Visit(browser, serve(root), "light")
    visit.read_all("joint?map=PCA&area=a:-9,-9,9,-9,9,9,-9,9&focus=caption-2", "clusters?k=4")
    assert seen == []
    visit.context.close()
