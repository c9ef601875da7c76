"""Settings of all tests, and the tiny data that many of them train on."""

import gc
import os
import signal
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest

if "torch" not in sys.modules:  # as the commands do
    from coder_core.console.runner import tune_environment

    tune_environment()

import torch
from hypothesis import settings

from tests.support.numerics import numerics_unchanged
from tests.support.tiny_runs import write_tiny_data

# No deadline: the first example of a process pays for torch's start, and other programs may slow the machine down.
settings.register_profile("untimed", deadline=None, max_examples=25)
settings.load_profile("untimed")

# A script's background jobs and their children ignore Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BROWSER = "browser.py"  # how the names of files with tests in a browser end
# files whose programs are forks of one server
FORKING = ("test_parallel.py", "test_kills.py", "test_raw_pixels.py", "test_attack.py")

# Temporary folders are in memory if possible: writers wait for the disk after every file, here for nobody's data.
MEMORY = Path("/dev/shm")
ROOM = 4 << 30

gc.disable()  # until all test files are imported: collecting, which would find nothing, takes a quarter of that time


def pytest_collection_finish():
    """Collect garbage from here on, but rarely and only among objects that tests create: Python's own pace, which looks
    at all of them whenever a quarter is new, would take a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(5_000, 20, 50)
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run every file in one process. All browser files share one, so that server and Chromium start once, and so do
    those whose programs are forks of one server (`tests.support.processes`)."""
    from xdist.scheduler import LoadFileScheduling

    class SharedServers(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            if file.endswith(BROWSER):
                return "browser"
            return "forks" if file.endswith(FORKING) else file

    return SharedServers(config, log)


def pytest_configure(config):
    # keep the order below: xdist would begin with the files that have the most tests
    config.option.loadscopereorder = False
    if _has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # where pytest makes its folders


def _has_room(folder):
    """True if tests can write all their folders below this one and run programs there. Docker's has 64 MiB."""
    if not os.access(folder, os.W_OK):
        return False
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize > ROOM and not facts.f_flag & os.ST_NOEXEC


def pytest_collection_modifyitems(items):
    """Run files with slow tests first, then those with the most tests, so that no long file runs alone at the end. Files
    for the browser, which share a tab, come first, in the order of their names: a new test must not change it."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    tests = Counter(item.path for item in items)

    def place(item):
        shared = item.path.name.endswith(BROWSER)
        return not shared, item.path not in slow, 0 if shared else -tests[item.path]

    items.sort(key=place)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Give the tests and their subprocesses a temporary cache, so that nothing stays in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODER_CACHE", str(tmp_path_factory.mktemp("cache")))
        # test workers set it, although their output goes to no terminal
        patch.delenv("COLUMNS", raising=False)
        yield


@pytest.fixture(scope="module")
def memory_folder(tmp_path_factory):
    """Temporary folder in memory if possible, so that runs killed a hundred times do not wait for the disk."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("disk")
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def towers_folder(tmp_path_factory):
    """Folder with a tiny CLIP, a tiny SigLIP, and pictures with captions; see `write_towers_and_data`."""
    from tests.support.tiny_towers import write_towers_and_data  # imports PyArrow, which few tests need

    return write_towers_and_data(tmp_path_factory.mktemp("towers"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder with train and dev splits; training on them takes a second or two."""
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", autouse=True)
def own_threads():
    """Restore the process's numeric settings, which training changes, after every file."""
    with numerics_unchanged():
        yield


@pytest.fixture(scope="module")
def one_thread(own_threads):
    torch.set_num_threads(1)


@pytest.fixture
def complaint(capsys):
    """Function that runs a command, checks its exit status, and returns what it wrote to stderr, on one line."""

    def run(command, *arguments, status=1, **named):
        assert command(*arguments, **named) == status
        return " ".join(capsys.readouterr().err.split())

    return run
