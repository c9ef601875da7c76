"""--max-steps ends a run within an epoch: evaluated, saved and finished, and the same after an interruption."""

import signal

import pytest

from coder_core.api import open_run
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import read_status
from coder_core.training.launch import continue_run, start_run
from tests.support import tiny_runs as tiny
from tests.support.interrupted import stop_during

STEPS = 7  # of 15; an epoch has five
BANK = {"bank_size": 16, "prototypes": 4}


@pytest.fixture(scope="module")
def cut_short(data, tmp_path_factory):
    config = tiny.tiny_config(data, max_steps=STEPS, schedule="cosine", warmup_steps=0, **BANK)
    return start_run(config, tmp_path_factory.mktemp("cut"), tiny.quiet())


def test_the_last_step_is_evaluated_and_ends_schedule_and_run(cut_short):
    status = read_status(cut_short)
    assert (status["state"], status["step"], status["steps"]) == ("finished", STEPS, STEPS)
    run = open_run(cut_short)
    assert run.history["epoch"].tolist() == [1, 2]
    assert run.history["step"].tolist() == [5, STEPS]
    assert run.splits == ("dev",)
    assert {*SaveStore(cut_short / "best", keep=1).names()} <= {"5", str(STEPS)}
    assert run.steps["step"].tolist() == [5, STEPS]
    assert run.steps["learning_rate"].iloc[-1] < 0.1 * tiny.tiny_config("x").training.learning_rate


@pytest.mark.parametrize("step", [3, 6])
def test_an_interrupted_run_ends_as_if_it_had_not_been(cut_short, tmp_path, step):
    folder = stop_during(cut_short, tmp_path / "tiny", step, signal.SIGTERM)
    continue_run(folder, None, tiny.quiet())
    tiny.assert_same_run(folder, cut_short)
    assert read_status(folder)["state"] == "finished"


def test_more_steps_than_the_epochs_have_change_nothing(data, tmp_path):
    folder = start_run(tiny.tiny_config(data, epochs=1, max_steps=100), tmp_path, tiny.quiet())
    assert read_status(folder)["steps"] == 5
