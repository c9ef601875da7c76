"""The Train page: what it offers and refuses, and a real run started, stopped, resumed and evaluated from it."""

import html
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qs

import pandas as pd
import psutil
import pytest
import streamlit as st

from app import jobs, training
from app.ask import RunSummary, ask, ask_both, joint_space, retrieval
from app.components.words import latest, time_left
from app.views.train.runs import STOPPED_EARLY
from coder_core.api import data_quality, list_runs
from coder_core.config.presets import find_preset
from coder_core.config.schema import differences
from coder_core.data.reviews import Review, append_review, image_keys
from coder_core.evaluate import main as evaluate
from coder_core.runs.load import read_config
from coder_core.runs.record import HistoryWriter, read_status, write_status
from coder_core.train import main as train
from coder_core.train import read_arguments
from coder_core.training.launch import start_run
from tests.console.test_processes import until
from tests.support.cleaned_runs import VALUES, left_out, write_told_data
from tests.support.picture_folders import flickr8k
from tests.support.run_folders import damage, import_run_folder, write_run
from tests.support.tiny_runs import changed, newest_state, quiet, tiny_config, write_tiny_data


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty folder of runs beside a folder with one small data set; jobs still running at the end are killed."""
    write_tiny_data(tmp_path / "data" / "tiny")
    monkeypatch.setenv("CODER_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("CODER_CHECKPOINTS", str(tmp_path / "runs"))
    (tmp_path / "runs").mkdir()
    yield tmp_path / "runs"
    for folder in (tmp_path / "runs" / ".work").glob("train-*"):
        job = jobs.current(folder.name)
        if job is not None and job.running:
            os.kill(job.pid, signal.SIGKILL)
            psutil.wait_procs([psutil.Process(job.pid)], timeout=20)


def fill(app, data="tiny", preset="demo", **values):
    """Fill in the form for a run "mine"; `values` are settings of the preset."""
    app.change(data=data, preset=preset, name="mine", set=list(dict.fromkeys(["seed", *values])))
    return app.change(**{f"{preset}-{key}": value for key, value in values.items()})


def mine():
    """Return the run "mine" as a newly started app reads it from files; None if it does not exist."""
    st.cache_data.clear()
    return next((entry for entry in training.training_runs() if entry.name == "mine"), None)


def step(run):
    """Return the steps in the run's status; 0 without a run."""
    return int((read_status(run) or {}).get("step", 0)) if run.is_dir() else 0


def test_the_saved_epoch_is_the_last_one_marked_best():
    columns = {"metrics.rsum": [250.0, 261.0, 262.0], "best": [True, True, False]}  # chosen on half of dev
    epochs = pd.DataFrame(columns)
    assert latest(epochs) == " · R@sum on dev 262.0, best 261.0 (saved)"
    assert latest(epochs[:2]) == " · R@sum on dev 261.0"
    assert latest(epochs.drop(columns="best")[::-1]) == " · R@sum on dev 250.0, best 262.0 (saved)"
    assert latest(epochs[:0]) == ""


def test_the_time_left_is_estimated_from_recorded_steps(root):
    run = RunSummary("mine", root / "mine", "running", status={"step": 30, "steps": 90, "started": 900})
    # 2 s per step and an evaluation of 40 s before step 20; the first two are of an earlier start
    times = ((4, 0.0), (5, 2), (10, 1000), *((step, 1020 + 2 * step) for step in range(20, 60, 10)))
    records = pd.DataFrame(times, columns=["step", "time"])
    assert time_left(run, records) == " · about 0:03:00 left"  # 120 s for 40 steps
    assert time_left(replace(run, state="stopped"), records) == ""
    first = pd.DataFrame([(20, 900.0), (30, 920.0)], columns=["step", "time"])  # one of the moment it started
    assert time_left(run, first) == " · about 0:02:00 left"
    assert time_left(run, records[:3]) == time_left(run, pd.DataFrame()) == ""


def test_a_run_says_what_changed_on_dev_and_that_it_is_worse_than_its_start(root, opened):
    run = write_run(root, "tuned", images=6, pictures=False)
    counts = {"i2t_fixed": 1, "i2t_broken": 3, "t2i_fixed": 20, "t2i_broken": 1031}
    start = {"rsum": -8.5, "low": -12.0, "high": -4.0, **counts}
    with HistoryWriter(run / "history.jsonl") as history:
        for epoch, last in ((1, {}), (2, {"since_last": {"rsum": 2.5, **counts}})):
            fields = {"metrics": {"rsum": 200.0}, "since_start": start, **last}
            history.write("epoch", step=40 + epoch, epoch=90 + epoch, best=True, **fields)
    app = opened(root, "train", watch="tuned")
    assert app.saying(
        "Since epoch 91: R@sum +2.5; R@1 of images: 1 fixed, 3 broken; of captions: 20 fixed, 1,031 broken."
    )
    assert app.saying("Since the start: R@sum -8.5")
    assert app.saying(
        "tuned: has R@sum 200.0 on dev after epoch 92, 8.5 less", "95% interval -12.0 to -4.0", "--blend"
    )


def test_without_runs_the_form_offers_the_values_of_each_preset(root, opened):
    app = opened(root, "train")
    assert app.selectbox(key="data").options == ["demo", "tiny"]
    assert "train-start" in app.keys("button")
    assert "watch" not in app.keys("selectbox")
    assert app.code[0].value == "coder-lab train demo --name=demo --data=demo"
    assert app.value("demo-epochs") == 10
    assert "--epochs=3" in app.change(demo_epochs=3).code[0].value
    assert "f30k-bigru" not in app.selectbox(key="preset").options  # made for data other than drawn pictures
    assert "boosting_teacher" not in app.multiselect(key="set").options
    app.change(demo_boosting="am", demo_sample_weights="discrepancy", demo_epochs=10)
    app.change(set_weighting=["neighbours"]).change(demo_neighbours=50)
    assert "--boosting=am --sample-weights=discrepancy --neighbours=50" in app.code[0].value
    assert "train-start" in app.keys("button")
    app.change(data="tiny").change(preset="f30k-bigru")
    assert app.value("f30k-bigru-epochs") == 30
    assert "--epochs" not in app.code[0].value


def test_only_interrupted_runs_can_be_resumed(root, opened, monkeypatch):
    run = write_run(root, "demo", images=12, pictures=False)
    import_run_folder(root, "clip", images=12)
    damage(write_run(root, "torn", images=12, pictures=False))
    assert opened(root, "train", watch="torn").saying("config.toml")
    for state in ("finished", "running elsewhere", "interrupted"):
        if state == "running elsewhere":
            write_status(run, "running", step=10, steps=30)
        if state == "interrupted":
            monkeypatch.setattr("coder_core.runs.record._alive", lambda record: False)
        st.cache_data.clear()  # the listing is kept for two seconds
        app = opened(root, "train", watch="demo")
        assert app.selectbox(key="watch").options == ["demo", "torn"]
        assert ("train-resume" in app.keys("button")) == (state == "interrupted")
        assert "train-stop" not in app.keys("button")
        assert app.figures()


def test_a_missing_history_and_a_linked_job_folder_are_named(root, opened):
    run = write_run(root, "demo", images=6, pictures=False)
    elsewhere = root / "elsewhere"
    write_status(run, "stopped", step=10, steps=30, evaluated=3)
    (run / "history.jsonl").unlink()
    elsewhere.mkdir()
    (root / ".work").mkdir()
    (root / ".work" / training.job_name("demo")).symlink_to(elsewhere)
    app = opened(root, "train", watch="demo")
    assert app.saying("history.jsonl", "3 of 3")
    assert app.click("train-resume").saying(elsewhere)
    assert not list(elsewhere.iterdir())


def test_the_curves_of_a_run_are_drawn_over_those_of_the_baseline(root, opened):
    for name in ("baseline", "later"):
        write_run(root, name, images=6, pictures=False)
    app = opened(root, "train", run=["baseline", "later"], watch="later")
    drawn = [[trace["name"] for trace in figure["data"]] for figure in app.figures()]
    assert drawn == [["baseline", "later"]]
    app = opened(root, "train", run=["baseline", "later"], watch="baseline")
    assert [[trace["name"] for trace in figure["data"]] for figure in app.figures()] == [["baseline"]]


def test_a_new_line_of_history_keeps_cached_results(tmp_path):
    """While a run trains, cached results of all runs are kept, so that pages stay fast."""
    for name in ("finished", "trains"):
        write_run(tmp_path / "runs", name, images=6, pictures=False)
    before = list_runs(tmp_path / "runs")
    changes = ask_both(retrieval.compare, *before, "dev")
    gap = ask(joint_space.modality_gap, before[1], "dev")
    with HistoryWriter(tmp_path / "runs" / "trains" / "history.jsonl") as history:
        history.write("step", step=40, epoch=4, loss=1.0)
        history.write("epoch", step=40, epoch=4, rsum=200.0)
    write_status(tmp_path / "runs" / "trains", "running", step=40, steps=80)
    write_run(tmp_path / "runs", "a new one", images=6, pictures=False)
    after = [run for run in list_runs(tmp_path / "runs") if run.name != "a new one"]
    assert after[1].state == "running"
    assert ask_both(retrieval.compare, *after, "dev") is changes
    assert ask(joint_space.modality_gap, after[1], "dev") is gap


def test_a_linked_preset_is_chosen_and_a_missing_model_named(root, opened, monkeypatch):
    flickr8k(root.parent / "data" / "photographs")
    app = opened(root, "train", preset="clip-lora")
    preset = app.selectbox(key="preset")
    assert (app.value("data"), preset.value) == ("photographs", "clip-lora")
    assert preset.options == ["clip-full", "clip-lora", "coder-clip-lora", "siglip-lora", "tower-frozen"]
    assert app.saying("hf download openai/clip-vit-large-patch14")
    assert "train-start" not in app.keys("button")
    assert "clip-lora" not in app.change(data="tiny").selectbox(key="preset").options
    app = opened(root, "train", preset="f30k-bigru")
    assert (app.value("data"), app.value("preset")) == ("tiny", "f30k-bigru")
    monkeypatch.setenv("CODER_DATA", str(root))
    app = opened(root, "train", preset="f30k-bigru")
    assert app.value("preset") == "demo"
    assert app.saying("f30k-bigru")


def test_verdicts_on_train_link_to_a_training_that_uses_them(root, opened):
    """Verdicts on dev alone lead nowhere; the link to the form has the run's configuration, the runs and the slice."""
    data = root.parent / "data" / "tiny"
    changes = {"epochs": 1, "learning_rate": 3e-5, "bank_anchors": True}
    start_run(tiny_config(data, "first", loss="dcl", **changes), root, quiet())
    shutil.copytree(root / "first", root / "again")
    splits = {split.name: split for split in data_quality.data_splits(str(data))}

    def judge(split, file=data / "reviews.jsonl"):
        part = splits[split]
        keys = image_keys(None, part.captions, part.image_of_text, len(part.image_names))
        append_review(file, Review(keys[0], part.captions[0], "wrong-caption", "anna"))

    own = root / "mine-cleaned.jsonl"  # of a cleaned run
    judge("train", own)
    start_run(tiny_config(data, "mine", clean=True, reviews=str(own), **changes), root, quiet())
    judge("dev")
    reviews = partial(opened, root, "reviews", run="again", versus="first", slice="length > 2")
    app = reviews()
    assert app.saying(0, 1, data / "reviews.jsonl")
    assert "evaluate-train" in app.keys("button")
    assert "use-reviews" not in app.texts()
    judge("train")
    app = reviews()
    assert app.saying(1, 2, data / "reviews.jsonl")
    [link] = re.findall(r'href="train[?]([^"]*use-reviews[^"]*)"', app.texts())
    values = parse_qs(html.unescape(link))
    assert all(values[key][0] in app.query_params[key] for key in ("run", "split", "slice"))
    app = opened(root, "train", **values)
    values = [app.value(key) for key in ("data", "name", "use-reviews")]
    assert values == ["tiny", "first-reviewed", True]
    words = shlex.split(app.code[0].value)[2:]
    config = read_arguments(words[1:], find_preset(words[0])).config
    assert config.data.reviews == str(data / "reviews.jsonl")
    assert set(differences(read_config(root / "first")[0], config)) == {"data.reviews"}

    app = opened(root, "reviews", run="mine")
    assert app.saying(1, 1, own)
    [link] = re.findall(r'href="train[?]([^"]*)"', app.texts())
    app = opened(root, "train", **parse_qs(html.unescape(link)))
    assert f"--reviews={own}" in app.code[0].value


def test_invalid_values_and_names_cannot_be_started(root, opened):
    write_run(root, "taken", images=12, pictures=False)
    app = opened(root, "train")
    assert app.number_input(key="demo-batch_size").min == 2
    assert app.number_input(key="demo-seed").max == 2**31 - 1
    assert app.text_input(key="name").max_chars == 40
    for changes, saying in (
        ({"demo_learning_rate": 0.0}, ("“learning rate”", "is 0")),
        ({"demo_learning_rate": 0.001, "name": "../up"}, ("“Run name”", 40)),
        ({"name": "taken"}, ("taken",)),
    ):
        assert app.change(**changes).saying(*saying)
        assert "--learning" not in app.texts()
        assert "train-start" not in app.keys("button")
    app.change(demo_batch_size=1, name="free")
    assert "--batch-size" not in app.code[0].value  # its widget ends at 2
    assert not list((root / ".work").glob("*"))


def test_only_compatible_runs_are_offered_as_offline_teachers(root, opened):
    config = tiny_config(root.parent / "data" / "tiny", "first", epochs=1)
    start_run(config, root, quiet())
    app = opened(root, "train").change(demo_boosting="rm")
    assert "offline" not in app.selectbox(key="demo-boosting_scenario").options  # other words in the demo
    app.change(data="tiny", set=["word_threshold"])
    app.change(demo_word_threshold=config.data.word_threshold).change(demo_boosting_scenario="offline")
    assert app.selectbox(key="teacher").options == ["first"]
    assert f"--boosting-teacher={root / 'first'} --boosting-start=scratch" in app.code[0].value


def test_invalid_values_in_the_url_start_nothing(root, opened):
    parameters = ("preset", "data", "name", "set", "watch", "live", "epochly", "demo-epochs", "demo-seed")
    for value in ("../../etc", "-rf", "<script>alert(1)</script>", "9" * 400, "a\nb"):
        app = opened(root, "train", **dict.fromkeys(parameters, value))
        assert (app.value("data"), app.value("preset")) == ("demo", "demo")
        assert "<script>" not in app.texts()
        assert not (root / ".work").exists()


def test_every_run_has_its_own_job_with_a_safe_name(root):
    for name in ("a", "A.b-C_d", "x" * 40, "x" * 200, "Ä"):
        job = training.job_name(name)
        assert jobs.folder_of(job).parent == root / ".work"
        assert job != training.job_name(name + "x")


def test_a_run_survives_a_crash_of_the_app(root):
    """Kill the program that started the job with its whole group; the job survives and is found again."""
    job = "(sys.executable, '-c', 'import time; time.sleep(300)')"
    program = f"import sys, time; from app import jobs; jobs.start({job}, sys.argv[1]); time.sleep(300)"
    command = [sys.executable, "-c", program, training.job_name("mine")]
    app = subprocess.Popen(command, cwd=jobs.PROJECT, start_new_session=True)
    until(lambda: mine() and mine().stoppable)
    os.killpg(app.pid, signal.SIGKILL)
    app.wait(timeout=20)
    assert psutil.Process(mine().job.pid).status() != psutil.STATUS_ZOMBIE
    assert mine().stoppable
    jobs.stop(mine().job_name)
    until(lambda: not mine().alive)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_is_started_stopped_resumed_and_evaluated(root, opened):
    """A run that a link has filled in starts only after confirmation."""
    app = opened(root, "train", name="mine", data="tiny", **{"demo-epochs": "3"})
    run = root / "mine"
    sizes = {"dimension": 8, "bank_size": 16, "batch_size": 8, "warmup_steps": 0, "word_threshold": 1}
    sizes |= {"concepts": 0}
    fill(app, epochs=4_000, threads=1, **sizes)
    assert "train-confirm" in app.click("train-start").keys("button")
    assert "train-confirm" not in app.change(demo_seed=7).keys("button")  # to be confirmed again
    app.click("train-start")
    assert mine() is None
    assert app.click("train-confirm").value("watch") == "mine"
    until(lambda: step(run) > 5)
    job = mine().job
    training.start("demo", "mine", training.data_sets()[1], {"epochs": 2})
    assert mine().job.pid == job.pid

    write_run(root, "baseline", images=12, pictures=False)
    running = opened(root, "train")  # in a second tab, or after a reload
    assert "train-resume" not in running.keys("button")
    running.click("train-stop")
    assert running.value("watch") == "mine"
    until(lambda: not mine().alive)
    assert (read_status(run) or {})["state"] == "stopped"
    reached = step(run)

    stopped = running.again()
    assert stopped.value("watch") == "mine"  # and not the run that is now the first of the list
    assert "train-stop" not in stopped.keys("button")
    stopped.click("train-resume")
    until(lambda: mine().stoppable and step(run) > reached)
    jobs.stop(mine().job_name)
    until(lambda: not mine().alive)

    assert "evaluate-dev" in opened(root, "train", watch="mine").keys("button")  # its best model is stored
    assert evaluate([str(run), "--split=dev", "--device=cpu"]) == 0
    assert mine().run.usable
    assert "evaluate-dev" not in opened(root, "train", watch="mine").click("evaluate-train").keys("button")
    until(lambda: "train" in mine().run.splits)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_scorers_belong_to_the_job_of_the_cleaned_run(root, opened):
    """They are stopped with it; the form's command with the same values continues with them, here with finished ones."""
    write_told_data(root.parent / "data" / "told", 2)
    values = {key: value for key, value in VALUES.items() if key not in ("concepts", "bank_size")}
    values |= {"clean": True, "clean_by": "halves", "loss": "infonce", "word_threshold": 1, "threads": 1}

    def filled():
        return fill(opened(root, "train"), "told", "demo-baseline", **values)

    def job_of_the_scorer():
        st.cache_data.clear()
        return {entry.name: entry.job_name for entry in training.training_runs()}.get("mine-half")

    filled().click("train-start")
    until(lambda: job_of_the_scorer() == training.job_name("mine"))
    assert not opened(root, "train").saying("mine", "mine-half")  # one job at work
    opened(root, "train", watch="mine").click("train-stop")
    until(lambda: not mine().alive)
    app = opened(root, "train", watch="mine")
    assert app.saying("mine", STOPPED_EARLY)
    assert app.click("train-dismiss").value("name") == "mine"

    half = read_config(root / "mine-half")[0]
    other = replace(changed(half, other_part=True), name="mine-other-half")
    if (root / other.name).exists():
        shutil.rmtree(root / other.name)
    assert train(["--resume", str(root / half.name)]) == 0
    start_run(other, root, quiet())
    for scorer in (half, other):
        assert evaluate([str(root / scorer.name), "--split=train", "--device=cpu"]) == 0
    trained = newest_state(root / "mine-half").fingerprint
    assert train([*shlex.split(filled().code[0].value)[2:], f"--root={root}"]) == 0
    assert newest_state(root / "mine-half").fingerprint == trained
    assert 0 < left_out(root / "mine").sum() < 75
    assert mine().run.splits == ("dev",)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_error_messages_of_training_are_shown(root, opened):
    (root.parent / "data" / "tiny" / "train_caps.txt").write_text("one caption too few\n")
    fill(opened(root, "train")).click("train-start")
    until(lambda: not mine().alive)
    app = opened(root, "train", watch="mine")
    assert any("mine" in refusal and STOPPED_EARLY not in refusal for refusal in app.refusals())
    output = " ".join(word for code in app.code for word in code.value.split())
    assert "train_caps.txt: 1 captions for 20 images" in output
    assert not (root / "mine").exists()
    app.click("train-dismiss")
    assert "watch" not in app.keys("selectbox")
