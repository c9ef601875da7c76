"""Pages about splits of one, two or five images, and about runs that answer every query first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coder_core.api import open_run
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.pages import Opened, texts

PAGES = {
    "overview": {"curves": ["demo", "concepts"]},
    "similarity": {},
    "joint": {"find": "scene"},
    "clusters": {"k": "2"},
    "concepts": {"run": "concepts"},
    "data": {},
}


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens(small_root: Path, opened: Opened, page: str) -> None:
    if page == "clusters" and open_run(small_root / "demo").count("dev", "text") > 1:
        for name in ("demo-baseline", "demo"):
            make_clusters(small_root / name, "dev", ClusterSettings(2))
    app = opened(small_root, page, **{"run": "demo-baseline", "versus": "demo"} | PAGES[page])
    said = texts(app)
    assert "cannot be shown" not in said
    assert "nan" not in said
    assert not re.search(
        r"(?<![\d,.])1 (images|captions|pairs|points|runs|clusters|negatives|concepts|edges)\b", said
    )
    if page == "similarity":
        for source in ("hardest", "split"):
            app.segmented_control(key="batch-of").set_value(source).run()
            assert not app.exception
    if page == "joint":
        for modalities in ("images", "captions", "centred"):
            app.segmented_control(key="modalities").set_value(modalities).run()
            assert not app.exception
            assert "cannot be shown" not in texts(app)
