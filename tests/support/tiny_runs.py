"""Data sets and configurations for runs of a second or two, and comparisons of runs."""

import copy
import io
import signal
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from coder_core.config.schema import Config, replaced
from coder_core.runs.load import best_save
from coder_core.runs.record import HISTORY, read_history
from coder_core.runs.saves import SaveStore

STILL = {"image_dropout": 0.0, "word_dropout": 0.0, "embedding_dropout": 0.0}  # a batch always embeds alike
WORDS = ["a", "red", "blue", "star", "ring", "box", "dog", "cat"]
WORDS += ["runs", "sits", "jumps", "near", "far", "from", "the"]

NEIGHBOURS = 4
WEIGHT_SCALE = 4.0
PARTS = {
    "": {},
    "boosting": {  # AM added to the summed triplet loss, in float32
        "loss": "btr-sum",
        "weight_instance": 1.0,
        "boosting": "am",
        "boosting_momentum": 0.7,
        "twin_precision": "float32",
        "bank_size": 0,
    },
    "weights": {  # DIVERSITY weights with the n-pairs hinge
        "loss": "npairs-hinge",
        "npairs_margin": 0.4,
        "weight_instance": 1.0,
        "sample_weights": "diversity",
        "weight_scale": WEIGHT_SCALE,
        "neighbours": NEIGHBOURS,
        "neighbours_of_neighbours": 0,
        "bank_size": 0,
    },
}


def changed(config, **values):
    """Replace settings, by key, also with impossible values."""
    return replaced(config, values)


def write_tiny_data(folder, *, images=20, captions=2, regions=4, size=6):
    """Write train and dev splits of random features and captions of 1 to 7 words; dev has a fifth of the images."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(7)
    for split, count in (("train", images), ("dev", max(2, images // 5))):
        np.save(folder / f"{split}_ims.npy", random.normal(size=(count, regions, size)).astype(np.float32))
        lines = [" ".join(random.choice(WORDS, random.integers(1, 8))) for _ in range(count * captions)]
        (folder / f"{split}_caps.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


def tiny_config(data, name="tiny", *, part="", dropout=True, **values):
    """Return a CODER configuration with everything that could make a resumed run differ: dropouts, word drops, momentum
    encoder and bank. `part` is one of PARTS; `values` are settings of any section."""
    settings = {"data": str(data), "word_threshold": 1, "dimension": 8, "word_size": 6, "text_layers": 2}
    settings |= {"image_dropout": 0.1, "word_dropout": 0.1, "embedding_dropout": 0.1, "bank_size": 13}
    settings |= {"epochs": 3, "batch_size": 8, "learning_rate": 3e-3, "schedule": "cosine", "warmup_steps": 2}
    settings |= {"threads": 1, "device": "cpu", "save_every": 1000.0, "seed": 5}
    settings |= PARTS[part]
    if not dropout:
        settings |= STILL
    return changed(Config(name=name), **settings | values)


def quiet(width=200):
    """Return a console that writes to memory; `console.file.getvalue()` is its output."""
    return Console(file=io.StringIO(), width=width)


def printed(console):
    """Return the output of a `quiet` console on one line."""
    return " ".join(console.file.getvalue().split())


def stopping(batches, step, number=signal.SIGTERM):
    """Return the same batches, but raise a signal in this process before the batch of `step`, counted from 0."""
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
    """Return the newest verified state of a run."""
    return SaveStore(folder / "state", keep=2).newest()


def state_tensors(folder):
    """Return every tensor of the newest state: weights, moments, and states of the objective's parts."""
    save = newest_state(folder)
    stems = [Path(name).stem for name in save.manifest["files"] if name.endswith(".safetensors")]
    return {f"{stem}.{name}": tensor for stem in stems for name, tensor in save.tensors(stem).items()}


def position(folder):
    """Return the training position in the newest state, without the elapsed seconds."""
    facts = newest_state(folder).document("position")
    return {key: value for key, value in facts.items() if key != "seconds"}


def events(folder, kind=""):
    """Return the step and epoch events of the history, or those of one kind, without times."""
    timed = {"time", "seconds", "pairs_per_second"}
    kinds = [kind] if kind else ["step", "epoch"]
    events = [event for event in read_history(folder / HISTORY) if event["event"] in kinds]
    return [{key: value for key, value in event.items() if key not in timed} for event in events]


def assert_same_run(actual, expected):
    """Assert that two runs have the same newest state and best save bit for bit, and the same events."""
    assert newest_state(actual).name == newest_state(expected).name
    ours = state_tensors(actual)
    theirs = state_tensors(expected)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if not torch.equal(ours[name], theirs[name])] == []
    assert position(actual) == position(expected)
    assert events(actual) == events(expected)
    assert best_save(actual).fingerprint == best_save(expected).fingerprint
