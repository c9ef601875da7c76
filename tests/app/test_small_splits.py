"""Diversity, Retrieval and Weights on splits of one image, two, five, and where every query is answered first."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.pages import Opened, texts

VIEWS = [
    ("diversity", {"anchors": anchors, "over": over, "measure": measure})
    for anchors in ("Captions", "Images")
    for over, measure in (
        ("Whole split", "Standard deviation"),
        ("A batch", "Entropy"),
        ("A bank", "Entropy"),
    )
] + [
    ("retrieval", {"direction": direction, "look": look})
    for direction in ("Caption → images", "Image → captions")
    for look in ("Rank changes", "Near misses", "Hubs")
]
WRONG = re.compile(r"\bnan\b|\binf\b|\b1 (images|captions|queries)\b|Traceback", re.IGNORECASE)


@pytest.mark.parametrize("versus", ["demo", "—"])
def test_every_view_of_a_small_split_shows_what_there_is(
    small_root: Path, versus: str, opened: Opened
) -> None:
    for page, given in VIEWS:
        alone = versus == "—"
        if alone and ({"A batch", "A bank", "Near misses"} & set(given.values())):
            continue  # as with two runs
        query = given | {"look": "Ranks"} if alone and given.get("look") == "Rank changes" else given
        app = opened(small_root, page, run="demo-baseline", versus=versus, **query)
        said = "\n".join([texts(app), *(item.value for item in app.header)])
        assert "cannot be shown" not in said, (page, query)
        assert not WRONG.search(re.sub(r"<style>.*?</style>", "", said, flags=re.DOTALL)), (page, query)
