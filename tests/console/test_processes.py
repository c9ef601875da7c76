"""Background jobs: started once, observed through files, recognised when they have ended."""

import json
import os
import sys
import time

import psutil

from coder_core.console import processes
from coder_core.console.output import JobProgress, ProgressFile

WAIT = (sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(60)")
NOTHING = (sys.executable, "-c", "pass")


def until(condition):
    """Wait until a condition is true and return its value."""
    end = time.monotonic() + 280
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("not within 280 seconds")


def over(folder):
    """Wait for the end of a folder's job and return it."""
    return until(lambda: not (job := folder.current()).running and job)


def test_one_job_at_a_time_in_its_own_session(tmp_path):
    folder = processes.JobFolder(tmp_path / "job")
    assert folder.current() is None
    first = folder.start(WAIT)
    try:
        assert folder.start(WAIT).pid == first.pid
        assert os.getsid(first.pid) == first.pid != os.getsid(0)
        until(lambda: "hello" in folder.current().output)
        folder.forget()  # a running job keeps its files
        assert (tmp_path / "job" / "job.json").exists()
    finally:
        folder.stop()
    assert over(folder).output == "hello\n"
    ProgressFile(folder.progress_file).write(JobProgress(1.0, "of the job before", "finished"))
    assert folder.start(NOTHING).pid != first.pid
    assert over(folder).progress is None
    folder.forget()
    assert folder.current() is None


def test_recycled_pids_damaged_records_and_zombies_are_not_running_jobs(tmp_path):
    this = psutil.Process()
    (tmp_path / "job.json").write_text(json.dumps({"pid": this.pid, "created": this.create_time() - 100}))
    job = processes.JobFolder(tmp_path).current()
    assert not job.running
    processes.JobFolder(tmp_path).stop()  # signals no process, or this test would end here
    assert processes.find_process(this.pid, this.create_time()) == this
    for content in ("", "[]", '{"pid": "x", "created": 1}', '{"pid": null}', '{"pid": -1, "created": 0}'):
        (tmp_path / "job.json").write_text(content)
        job = processes.JobFolder(tmp_path).current()
        assert job is None or not job.running
    pid = os.posix_spawn(sys.executable, NOTHING, os.environ)
    created = psutil.Process(pid).create_time()
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    assert processes.find_process(pid, created) is None
    os.waitpid(pid, 0)


def test_jobs_run_in_the_package_folder_and_processes_can_append_output(tmp_path):
    """-P keeps a numpy.py beside the data from being imported; a job runs in the folder of `coder_core`."""
    assert processes.module_command("coder_core.train")[1:] == ("-P", "-u", "-m", "coder_core.train")
    program = "import sys, os; print('' in sys.path, os.getcwd() in sys.path, os.getcwd())"
    folder = processes.JobFolder(tmp_path / "job")
    folder.start((sys.executable, "-P", "-c", program))
    assert over(folder).output.split() == ["False", "True", str(processes.PACKAGE_FOLDER)]
    program = "import os, sys; print(os.getcwd(), os.environ['EXTRA'], sys.stdin.read() == '')"
    command = (sys.executable, "-c", program)
    output = tmp_path / "log"
    values = {"append": True, "folder": tmp_path, "environment": {"EXTRA": "yes"}}
    for _ in range(2):
        processes.start_process(command, output, **values).wait(20)
    assert output.read_text() == 2 * f"{tmp_path} yes True\n"
