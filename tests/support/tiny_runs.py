"""Data sets and configurations so small that a run takes a second or two, and how to compare two runs."""

import copy
import io
import signal
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from coder_core.config.schema import Config, replaced
from coder_core.runs.history import HISTORY, read_history
from coder_core.runs.load import best_save
from coder_core.runs.saves import SaveStore

STILL = {"image_dropout": 0.0, "word_dropout": 0.0, "embedding_dropout": 0.0}  # a batch embeds the same twice
WORDS = ["a", "red", "blue", "star", "ring", "box", "dog", "cat"]
WORDS += ["runs", "sits", "jumps", "near", "far", "from", "the"]


def changed(config, **values):
    """Replace settings by their keys, also by impossible values."""
    return replaced(config, values)


def write_tiny_data(folder, *, images=20, captions=2, regions=4, size=6):
    """train and dev splits of random features and captions of 1 to 7 words; 5 times fewer images in dev."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for split, count in (("train", images), ("dev", max(2, images // 5))):
        np.save(folder / f"{split}_ims.npy", random.normal(size=(count, regions, size)).astype(np.float32))
        lines = [" ".join(random.choice(WORDS, random.integers(1, 8))) for _ in range(count * captions)]
        (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def tiny_config(data, name="tiny", **values):
    """CODER with everything on that could make a continued run differ: dropouts, drops, twin and bank. `values` are
    settings of any section."""
    settings = {"data": str(data), "word_threshold": 1, "dimension": 8, "word_size": 6, "text_layers": 2}
    settings |= {"image_dropout": 0.1, "word_dropout": 0.1, "embedding_dropout": 0.1, "bank_size": 13}
    settings |= {"epochs": 3, "batch_size": 8, "learning_rate": 3e-3, "schedule": "cosine", "warmup_steps": 2}
    settings |= {"threads": 1, "device": "cpu", "save_every": 1000.0, "seed": 5}
    return changed(Config(name=name), **settings | values)


def quiet():
    """A console nobody sees; `console.file.getvalue()` tells what was printed."""
    return Console(file=io.StringIO(), width=200)


def printed(console):
    """Everything printed on a `quiet` console, on one line."""
    return " ".join(console.file.getvalue().split())


def stopping(batches, step, number=signal.SIGTERM):
    """Return the same batches; a signal comes to this process just before that of `step`, counted from 0."""
    batches = copy.copy(batches)
    stream = batches.stream

    def interrupted(start, stop):
        for position, batch in enumerate(stream(start, stop), start):
            if position == step:
                signal.raise_signal(number)
            yield batch

    batches.stream = interrupted
    return batches


def newest_state(folder):
    """The newest verified state of a run."""
    return SaveStore(folder / "state", keep=2).newest()


def state_tensors(folder):
    """Every tensor of the newest state: weights, moments and what the parts save."""
    save = newest_state(folder)
    stems = [Path(name).stem for name in save.manifest["files"] if name.endswith(".safetensors")]
    return {f"{stem}.{name}": tensor for stem in stems for name, tensor in save.tensors(stem).items()}


def position(folder):
    """Position of the newest state, without the seconds it took."""
    facts = newest_state(folder).document("position")
    return {key: value for key, value in facts.items() if key != "seconds"}


def events(folder, kind=""):
    """Steps and epochs in the history, or the ones of a kind, without times."""
    timed = {"time", "seconds", "pairs_per_second"}
    kinds = [kind] if kind else ["step", "epoch"]
    events = [event for event in read_history(folder / HISTORY) if event["event"] in kinds]
    return [{key: value for key, value in event.items() if key not in timed} for event in events]


def assert_same_run(actual, expected):
    """Both runs' newest states are the same bit for bit, and so are the events of their histories."""
    assert newest_state(actual).name == newest_state(expected).name
    ours, theirs = state_tensors(actual), state_tensors(expected)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert position(actual) == position(expected)
    assert events(actual) == events(expected)
    assert best_save(actual).fingerprint == best_save(expected).fingerprint
