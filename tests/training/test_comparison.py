"""While a run trains, its evaluations are compared with one another and with the model it started from."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from coder_core.api import open_run
from coder_core.api.report import gather
from coder_core.embed import main as embed
from coder_core.runs.analysis.read import open_analysis
from coder_core.runs.record import HISTORY, read_history
from coder_core.training.launch import start_run
from tests.support.tiny_runs import changed, events, printed, quiet, tiny_config, write_tiny_data
from tests.support.tiny_towers import tower_config

pytestmark = pytest.mark.usefixtures("one_thread")
OFFLINE = {"boosting": "rm", "boosting_scenario": "offline", "boosting_weight": 0.0}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory):
    """A run that a rate of 10 spoils, the finished run that it started from, and what training printed. Dev holds the
    train images, so that the finished run answers most of it."""
    folder = tmp_path_factory.mktemp("data")
    write_tiny_data(folder)
    for name in ("ims.npy", "caps.txt"):
        shutil.copyfile(folder / f"train_{name}", folder / f"dev_{name}")
    values = {"loss": "btr-sum", "weight_instance": 1.0, "bank_size": 0, "schedule": "constant"}
    config = tiny_config(folder, "good", dropout=False, **values, epochs=6, learning_rate=0.03)
    root = tmp_path_factory.mktemp("runs")
    good = start_run(config, root, quiet())
    console = quiet(width=2000)
    teacher = OFFLINE | {"boosting_teacher": str(good)}
    run = start_run(
        replace(changed(config, **teacher, epochs=2, learning_rate=10.0), name="spoilt"), root, console
    )
    return run, good, printed(console)


def test_the_start_is_the_finished_run(spoilt):
    run, good, printed_text = spoilt
    before = next(event for event in read_history(run / HISTORY) if event["event"] == "before")
    rsum = open_analysis(good, "dev").metrics["rsum"]
    assert before["metrics"]["rsum"] == pytest.approx(rsum)
    assert f"spoilt before training: dev R@sum {rsum:.1f}" in printed_text


def test_changes_agree_with_the_metrics(spoilt):
    run, good, _ = spoilt
    analysis = open_analysis(good, "dev")
    start = analysis.metrics
    queries = {"i2t": len(analysis.image_embeddings), "t2i": len(analysis.text_embeddings)}
    before = start
    for epoch in events(run, "epoch"):
        now = epoch["metrics"]
        for since, earlier in (("since_last", before), ("since_start", start)):
            change = epoch[since]
            assert change["rsum"] == pytest.approx(now["rsum"] - earlier["rsum"])
            for way, count in queries.items():
                won = change[f"{way}_fixed"] - change[f"{way}_broken"]
                assert 100 * won / count == pytest.approx(now[f"{way}_r1"] - earlier[f"{way}_r1"])
        before = now
    lost = events(run, "epoch")[-1]["since_start"]
    assert lost["low"] <= lost["rsum"] <= lost["high"] < 0


def test_a_run_worse_than_its_start_is_told_the_usual_remedies(spoilt):
    run, _, printed_text = spoilt
    last = events(run, "epoch")[-1]
    lost = last["since_start"]["rsum"]
    fact = f"has R@sum {last['metrics']['rsum']:.1f} on dev after epoch 2, {-lost:.1f} less than the model"
    for part in (fact, "Lower --learning-rate", "--patience 1", "--blend 0.25 0.5 0.75"):
        assert part in printed_text
    progress = open_run(run).dev_progress
    assert str(progress.newest).startswith(f"spoilt: {fact}")
    assert progress.changes[-1].startswith(f"since the start: R@sum {lost:+.1f}")
    assert str(progress.kept) in gather([open_run(run)], "dev").short


def test_tuned_towers_are_compared_with_the_zero_shot_model(towers_folder, tmp_path):
    config = tower_config(towers_folder, epochs=1)
    run = start_run(config, tmp_path, quiet())
    flags = [f"--root={tmp_path}", "--name=zero", "--split=dev", "--workers=0", "--device=cpu"]
    assert embed(["pictures", config.data.data, f"--model={config.towers.image_tower}", *flags]) == 0
    zero = open_analysis(tmp_path / "zero", "dev").metrics["rsum"]
    (epoch,) = events(run, "epoch")
    assert epoch["metrics"]["rsum"] - epoch["since_start"]["rsum"] == pytest.approx(zero)


def test_a_run_from_random_weights_has_no_start(tmp_path):
    """Its first evaluation has nothing to be compared with, the second has the first."""
    config = tiny_config(write_tiny_data(tmp_path / "data"), epochs=2)
    first, second = events(start_run(config, tmp_path, quiet()), "epoch")
    assert not {"since_last", "since_start"} & set(first)
    assert {"since_last", "since_start"} & set(second) == {"since_last"}
    assert np.isfinite(second["since_last"]["rsum"])
