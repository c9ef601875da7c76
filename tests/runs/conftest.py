"""Small runs with every kind of file, and helpers that write and fork."""

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from coder_core.console.faults import InputError
from coder_core.files.sealed import write_sealed
from coder_core.runs.record import HistoryWriter, write_status
from coder_core.runs.saves import SaveStore
from tests.support.run_folders import FINISHED_RUNS, write_embeddings

NOBODY = 65534


def fill_analysis(run, split="test", value=0.0, **changes):
    """Write an analysis of 3 images and 5 captions; `changes` replace or add arguments of `write_analysis`."""
    random = np.random.default_rng(0)
    v = random.normal(size=(3, 4)) + value
    w = random.normal(size=(5, 4)) + value
    arguments = {"captions": ["a ring", "a red ring", "äöü\u2028x", "", "stars"], "fingerprint": "abc"}
    arguments |= {"metrics": {"rsum": np.float64(321.5)}}
    return write_embeddings(run, v, w, np.array([0, 0, 1, 2, 2]), split, **arguments | changes)


def save_step(store, step):
    weights = {"weight": torch.full((4, 3), float(step))}
    store.write(str(step), {"model": weights}, {"progress": {"step": step}})


def in_a_child(task, *, user=0):
    """Return a task's result, or the text of its exception, from a forked process; as `user` if root runs the tests."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if user and os.geteuid() == 0:
                os.seteuid(user)
            os.write(writing, str(task()).encode())
        except BaseException as error:
            os.write(writing, (str(error) if isinstance(error, InputError) else repr(error)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result


@pytest.fixture
def public_folder():
    """Folder that every user may enter; pytest's own folder is closed to other users when a session starts."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def stored(tmp_path):
    """Copy of the stored runs: "whole" has concepts, bank and prototypes, "weighted" has neighbours' sample weights."""
    return Path(shutil.copytree(FINISHED_RUNS / "checkpoints", tmp_path / "checkpoints"))


@pytest.fixture
def whole(stored):
    return stored / "whole"


@pytest.fixture
def run(tmp_path):
    folder = write_sealed(tmp_path / "run", {"config.toml": "seed = 3\n", "words.json": '["a", "ring"]'})
    store = SaveStore(folder / "state", keep=2)
    save_step(store, 10)
    save_step(store, 20)
    fill_analysis(folder)
    with HistoryWriter(folder / "history.jsonl") as history:
        for step in range(1, 5):
            history.write("step", step=step, loss=1 / step)
    write_status(folder, "finished", step=20)
    return folder
