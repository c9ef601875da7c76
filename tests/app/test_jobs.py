"""Jobs of the app: their names, their folders, and when their files are removed."""

import os

import pytest

from app import jobs
from tests.console.test_processes import NOTHING, WAIT, until


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("CODER_CHECKPOINTS", str(tmp_path))
    return tmp_path


def until_over(name):
    until(lambda: (job := jobs.current(name)) is None or not job.running)


def test_each_name_has_at_most_one_job(root):
    training = jobs.start(WAIT)
    layout = jobs.start(WAIT, "layout-0123")
    try:
        assert layout.pid != training.pid
        assert jobs.start(WAIT, "layout-0123").pid == layout.pid
        jobs.forget("layout-0123")  # the job runs, so its files stay
        assert (root / ".work" / "layout-0123" / "job.json").exists()
    finally:
        jobs.stop("layout-0123")
        jobs.stop()
    for name in (jobs.TRAINING, "layout-0123"):
        until_over(name)
        jobs.forget(name)
    assert jobs.current("layout-0123") is None
    assert jobs.current().pid == training.pid  # training is never forgotten


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-rf", "A", "a\n"])
def test_a_job_name_cannot_leave_its_folder(name):
    with pytest.raises(ValueError, match="a job is named"):
        jobs.folder_of(name)


def test_starting_a_job_removes_those_that_ended_long_ago(root):
    work = root / ".work"
    old = "layout-old"
    recent = "layout-recent"
    running = "layout-running"
    for name in (old, recent):
        jobs.start(NOTHING, name)
        until_over(name)
    job = jobs.start(WAIT, running)
    (root / "elsewhere").mkdir()
    (work / "link").symlink_to(root / "elsewhere")
    try:
        for folder in (work / old, work / running, root / "elsewhere"):
            for path in (*folder.iterdir(), folder):
                os.utime(path, (0, 0))
        jobs.start(NOTHING, "layout-next")
        assert sorted(path.name for path in work.iterdir()) == ["layout-next", recent, running, "link"]
        assert (root / "elsewhere").is_dir()
        assert (jobs.current(running).pid, jobs.current(running).running) == (job.pid, True)
    finally:
        jobs.stop(running)


def test_a_pipe_in_place_of_a_job_is_ignored_without_blocking(root):
    pipe = root / ".work" / "layout-pipe"
    pipe.parent.mkdir()
    os.mkfifo(pipe)
    jobs.forget(pipe.name)
    assert pipe.is_fifo()
