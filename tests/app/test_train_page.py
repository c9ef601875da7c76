"""The Train page: what it offers and refuses, and a real run started, stopped, resumed and finished from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import psutil
import pytest
from streamlit.testing.v1 import AppTest

from app import jobs, training
from app.ask import RunSummary
from app.components.words import latest, time_left
from app.training import TrainingRun
from coder_core.runs.status import read_status, write_status
from coder_core.training.launch import start_run
from tests.support.pages import Opened, texts
from tests.support.picture_folders import flickr8k
from tests.support.run_folders import damage, import_run_folder, write_run
from tests.support.tiny_runs import quiet, tiny_config, write_tiny_data

TINY = {
    "dimension": 8,
    "bank_size": 16,
    "batch_size": 8,
    "warmup_steps": 0,
    "threads": 1,
    "word_threshold": 1,
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of runs beside a folder of one small data set; whatever is left running is ended."""
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


def fill(app: AppTest, epochs: int, name: str = "mine") -> None:
    """Choose the small data set and a small model."""
    app.selectbox(key="data").set_value("tiny")
    app.text_input(key="name").set_value(name)
    app.multiselect(key="set").set_value(["epochs", "seed", *TINY]).run()
    for key, value in (TINY | {"epochs": epochs}).items():
        app.number_input(key=f"demo-{key}").set_value(value)
    app.run()
    assert not app.exception


def test_the_saved_epoch_is_the_one_the_run_calls_best() -> None:
    epochs = pd.DataFrame(
        {"metrics.rsum": [250.0, 261.0, 262.0], "best": [True, True, False]}
    )  # chosen on half of dev
    assert latest(epochs) == " · R@sum on dev 262.0, best 261.0 (saved)"
    assert latest(epochs[:2]) == " · R@sum on dev 261.0"
    assert latest(epochs.drop(columns="best")[::-1]) == " · R@sum on dev 250.0, best 262.0 (saved)"
    assert latest(epochs[:0]) == ""


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.2)
    raise AssertionError("it did not happen in time")


def test_what_a_link_filled_in_is_shown_and_starts_only_after_a_second_click(
    opened: Opened, root: Path
) -> None:
    app = opened(root, "train", name="mine", data="tiny", **{"demo-epochs": "3"})
    fill(app, 100_000)
    app.button(key="train-start").click().run()
    assert not fresh()
    assert "training of mine on tiny with the preset demo" in texts(app)
    app.number_input(key="demo-seed").set_value(7).run()  # other values are asked for again
    assert "train-confirm" not in [button.key for button in app.button]
    app.button(key="train-start").click().run()
    assert not fresh()
    assert app.button(key="train-confirm").label == "Start it"
    app.button(key="train-confirm").click().run()
    assert one(root).stoppable
    assert not app.exception


def one(root: Path, name: str = "mine") -> TrainingRun:
    """Facts that the page reads about a run: from files, not from a session."""
    return next(found for found in fresh() if found.name == name)


def fresh() -> list[TrainingRun]:
    """State that a newly started app sees."""
    import streamlit as st

    st.cache_data.clear()
    return training.training_runs()


def test_without_runs_it_offers_the_form(root: Path, opened: Opened) -> None:
    app = opened(root, "train")
    assert app.selectbox(key="data").options == ["demo", "tiny"]
    assert "Nothing has been trained here yet." in texts(app)
    assert app.button(key="train-start").label == "Train demo"
    assert app.code[0].value == "python -m coder_core.train demo --name=demo --data=demo"


@pytest.mark.parametrize("kind", ["one", "two", "imported", "damaged", "interrupted", "elsewhere"])
def test_it_opens_with_every_kind_of_run(
    root: Path, kind: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(root, "demo", images=12)
    if kind == "two":
        write_run(root, "other", images=12)
    if kind == "imported":
        import_run_folder(root, "clip", images=12)
    if kind == "damaged":
        damage(write_run(root, "torn", images=12))
    if kind in ("interrupted", "elsewhere"):
        write_status(run, "running", step=10, steps=30)
    if kind == "interrupted":
        monkeypatch.setattr("coder_core.runs.status._alive", lambda record: False)
    app = opened(root, "train", watch="torn" if kind == "damaged" else "demo")
    names = app.selectbox(key="watch").options
    assert "clip" not in names
    buttons = [button.key for button in app.button]
    assert ("train-resume" in buttons) == (kind == "interrupted")
    assert "train-stop" not in buttons
    if kind == "damaged":
        assert "config.toml" in texts(app)
    if kind == "elsewhere":
        assert "started outside the app; stop it there" in texts(app)


def test_a_lost_history_is_noted_beside_the_run(root: Path, opened: Opened) -> None:
    run = write_run(root, "demo", images=6, pictures=False)
    write_status(run, "finished", step=30, steps=30, evaluated=3)
    (run / "history.jsonl").unlink()
    said = texts(opened(root, "train", watch="demo"))
    assert "history.jsonl: lacks 3 of 3 finished epochs" in said
    assert "the run itself is not affected" in said


def test_a_job_folder_that_is_a_link_is_named_when_resume_is_clicked(root: Path, opened: Opened) -> None:
    write_status(write_run(root, "demo", images=6, pictures=False), "stopped", step=10, steps=30)
    (root / "elsewhere").mkdir()
    (root / ".work").mkdir()
    (root / ".work" / training.job_name("demo")).symlink_to(root / "elsewhere")
    app = opened(root, "train", watch="demo")
    app.button(key="train-resume").click().run()
    assert not app.exception
    assert f"is a link to {root / 'elsewhere'}" in texts(app)
    assert not list((root / "elsewhere").iterdir())


def test_another_preset_begins_with_its_own_values(root: Path, opened: Opened) -> None:
    app = opened(root, "train")
    assert app.number_input(key="demo-epochs").value == 10
    app.number_input(key="demo-epochs").set_value(3).run()
    assert "--epochs=3" in app.code[0].value
    assert (
        "f30k-bigru" not in app.selectbox(key="preset").options
    )  # made for other data than the built-in pictures
    app.selectbox(key="data").set_value("tiny").run()
    app.selectbox(key="preset").set_value("f30k-bigru").run()
    assert app.number_input(key="f30k-bigru-epochs").value == 30
    assert "--epochs" not in app.code[0].value


def test_a_link_with_a_preset_for_other_data_opens_such_data(
    root: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened(root, "train", preset="f30k-bigru")
    assert (app.selectbox(key="data").value, app.selectbox(key="preset").value) == ("tiny", "f30k-bigru")
    monkeypatch.setenv("CODER_DATA", str(root))
    app = opened(root, "train", preset="f30k-bigru")
    assert app.selectbox(key="preset").value == "demo"
    assert (
        "The preset f30k-bigru needs a data set of region features; demo takes the presets above."
        in texts(app)
    )


def test_pictures_with_captions_take_the_presets_of_towers_and_a_missing_model_is_said(
    root: Path, opened: Opened
) -> None:
    flickr8k(root.parent / "data" / "photographs")
    app = opened(root, "train", preset="clip-lora")
    assert (app.selectbox(key="data").value, app.selectbox(key="preset").value) == (
        "photographs",
        "clip-lora",
    )
    assert app.selectbox(key="preset").options == ["clip-full", "clip-lora", "siglip-lora", "tower-frozen"]
    assert "A model of this preset is not on this machine." in texts(app)
    assert "hf download openai/clip-vit-base-patch32" in texts(app)
    assert not [button for button in app.button if button.key == "train-start"]
    app.selectbox(key="data").set_value("tiny").run()
    assert not app.exception
    assert "clip-lora" not in app.selectbox(key="preset").options


def test_the_time_left_is_measured(root: Path) -> None:
    run = RunSummary("mine", root / "mine", "running", status={"step": 30, "steps": 90})
    # 2 s a step; an evaluation before step 20, and before that another start of the same run
    records = pd.DataFrame(
        {"step": [4, 5, 10, 20, 30, 40, 50], "time": [0.0, 2, 1000, 1500, 1520, 1540, 1560]}
    )
    assert time_left(run, records) == " · about 0:02:00 left"
    assert time_left(replace(run, state="stopped"), records) == ""
    assert time_left(run, records[:1]) == time_left(run, pd.DataFrame()) == ""


def test_impossible_values_and_names_cannot_be_started(root: Path, opened: Opened) -> None:
    app = opened(root, "train")
    assert (app.number_input(key="demo-batch_size").min, app.number_input(key="demo-seed").max) == (
        2,
        2**31 - 1,
    )
    app.number_input(key="demo-batch_size").set_value(1).run()  # its widget ends at 2
    assert "--batch-size" not in app.code[0].value
    app.number_input(key="demo-learning_rate").set_value(0.0).run()
    assert "“learning rate”: is 0; expected a value above 0" in texts(app)
    assert "--learning" not in texts(app)
    assert "train-start" not in [button.key for button in app.button]
    app.number_input(key="demo-learning_rate").set_value(0.001)
    app.text_input(key="name").set_value("../up").run()
    assert "It becomes the name of a folder" in texts(app)
    assert "“Run name”: is " in texts(app)
    assert app.text_input(key="name").max_chars == 40
    assert "expected 1 to 40 letters" in texts(app)
    assert "train-start" not in [button.key for button in app.button]
    write_run(root, "taken", images=12)
    time.sleep(2.1)  # the listing is kept for two seconds
    app.text_input(key="name").set_value("taken").run()
    assert "A run called taken exists already." in texts(app)
    assert not list((root / ".work").glob("*"))


def test_boosting_and_weights_have_fields_of_their_own(root: Path, opened: Opened) -> None:
    app = opened(root, "train")
    assert "boosting_teacher" not in app.multiselect(key="set").options
    app.selectbox(key="demo-boosting").set_value("am").run()
    assert "offline" not in app.selectbox(key="demo-boosting_scenario").options
    assert "Offline boosting needs a finished run" in texts(app)
    app.selectbox(key="demo-sample_weights").set_value("discrepancy")
    app.multiselect(key="set-weighting").set_value(["neighbours"]).run()
    app.number_input(key="demo-neighbours").set_value(50).run()
    assert "--boosting=am --sample-weights=discrepancy --neighbours=50" in app.code[0].value
    assert "train-start" in [button.key for button in app.button]


def test_an_offline_teacher_is_one_of_the_runs_that_fit(root: Path, opened: Opened) -> None:
    config = tiny_config(root.parent / "data" / "tiny", "first")
    start_run(replace(config, training=replace(config.training, epochs=1)), root, quiet())
    app = opened(root, "train")
    app.selectbox(key="demo-boosting").set_value("rm").run()
    assert "offline" not in app.selectbox(key="demo-boosting_scenario").options  # the demo reads other words
    app.selectbox(key="data").set_value("tiny")
    app.multiselect(key="set").set_value(["word_threshold"]).run()
    app.number_input(key="demo-word_threshold").set_value(config.data.word_threshold).run()
    app.selectbox(key="demo-boosting_scenario").set_value("offline").run()
    assert app.selectbox(key="teacher").options == ["first"]
    assert "first is a different model, so training starts from scratch." in texts(app)
    assert f"--boosting-teacher={root / 'first'} --boosting-start=scratch" in app.code[0].value
    assert not app.exception


@pytest.mark.parametrize(
    "value", ["../../etc", "/etc/passwd", "-rf", "<script>alert(1)</script>", "9" * 400, "a\nb"]
)
def test_strange_values_in_the_url_start_nothing(root: Path, value: str, opened: Opened) -> None:
    keys = ("preset", "data", "name", "set", "watch", "live", "epochly", "demo-epochs", "demo-seed")
    app = opened(root, "train", **dict.fromkeys(keys, value))
    assert app.selectbox(key="data").value == "demo"
    assert app.selectbox(key="preset").value == "demo"
    assert "<script>" not in texts(app)
    assert not (root / ".work").exists()


@pytest.mark.parametrize("name", ["a", "A.b-C_d", "x" * 40, "x" * 200, "Ä"])
def test_every_run_has_a_job_of_its_own_with_a_harmless_name(root: Path, name: str) -> None:
    job = training.job_name(name)
    assert jobs.folder_of(job).parent == root / ".work"
    assert job != training.job_name(name + "x")


def test_a_crash_of_the_app_does_not_touch_the_run(root: Path) -> None:
    """The program that started the job is killed with its whole group; the job lives on and is found again."""
    program = (
        "import sys, time; from app import jobs; "
        "jobs.start((sys.executable, '-c', 'import time; time.sleep(300)'), sys.argv[1]); "
        "time.sleep(300)"
    )
    command = [sys.executable, "-c", program, training.job_name("mine")]
    app = subprocess.Popen(command, cwd=jobs.PROJECT, start_new_session=True)
    until(lambda: any(found.stoppable for found in fresh()))
    os.killpg(app.pid, signal.SIGKILL)
    app.wait(timeout=20)
    job = one(root).job
    assert job is not None
    assert psutil.Process(job.pid).status() != psutil.STATUS_ZOMBIE
    assert one(root).stoppable
    jobs.stop(one(root).job_name)
    until(lambda: not one(root).alive)


@pytest.mark.slow
def test_a_run_is_started_stopped_resumed_and_finished(root: Path, opened: Opened) -> None:
    app = opened(root, "train")
    fill(app, epochs=4_000)
    app.button(key="train-start").click().run()
    assert not app.exception
    assert app.selectbox(key="watch").value == "mine"
    until(
        lambda: (read_status(root / "mine") or {}).get("step", 0) > 5 if (root / "mine").is_dir() else False
    )
    running = one(root)
    assert running.stoppable
    assert running.job is not None
    assert psutil.Process(running.job.pid).nice() >= 5  # pages stay quick while it trains
    training.start("demo", "mine", training.data_sets()[1], {"epochs": 2})
    assert one(root).job.pid == running.job.pid  # type: ignore[union-attr]

    other = opened(root, "train")  # a second tab, or a reload
    assert "running: step" in texts(other)
    other.button(key="train-stop").click().run()
    until(lambda: not one(root).alive)
    assert (read_status(root / "mine") or {})["state"] == "stopped"
    reached = (read_status(root / "mine") or {})["step"]

    app = opened(root, "train", watch="mine")
    assert "stopped at step" in "\n".join(code.value for code in app.code)
    app.button(key="train-resume").click().run()
    until(lambda: one(root).stoppable and (read_status(root / "mine") or {}).get("step", 0) > reached)
    jobs.stop(one(root).job_name)
    until(lambda: not one(root).alive)

    app = opened(root, "train", watch="mine")  # not evaluated, but its best model is stored
    app.button(key="train-evaluate").click().run()
    until(lambda: (run := one(root).run) is not None and run.usable)
    until(lambda: not training.evaluation(one(root).run).running)  # type: ignore[arg-type, union-attr]
    app = opened(root, "train", watch="mine")
    assert "train-evaluate" not in [button.key for button in app.button]


@pytest.mark.slow
def test_a_short_run_finishes_and_can_be_looked_at(root: Path, opened: Opened) -> None:
    app = opened(root, "train")
    fill(app, epochs=2)
    app.button(key="train-start").click().run()
    until(lambda: one(root).job is not None and not one(root).alive)
    found = one(root)
    assert found.run is not None, found.job
    assert found.run.state == "finished"
    assert found.run.usable
    app = opened(root, "train", watch="mine")
    assert "finished" in texts(app)
    assert len(app.get("plotly_chart")) == 2
    assert "train-resume" not in [button.key for button in app.button]


@pytest.mark.slow
def test_what_training_refuses_is_shown_in_its_own_words(root: Path, opened: Opened) -> None:
    (root.parent / "data" / "tiny" / "train_caps.txt").write_text("one caption too few\n")
    app = opened(root, "train")
    fill(app, epochs=2)
    app.button(key="train-start").click().run()
    until(lambda: not one(root).alive)
    app = opened(root, "train", watch="mine")
    assert "mine did not start." in texts(app)
    assert "train_caps.txt: 1 captions for 20 images" in " ".join(
        " ".join(code.value.split()) for code in app.code
    )
    assert not (root / "mine").exists()
    app.button(key="train-dismiss").click().run()
    assert "Nothing has been trained here yet." in texts(app)
