"""The one training process: started once, seen from everywhere, recognised when it is over."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from app.backend import jobs

WAIT = (sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(60)")


def until_over(root: Path, seconds: float = 20) -> jobs.Job:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job = jobs.current(root)
        assert job is not None
        if not job.running:
            return job
        time.sleep(0.05)
    raise AssertionError("the process did not end")


def until_says(root: Path, word: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        job = jobs.current(root)
        if job is not None and word in job.output:
            return
        time.sleep(0.05)
    raise AssertionError(f"the process never said {word!r}")


def test_one_job_at_a_time_in_its_own_session(tmp_path: Path) -> None:
    assert jobs.current(tmp_path) is None
    first = jobs.start(tmp_path, WAIT)
    try:
        assert jobs.start(tmp_path, WAIT).pid == first.pid
        assert os.getsid(first.pid) == first.pid != os.getsid(0)
        until_says(tmp_path, "hello")
    finally:
        jobs.stop(tmp_path)
    assert until_over(tmp_path).output == "hello\n"
    second = jobs.start(tmp_path, (sys.executable, "-c", "pass"))
    assert second.pid != first.pid
    until_over(tmp_path)


def test_a_recycled_pid_is_not_our_job(tmp_path: Path) -> None:
    (tmp_path / ".training").mkdir()
    mine = psutil.Process()
    record = {"pid": mine.pid, "created": mine.create_time() - 100}
    (tmp_path / ".training" / "job.json").write_text(json.dumps(record))
    job = jobs.current(tmp_path)
    assert job is not None
    assert not job.running
    jobs.stop(tmp_path)  # signals nobody: this test would end here


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x", "created": 1}', '{"pid": null}'])
def test_a_damaged_record_is_no_job(tmp_path: Path, content: str) -> None:
    (tmp_path / ".training").mkdir()
    (tmp_path / ".training" / "job.json").write_text(content)
    assert jobs.current(tmp_path) is None


def test_the_demo_command_never_sees_a_shell_or_the_working_folder(tmp_path: Path) -> None:
    """-P keeps a numpy.py beside the data out of sys.path; the project is named explicitly instead."""
    assert jobs.DEMO_COMMAND[1:] == ("-P", "-u", "-m", "coder_core.train")
    program = "import sys, os; print('' in sys.path, os.getcwd() in sys.path, os.getcwd())"
    jobs.start(tmp_path, (sys.executable, "-P", "-c", program))
    assert until_over(tmp_path).output.split() == ["False", "True", str(jobs.PROJECT)]


def test_two_names_are_two_jobs_and_one_name_is_one(tmp_path: Path) -> None:
    training = jobs.start(tmp_path, WAIT)
    layout = jobs.start(tmp_path, WAIT, "layout-0123")
    try:
        assert layout.pid not in (training.pid, None)
        assert jobs.start(tmp_path, WAIT, "layout-0123").pid == layout.pid
        jobs.forget(tmp_path, "layout-0123")  # it runs, so its files stay
        assert (tmp_path / ".work" / "layout-0123" / "job.json").exists()
    finally:
        jobs.stop(tmp_path, "layout-0123")
        jobs.stop(tmp_path)
    assert until_over(tmp_path).pid == training.pid
    end = time.monotonic() + 20
    while (found := jobs.current(tmp_path, "layout-0123")) and found.running and time.monotonic() < end:
        time.sleep(0.05)
    jobs.forget(tmp_path, "layout-0123")
    assert jobs.current(tmp_path, "layout-0123") is None
    assert jobs.current(tmp_path) is not None


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "-rf", "A", "a\n"])
def test_a_job_name_cannot_leave_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="a job is named"):
        jobs.folder_of(tmp_path, name)


def test_a_job_that_ended_long_ago_is_forgotten_when_the_next_one_starts(tmp_path: Path) -> None:
    work = tmp_path / ".work"
    old, recent, running = "layout-old", "layout-recent", "layout-running"
    for name in (old, recent):
        ended = jobs.start(tmp_path, (sys.executable, "-c", "pass"), name)
        psutil.wait_procs([psutil.Process(ended.pid)] if psutil.pid_exists(ended.pid) else [], timeout=20)
    job = jobs.start(tmp_path, WAIT, running)
    (tmp_path / "kept").mkdir()
    (work / "link").symlink_to(tmp_path / "kept")
    try:
        for folder in (work / old, work / running, tmp_path / "kept"):
            for path in (*folder.iterdir(), folder):
                os.utime(path, (0, 0))
        jobs.start(tmp_path, (sys.executable, "-c", "pass"), "layout-next")
        assert sorted(path.name for path in work.iterdir()) == ["layout-next", recent, running, "link"]
        assert (tmp_path / "kept").is_dir()
        found = jobs.current(tmp_path, running)
        assert found is not None
        assert (found.pid, found.running) == (job.pid, True)
    finally:
        jobs.stop(tmp_path, running)
