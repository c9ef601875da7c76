"""TensorBoard events say what the history says, every step once."""

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from coder_core.runs.history import read_frame
from coder_core.training.launch import start_run
from coder_core.training.reporting import TENSORBOARD
from tests.support.interrupted import assert_resumes
from tests.support.tiny_runs import quiet, tiny_config


def scalars(run):
    events = EventAccumulator(str(run / TENSORBOARD), size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(point.step, point.value) for point in events.Scalars(tag)] for tag in tags}


def test_every_step_stands_once_also_after_resuming(data, tmp_path):
    whole = start_run(tiny_config(data, "whole", epochs=2, tensorboard=True), tmp_path / "runs", quiet())
    resumed = assert_resumes(whole, tmp_path / "runs" / "resumed", 8)
    for run in (whole, resumed):
        actual = scalars(run)
        for event, column in (("step", "losses.dcl"), ("step", "learning_rate"), ("epoch", "metrics.rsum")):
            table = read_frame(run, event)
            points = actual[f"{event}/{column.replace('.', '/')}"]
            assert [step for step, _ in points] == table["step"].tolist()
            assert [value for _, value in points] == pytest.approx(table[column].tolist(), rel=1e-6)
    plain = start_run(tiny_config(data, "plain", epochs=1), tmp_path / "runs", quiet())
    assert not (plain / TENSORBOARD).exists()
