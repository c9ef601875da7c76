"""Disk full, read-only folder, second writer: one plain sentence, and what was there stays."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

from coder_core.console.faults import InputError
from coder_core.files.atomic import WriteError
from coder_core.files.lines import seal_line
from coder_core.files.sealed import write_sealed
from coder_core.runs.saves import SaveStore
from coder_core.runs.status import RunLock, read_status, write_status
from tests.runs.conftest import save_step

ROOT = Path(__file__).resolve().parents[2]
SAVE_A_MEGABYTE = """
import os, resource, sys
from pathlib import Path
from coder_core.console.faults import InputError
{program}
except InputError as error:
    print(error)
"""
AS_TENSORS = """
import torch
from coder_core.runs.saves import SaveStore
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
try:
    SaveStore(Path(sys.argv[1]), keep=2).write("30", {"model": {"weight": torch.ones(250_000)}}, {})"""
AS_AN_ARRAY_BY_NOBODY = """
import numpy
from coder_core.files.sealed import write_sealed
os.geteuid() == 0 and os.seteuid(65534)
try:
    write_sealed(Path(sys.argv[1]) / "30", {"weight.npy": numpy.ones(125_000)})"""


def save_a_megabyte(folder: Path, program: str) -> str:
    command = [sys.executable, "-c", SAVE_A_MEGABYTE.format(program=program), str(folder)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def assert_untouched(store: SaveStore) -> None:
    newest = store.newest()
    assert newest.name == "20"
    assert newest.skipped == []
    assert sorted(path.name for path in store.folder.iterdir()) == ["20"]


@pytest.fixture
def store(tmp_path: Path) -> SaveStore:
    store = SaveStore(tmp_path / "state", keep=2)
    save_step(store, 20)
    return store


def test_a_full_disk_says_what_is_needed(store: SaveStore) -> None:
    """A file-size limit stops the write half-way, as a full disk does."""
    message = save_a_megabyte(store.folder, AS_TENSORS)
    assert message.count("\n") == 1
    assert "could not be written" in message
    assert "1,065,536 bytes are needed and" in message
    assert "earlier saves are intact" in message.lower()
    assert_untouched(store)


def test_too_little_room_is_noticed_before_writing(store: SaveStore) -> None:
    with pytest.raises(WriteError, match=r"1,000,000,000,000,000,000 bytes are needed and [\d,]+ are free"):
        write_sealed(store.folder / "30", {"huge.npy": np.broadcast_to(np.zeros(1), (125 * 10**15 - 2**13,))})
    assert_untouched(store)


def test_a_read_only_folder_is_refused(public_folder: Path) -> None:
    """As root, who may write everywhere, the save is tried by a user who may not."""
    store = SaveStore(public_folder / "state", keep=2)
    save_step(store, 20)
    store.folder.chmod(0o555)
    message = save_a_megabyte(store.folder, AS_AN_ARRAY_BY_NOBODY)
    store.folder.chmod(0o755)
    assert "could not be written (Permission denied)" in message
    assert_untouched(store)


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    holder = os.fork()
    if holder == 0:
        try:
            with RunLock(tmp_path):
                os.write(writing, b"locked")
                signal.pause()
        finally:
            os._exit(1)
    os.read(reading, 6)
    refused = rf"is being written by process {holder} on .* since 2\d\d\d-"
    with pytest.raises(InputError, match=refused), RunLock(tmp_path):
        pass
    os.kill(holder, signal.SIGKILL)
    os.waitpid(holder, 0)
    with RunLock(tmp_path):  # the kernel dropped the dead process's lock
        assert json.loads((tmp_path / ".lock.json").read_text())["pid"] == os.getpid()
        with pytest.raises(InputError, match=f"process {os.getpid()}"), RunLock(tmp_path):
            pass
    with RunLock(tmp_path):
        pass


def test_a_run_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"), RunLock(tmp_path / "nowhere"):
        pass
    assert not (tmp_path / "nowhere").exists()


def test_running_of_a_dead_process_reads_as_interrupted(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    write_status(tmp_path, "running", step=3, steps=10)
    assert state_of(tmp_path) == ("running", 3)
    child = os.fork()
    if child == 0:
        try:
            write_status(tmp_path, "running", step=4)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert state_of(tmp_path) == ("interrupted", 4)


def state_of(run: Path) -> tuple[str, int]:
    status = read_status(run)
    return status["state"], status["step"]


def test_a_pid_used_again_is_not_taken_for_the_run(tmp_path: Path) -> None:
    """Same number, another process: it started at another time."""
    started = psutil.Process().create_time() - 1000
    record = {
        "state": "running",
        "pid": os.getpid(),
        "started": started,
        "host": os.uname().nodename,
        "step": 1,
    }
    (tmp_path / "status.json").write_text(seal_line(record))
    assert state_of(tmp_path) == ("interrupted", 1)
