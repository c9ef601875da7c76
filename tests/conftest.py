"""Settings of every test, and the tiny data that many of them train on."""

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

from hypothesis import settings

from tests.support.numerics import numerics_unchanged
from tests.support.tiny_runs import write_tiny_data

# No test asserts a time: the first example of a process pays for torch's start, and a busy machine for its neighbours.
settings.register_profile("untimed", deadline=None, max_examples=25)
settings.load_profile("untimed")

# A job in the background of a script ignores Ctrl-C, and what it starts inherits that: the tests of Ctrl-C need it.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until every test file is imported: nothing of that is garbage, and looking takes a quarter of the time


def pytest_collection_finish():
    """From here on garbage is collected, and only among what the tests make."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Every file runs in one process, and all files of the browser in the same one: server and Chromium start once."""
    from xdist.scheduler import LoadFileScheduling

    class OneBrowser(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "browser" if file.endswith("browser.py") else file

    return OneBrowser(config, log)


def pytest_configure(config):
    config.option.loadscopereorder = (
        False  # xdist would begin with the files of the most tests, not the longest ones
    )


def pytest_collection_modifyitems(items):
    """Files with slow tests begin, then those with the most tests: no process ends with a long file alone."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """Nothing a test searches or copies stays in the cache of whoever runs it; its subprocesses share this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODER_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.delenv(
            "COLUMNS", raising=False
        )  # test workers set it; what is printed here goes into no terminal
        yield


@pytest.fixture(scope="module")
def memory_folder(tmp_path_factory):
    """A folder in memory where the system has one: a process that dies a hundred times there waits for no disk."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else tmp_path_factory.mktemp("disk")
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def towers_folder(tmp_path_factory):
    """Tiny CLIP and SigLIP and pictures with captions: `write_towers_and_data`."""
    from tests.support.tower_runs import write_towers_and_data  # transformers, for few tests

    return write_towers_and_data(tmp_path_factory.mktemp("towers"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of train and dev splits; a run over them takes a second or two."""
    return write_tiny_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module", autouse=True)
def own_threads():
    """Training sets numerics of its process; the tests of other files get theirs back."""
    with numerics_unchanged():
        yield
