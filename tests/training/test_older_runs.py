"""A run folder that version 0.1 wrote resumes from its state, with the losses it had."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.status import read_status
from coder_core.training.launch import continue_run
from tests.support.tiny_runs import newest_state, position, printed, quiet

pytestmark = pytest.mark.usefixtures("own_threads")
OLD_RUNS = Path(
    "tests", "fixtures", "run_of_0_1", "checkpoints"
)  # their data folder is named from the repository root
ENDS = {"whole": 15, "weighted": 10}


@pytest.fixture(autouse=True)
def _from_the_repository_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


@pytest.mark.parametrize("name", ENDS)
def test_an_older_run_resumes_to_the_end_it_had(name: str, tmp_path: Path) -> None:
    """The fixture kept the state of an earlier epoch beside the history of the whole run: the numbers come again."""
    run = shutil.copytree(OLD_RUNS / name, tmp_path / name)
    before = {event["step"]: event for event in read_history(run / HISTORY) if event["event"] == "step"}
    stopped_at = position(run)["step"]
    assert stopped_at < ENDS[name]
    console = quiet()
    continue_run(run, None, console)
    assert "damaged" not in printed(console)
    assert "noted a sample of 64 images only; these are the same" in printed(console)
    status = read_status(run)
    assert status is not None
    assert (status["state"], status["step"]) == ("finished", ENDS[name])
    save = newest_state(run)
    assert save.name == str(ENDS[name])
    assert "optimizer.json" not in save.manifest["files"]  # the new state is written in the present format
    resumed = [
        event
        for event in read_history(run / HISTORY)
        if event["event"] == "step" and event["step"] > stopped_at
    ]
    assert [event["step"] for event in resumed] == list(range(stopped_at + 5, ENDS[name] + 1, 5))
    for event in resumed:  # not to the last bit: another processor rounds the keys otherwise
        assert event["losses"] == pytest.approx(before[event["step"]]["losses"], rel=0.02), event["step"]
