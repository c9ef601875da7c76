"""Pages about splits of one, two or five images, and about runs that answer every query first."""

import re
from pathlib import Path
from typing import Any

import pytest

from coder_core.api import open_run
from coder_core.geometry.settings import ClusterSettings
from coder_core.runs.derived.compute import make_clusters
from tests.support.pages import Opened

PAIR = {"run": "demo-baseline", "versus": "demo"}
ALONE = {"run": "demo-baseline", "versus": "—"}
SPLIT = {"over": "Whole split", "measure": "Standard deviation"}
DIRECTIONS = ("Caption → images", "Image → captions")
VIEWS: list[tuple[str, dict[str, Any]]] = [
    ("overview", PAIR | {"curves": ["demo", "concepts"]}),
    ("similarity", PAIR),
    ("joint", PAIR | {"find": "scene"}),
    ("clusters", PAIR | {"k": "2"}),
    ("concepts", {"run": "concepts", "versus": "demo"}),
    ("data", PAIR),
    *(
        ("diversity", PAIR | {"anchors": anchors, "over": over, "measure": "Entropy"})
        for anchors in ("Captions", "Images")
        for over in ("A batch", "A bank")
    ),
    *(
        ("diversity", runs | SPLIT | {"anchors": way})
        for runs in (PAIR, ALONE)
        for way in ("Captions", "Images")
    ),
    *(
        ("retrieval", runs | {"direction": direction, "look": look})
        for direction in DIRECTIONS
        for runs, look in (
            (PAIR, "Rank changes"),
            (PAIR, "Near misses"),
            (PAIR, "Hubs"),
            (ALONE, "Ranks"),
            (ALONE, "Hubs"),
        )
    ),
]
NOUNS = "images|captions|pairs|points|runs|clusters|negatives|concepts|edges"
WRONG = re.compile(rf"\b(nan|inf|Traceback|cannot be shown)\b|(?<![\d,.])1 ({NOUNS})\b", re.IGNORECASE)
STEPS = {
    "similarity": [{"batch-of": source} for source in ("hardest", "split")],
    "joint": [{"modalities": shown} for shown in ("images", "captions", "centred")],
}


@pytest.mark.parametrize(("page", "query"), VIEWS, ids=lambda value: value if isinstance(value, str) else "")
def test_every_view_of_a_small_split(
    small_root: Path, opened: Opened, page: str, query: dict[str, Any]
) -> None:
    if page == "clusters" and open_run(small_root / "demo").count("dev", "text") > 1:
        for name in ("demo-baseline", "demo"):
            make_clusters(small_root / name, "dev", ClusterSettings(2))
    app = opened(small_root, page, **query)
    for step in ({}, *STEPS.get(page, [])):
        app.change(**step)
        text = re.sub(r"<style>.*?</style>", "", f"{app.texts()}{app.headings()}", flags=re.DOTALL)
        assert not WRONG.search(text), WRONG.search(text)
