"""The start page while the demo trains: one bar for the drawing and all runs, and what comes next."""

import sys
import time

import psutil
import pytest
import streamlit as st

from app import jobs, training
from app.ask import all_runs
from app.views.start import COSTS, demo_progress
from app.views.start import FIRST as FIRST_PAGES
from coder_core.api.training import DEMO_RUNS, DRAWING, Job, JobFolder, JobProgress
from coder_core.console.output import ProgressFile
from coder_core.runs.record import HistoryWriter, write_status
from tests.support.pages import numbers
from tests.support.run_folders import write_run

FIRST, SECOND, THIRD = DEMO_RUNS


@pytest.fixture
def root(tmp_path, monkeypatch):
    """An empty folder of runs, where the demo's job runs."""
    monkeypatch.setenv("CODER_CHECKPOINTS", str(tmp_path))
    job = jobs.start((sys.executable, "-c", "import time; time.sleep(600)"))
    yield tmp_path
    jobs.stop()
    psutil.wait_procs([psutil.Process(job.pid)], timeout=20)


def write_training(root, steps, start):
    """Write a finished first run with three epochs, and a second one that has taken 2 s per step since `start`."""
    job = jobs.current()
    for name, state, step in ((FIRST, "finished", 100), (SECOND, "running", steps)):
        folder = write_run(root, name, images=6, pictures=False)
        write_status(folder, state, step=step, steps=100, pid=job.pid, started=job.started)
    with HistoryWriter(folder / "history.jsonl") as history:
        for step in range(10, steps + 1, 10):
            history.write("step", step=step, time=start + 2 * step)
    st.cache_data.clear()


def test_demo_progress_covers_the_drawing_and_all_runs(root):
    job = Job(1, True, progress=JobProgress(0.5, DRAWING), started=1000.0)
    drawn = COSTS[DRAWING] / 2
    assert demo_progress(job, {}, 1030.0) == (drawn, pytest.approx(30 * (100 - drawn) / drawn))
    assert demo_progress(Job(1, True, started=1000.0), {}, 1030.0) == (0, None)
    later = time.time() + 100  # the first run was trained by an earlier job
    write_training(root, 40, later)
    work, seconds = demo_progress(Job(1, True, started=later), {run.name: run for run in all_runs()}, later)
    assert work == pytest.approx(COSTS[DRAWING] + COSTS[FIRST] + 0.4 * COSTS[SECOND])
    assert seconds == pytest.approx(2 * 60 + 200 * COSTS[THIRD] / COSTS[SECOND])


def test_the_page_names_the_current_and_next_runs(root, opened):
    ProgressFile(JobFolder(root / ".training").progress_file)(0.5, 1.0, DRAWING)
    app = opened(root, "start")
    assert app.get("progress")[0].proto.value == COSTS[DRAWING] // 2
    assert app.saying(FIRST, DRAWING)
    assert not app.figures()
    assert app.saying(SECOND, THIRD)
    write_training(root, 40, time.time())
    assert [entry.name for entry in training.training_runs() if entry.alive] == [SECOND]  # one process
    app = opened(root, "start")
    percent = int(sum([*COSTS.values()][:2]) + 0.4 * COSTS[SECOND])
    assert [bar.proto.value for bar in app.get("progress")] == [percent]
    assert app.saying(SECOND, 40, 100)
    assert app.saying(THIRD)
    [curve] = app.figures()
    [first, *_] = curve["data"]
    assert first["name"] == FIRST
    assert len(numbers(first["y"])) == 3
    assert len(app.get("page_link")) >= len(FIRST_PAGES)  # the finished run has pages
