"""A run folder that version 0.1 wrote resumes to its end, evaluates, opens and shows what it holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.evaluate import main as evaluate
from coder_core.runs.files.history import HISTORY, read_history
from coder_core.runs.files.status import read_status
from coder_core.runs.load import load_model
from coder_core.training.launch import continue_run
from tests.support.tiny_runs import newest_state, position, printed, quiet

pytestmark = pytest.mark.usefixtures("own_threads")
OLD_RUNS = Path("tests", "fixtures", "run_of_0_1", "checkpoints")  # their data folder is named from the repository root
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
    status = read_status(run)
    assert status is not None
    assert (status["state"], status["step"]) == ("finished", ENDS[name])
    save = newest_state(run)
    assert save.name == str(ENDS[name])
    assert "optimizer.json" not in save.manifest["files"]  # the new state is written in the present format
    resumed = [
        event for event in read_history(run / HISTORY) if event["event"] == "step" and event["step"] > stopped_at
    ]
    assert [event["step"] for event in resumed] == list(range(stopped_at + 5, ENDS[name] + 1, 5))
    for event in resumed:  # not to the last bit: another processor rounds the keys otherwise
        assert event["losses"] == pytest.approx(before[event["step"]]["losses"], rel=0.02), event["step"]


@pytest.mark.parametrize("name", ENDS)
def test_an_older_run_opens_with_everything_it_holds(name: str) -> None:
    run = open_run(OLD_RUNS / name)
    images, texts = run.embeddings("dev")
    assert run.config["training"]["batch_size"] == 24
    assert len(run.history) == ENDS[name] // 5
    assert run.metrics("dev")["rsum"] > 0
    assert run.similarity([0, 1], [0, 1, 2], split="dev").shape == (2, 3)
    assert len(run.diversity("dev")) == len(texts)
    assert len(run.diversity("dev", modality="image")) == len(images)
    np.testing.assert_allclose(load_model(OLD_RUNS / name).encode_text(run.captions("dev")), texts, atol=1e-3)
    assert len(run.search(run.captions("dev")[0], split="dev", top=3)) == 3
    assert (run.concepts("dev") is None) == (name == "weighted")


@pytest.mark.parametrize("name", ENDS)
def test_an_older_run_evaluates_to_its_own_metrics(name: str, tmp_path: Path) -> None:
    run = shutil.copytree(OLD_RUNS / name, tmp_path / name)
    expected = open_run(run).metrics("dev")
    assert evaluate([str(run), "--split", "dev", "--json", str(tmp_path / "metrics.json")]) == 0
    metrics = json.loads((tmp_path / "metrics.json").read_text())["runs"]
    assert [row["rsum"] for row in metrics.values()] == [pytest.approx(expected["rsum"])]
