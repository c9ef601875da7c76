"""A crash before every single line of a save, and kill −9 inside a save: no save is ever lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from coder_core.files import sealed
from coder_core.runs import saves
from coder_core.runs.saves import SaveStore
from tests.runs.conftest import save_step

ROOT = Path(__file__).resolve().parents[2]


def dying(kind: str, folder: Path, *numbers: int) -> list[dict[str, Any]]:
    """The reports of `tests.support.killing`."""
    command = [sys.executable, "-m", "tests.support.killing", kind, str(folder), *map(str, numbers)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def crashes(memory_folder: Path) -> list[dict[str, Any]]:
    return dying("crash", memory_folder, 30, 20)


@pytest.mark.slow
@pytest.mark.parametrize("step", [30, 20])
def test_a_crash_before_any_line_of_a_save_loses_nothing(crashes: list[dict[str, Any]], step: int) -> None:
    """Step 30 is a new save, step 20 replaces one."""
    reports = [report for report in crashes if report["step"] == step]
    assert len(reports) > 100
    for report in reports:
        assert report["newest"] in ("20", str(step)), report
        assert report["skipped"] == 0
        assert report["rest"] == [], "the next writer tidies up"
        assert report["names"] == [report["newest"], "40"]
    assert reports[0]["newest"] == "20"
    assert reports[-1]["newest"] == str(step)
    assert not reports[-1]["died"]


def test_kill_inside_a_save_loses_at_most_that_save(memory_folder: Path) -> None:
    reports = dying("kill", memory_folder, 20)
    assert sum(report["inside"] for report in reports) == 20
    for report in reports:
        assert report["last"] <= report["newest"] <= max([report["last"], *report["began"]])


def test_an_interrupt_at_any_line_of_a_save_loses_nothing(tmp_path: Path) -> None:
    """Ctrl-C raises wherever Python stands; the earlier saves stay and nothing half-written is seen."""
    for number in range(0, 1000, 3):
        store = SaveStore(tmp_path / str(number), keep=2)
        save_step(store, 20)
        interrupted = interrupt_at_line(number, store)
        newest = store.newest()
        assert newest is not None
        assert newest.skipped == []
        assert newest.name in ("20", "30")
        if not interrupted:
            assert number > 100
            return
    pytest.fail("the save never ended")


def interrupt_at_line(number: int, store: SaveStore) -> bool:
    left = number
    code = tuple(str(Path(module.__file__).parent) for module in (saves, sealed))

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(code):
            return None
        left -= event == "line"
        if left == -1:
            left = -2
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        save_step(store, 30)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False
