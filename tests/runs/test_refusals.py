"""Disk full, read-only folder, second writer: one plain sentence, and existing files stay."""

import json
import os
import re
import resource

import numpy as np
import psutil
import pytest
import torch

from coder_core.files.atomic import WriteError
from coder_core.files.sealed import write_sealed
from coder_core.runs.record import RunLock, read_status, seal_line, write_status
from coder_core.runs.saves import SaveStore
from tests.runs.conftest import NOBODY, in_a_child, save_step
from tests.support.precomp_folders import assert_refused


def assert_untouched(store):
    newest = store.newest()
    assert (newest.name, newest.skipped) == ("20", [])
    assert [path.name for path in store.folder.iterdir()] == ["20"]


@pytest.fixture
def store(tmp_path):
    store = SaveStore(tmp_path / "state", keep=2)
    save_step(store, 20)
    return store


def test_a_full_disk_is_reported_with_the_bytes_needed(store):
    """A file-size limit stops the write half-way, as a full disk does."""

    def write():
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        store.write("30", {"model": {"weight": torch.ones(250_000)}}, {})

    message = in_a_child(write)
    assert "\n" not in message
    assert re.search(
        "could not be written.* 1,065,536 bytes are needed .*hat was there before is intact", message
    )
    assert_untouched(store)
    with pytest.raises(WriteError, match=r"1,000,000,000,000,000,000 bytes are needed and [\d,]+ are free"):
        write_sealed(store.folder / "30", {"huge.npy": np.broadcast_to(np.zeros(1), (125 * 10**15 - 2**13,))})
    assert_untouched(store)


def test_a_read_only_folder_is_refused(public_folder):
    """If root runs the tests, who may write everywhere, another user tries to save."""
    store = SaveStore(public_folder / "state", keep=2)
    save_step(store, 20)
    store.folder.chmod(0o555)
    files = {"weight.npy": np.ones(125_000)}
    message = in_a_child(lambda: write_sealed(store.folder / "30", files), user=NOBODY)
    store.folder.chmod(0o755)
    assert "could not be written (Permission denied)" in message
    assert_untouched(store)


def enter(lock):
    with lock:
        pass


def test_a_second_writer_is_refused_and_the_first_one_named(tmp_path):
    refused = rf"is being written by process {os.getpid()} on .* since 2\d\d\d-"
    with RunLock(tmp_path):
        assert json.loads((tmp_path / ".lock.json").read_text())["pid"] == os.getpid()
        assert re.search(refused, in_a_child(lambda: enter(RunLock(tmp_path))))
        assert_refused(refused, enter, RunLock(tmp_path))
    in_a_child(lambda: (RunLock(tmp_path).__enter__(), os._exit(9)))
    enter(RunLock(tmp_path))  # the kernel dropped the dead process's lock
    assert_refused("is not a run folder", enter, RunLock(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def state_of(run):
    status = read_status(run)
    return status["state"], status["step"]


def test_the_run_of_a_dead_process_is_interrupted_even_if_its_pid_is_reused(tmp_path):
    """A new process with the same number differs from the old one by its start time."""
    assert read_status(tmp_path) is None
    write_status(tmp_path, "running", step=3, steps=10)
    assert state_of(tmp_path) == ("running", 3)
    in_a_child(lambda: write_status(tmp_path, "running", step=4))
    assert state_of(tmp_path) == ("interrupted", 4)
    started = psutil.Process().create_time() - 1000
    record = {"state": "running", "pid": os.getpid(), "started": started, "step": 1}
    record["host"] = os.uname().nodename
    (tmp_path / "status.json").write_text(seal_line(record))
    assert state_of(tmp_path) == ("interrupted", 1)
