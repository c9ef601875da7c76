"""Origin of a run's numbers, by its folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coder_core.api import ORIGINS, RunSummary, facts, numbers_from

RUN = RunSummary("run", Path("run"), "finished")


@pytest.mark.parametrize(
    ("state", "documents", "towers", "expected"),
    [
        ("finished", (), {}, "features"),
        ("running", (), {"image_tower": "", "text_tower": ""}, "features"),
        ("finished", ("regions",), {}, "tower features"),
        ("finished", ("tuned",), {"image_tower": "clip", "image_tuning": "frozen"}, "frozen towers"),
        ("finished", ("tuned",), {"image_tower": "clip", "image_tuning": "lora"}, "tuned towers"),
        ("running", (), {"text_tower": "clip", "text_tuning": "full"}, "tuned towers"),
        ("finished", ("regions",), {"text_tower": "clip", "text_tuning": "full"}, "tuned towers"),
        ("imported", ("imported", "towers"), {}, "zero-shot"),
        ("imported", ("imported",), {}, "imported"),
    ],
)
def test_the_folder_of_a_run_tells_where_its_numbers_come_from(
    state: str, documents: tuple[str, ...], towers: dict[str, str], expected: str
) -> None:
    run = replace(RUN, state=state, documents=frozenset(documents), config={"towers": towers})
    assert numbers_from(run) == facts(run)["from"] == expected
    assert expected in ORIGINS
    assert numbers_from(replace(run, fault="damaged")) == ""
