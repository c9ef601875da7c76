"""kill -9 at 20 moments, 10 of them inside a save; signals; data cut off: nothing is lost, and going on is exact."""

import json
from pathlib import Path
from typing import Any

import pytest

from coder_core.runs.history import HISTORY
from tests.support.driving import told_by
from tests.support.fork_driver import EPOCHS, RANDOM_KILLS, SAVE_KILLS, SIGNALLED_PLACES
from tests.support.tiny_runs import assert_same_run, position, write_tiny_data

STEPS = 5 * EPOCHS


@pytest.fixture(scope="module")
def driven(memory_folder: Path) -> dict[str, Any]:
    """All of it in one process, whose forks are children that have imported PyTorch."""
    return told_by(
        "fork_driver", write_tiny_data(memory_folder / "data"), memory_folder / "runs", timeout=600
    )


@pytest.fixture(scope="module")
def whole(memory_folder: Path) -> Path:
    """The run that nothing happened to."""
    return memory_folder / "runs" / "kills" / "whole"


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_no_kill_loses_a_run(driven: dict[str, Any], memory_folder: Path, whole: Path) -> None:
    """Each of them goes on from its newest save, and ends as a run that was never stopped."""
    folder, entries = memory_folder / "runs" / "kills", driven["kills"]["kills"]
    assert (driven["kills"]["last"], driven["kills"]["whole"]) == (0, 0)
    assert len(entries) == RANDOM_KILLS + SAVE_KILLS
    assert {entry["code"] for entry in entries} == {-9}
    in_save = [entry for entry in entries if entry["kind"] == "save"]
    assert len(in_save) == SAVE_KILLS
    assert (
        sum(entry["unfinished"] > 0 for entry in in_save) >= SAVE_KILLS // 2
    )  # a half-written folder was left
    for entry in entries:
        assert entry["damaged"] == 0
        assert entry["after"] >= entry["before"]  # what was saved stays saved
    assert sum(entry["after"] > entry["before"] for entry in entries) >= 3
    for number in range(driven["kills"]["runs"]):
        run = folder / f"run-{number}"
        assert_same_run(run, whole)
        assert position(run)["step"] == STEPS
        assert list(run.glob("state/.tmp-*")) + list(run.glob("best/.tmp-*")) == []
        saved = {entry["after"] for entry in entries if entry["run"] == number}
        lines = [json.loads(line) for line in (run / HISTORY).read_text().splitlines()]
        resumed = [line["step"] for line in lines if line["event"] == "resume"]
        assert resumed == sorted(resumed)
        assert set(resumed) <= saved | {0}  # it went on exactly where the newest save stood


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_signals_save_and_leave(driven: dict[str, Any], memory_folder: Path, whole: Path) -> None:
    entries = {entry["name"]: entry for entry in driven["signals"]}
    for name in ("SIGTERM", "SIGINT"):
        assert entries[name]["code"] == 3
        assert entries[name]["seconds"] < 10
        assert entries[name]["state"] == "stopped"
        assert entries[name]["saved"] == entries[name]["step"] >= 20
    for nth in SIGNALLED_PLACES:
        once, twice = entries[f"save-{nth}"], entries[f"twice-{nth}"]
        assert (once["code"], once["state"]) == (3, "stopped")
        assert once["saved"] == once["step"]
        assert twice["code"] == 128 + 15  # the second one leaves at once
    for name, entry in entries.items():
        assert entry["damaged"] == 0
        assert entry["continued"] == 0
        assert_same_run(memory_folder / "runs" / "signals" / name, whole)


@pytest.mark.slow
@pytest.mark.timeout(620)
def test_features_that_shrink_are_named_and_the_state_is_kept(
    driven: dict[str, Any], memory_folder: Path, whole: Path
) -> None:
    """Touching a mapped page that is gone would end the process."""
    for entry in driven["shrinks"]:
        run, status = memory_folder / "runs" / "shrinks" / entry["name"], entry["status"]
        assert (entry["code"], status["state"]) == (1, "failed")
        file = memory_folder / "data" / f"{entry['name']}_ims.npy"
        assert f"{file}: became shorter while it was read: it has 0 bytes; expected" in status["message"]
        assert f"Restore the file, then python -m coder_core.train --resume {run}" in status["message"]
        assert entry["saved"] == [status["step"], 0]
        assert 0 < status["step"] < STEPS
        assert entry["continued"] == 0
        assert_same_run(run, whole)
