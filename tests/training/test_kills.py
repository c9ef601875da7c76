"""SIGKILL, a third of the time during a save; signals; truncated data: nothing is lost, and resuming is exact."""

import json

import pytest

from coder_core.runs.record import HISTORY
from tests.support.fork_driver import EARLY, EPOCHS, RANDOM_KILLS, REFUSED, SAVE_KILLS
from tests.support.processes import reported_by
from tests.support.tiny_runs import assert_same_run, position, write_tiny_data

STEPS = 5 * EPOCHS
pytestmark = [pytest.mark.slow, pytest.mark.timeout(620)]


@pytest.fixture(scope="module")
def driven(memory_folder):
    """Reports of all drives, run by one process whose forks need not import PyTorch."""
    data = write_tiny_data(memory_folder / "data")
    return reported_by("fork_driver", data, memory_folder / "runs", output=memory_folder / "printed")


@pytest.fixture(scope="module")
def whole(memory_folder):
    """The uninterrupted run."""
    return memory_folder / "runs" / "kills" / "whole"


def test_no_kill_loses_a_run(driven, memory_folder, whole):
    """Every run resumes from its newest save and ends as an uninterrupted one does."""
    folder = memory_folder / "runs" / "kills"
    entries = driven["kills"]["kills"]
    assert (driven["kills"]["last"], driven["kills"]["whole"]) == (0, 0)
    assert len(entries) == RANDOM_KILLS + SAVE_KILLS
    assert {entry["code"] for entry in entries} == {-9}
    in_save = [entry for entry in entries if entry["kind"] == "save"]
    assert len(in_save) == SAVE_KILLS
    assert sum(entry["unfinished"] > 0 for entry in in_save) >= SAVE_KILLS // 2  # a half-written folder
    assert {entry["damaged"] for entry in entries} == {0}
    assert all(entry["after"] >= entry["before"] for entry in entries)  # what was saved stays saved
    assert sum(entry["after"] > entry["before"] for entry in entries) >= 2
    for number in range(driven["kills"]["runs"]):
        run = folder / f"run-{number}"
        assert_same_run(run, whole)
        assert position(run)["step"] == STEPS
        assert list(run.glob("state/.tmp-*")) + list(run.glob("best/.tmp-*")) == []
        saved = {entry["after"] for entry in entries if entry["run"] == number}
        lines = [json.loads(line) for line in (run / HISTORY).read_text().splitlines()]
        resumed = [line["step"] for line in lines if line["event"] == "resume"]
        assert resumed == sorted(resumed)
        assert set(resumed) <= saved | {0}  # it resumed exactly from the newest save


def test_signals_save_and_exit(driven, memory_folder, whole):
    entries = {entry["name"]: entry for entry in driven["signals"]}
    for name in ("SIGTERM", "SIGINT", "once"):
        assert (entries[name]["code"], entries[name]["state"]) == (3, "stopped")
        assert entries[name]["saved"] == entries[name]["step"]
        assert entries[name]["seconds"] < 10
    assert min(entries[name]["saved"] for name in ("SIGTERM", "SIGINT")) >= EARLY
    assert entries["twice"]["code"] == 128 + 15  # the second signal ends it at once
    for name, entry in entries.items():
        assert (entry["damaged"], entry["continued"]) == (0, 0)
        assert_same_run(memory_folder / "runs" / "signals" / name, whole)


def test_feature_files_that_shrink_lose_nothing_that_was_saved(driven, memory_folder, whole):
    """The file's size is checked before every batch: reading a mapped page that it has lost would kill the process."""
    for entry in driven["shrinks"]:
        run = memory_folder / "runs" / "shrinks" / entry["name"]
        assert (entry["code"], entry["status"]["state"]) == (REFUSED, "failed")
        assert f"{entry['name']}_ims.npy: was shortened to 0 bytes" in entry["status"]["message"]
        assert f"--resume {run}" in entry["status"]["message"]
        step, damaged = entry["saved"]
        assert 0 < step < STEPS
        assert (damaged, entry["continued"]) == (0, 0)
        assert_same_run(run, whole)
