"""Start runs like others, stop them during a step, and train them on."""

import signal
from dataclasses import replace

import torch

from coder_core.files.sealed import SealedFolder, write_sealed
from coder_core.model.run_towers import open_towers
from coder_core.runs.load import read_concepts, read_config, read_vocabulary
from coder_core.runs.status import RunLock
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import named_reviews
from coder_core.training.trainer import Trainer
from tests.support.tiny_runs import quiet, stopping


def begin(like, folder):
    """Write a run folder as `start_run` does before the first step; return it and the trainer's inputs."""
    given = SealedFolder(like)
    write_sealed(folder, {name: given.read(name) for name in given.manifest["files"]})
    return folder, *prepared_again(folder)


def prepared_again(folder):
    """Return the trainer's inputs, configuration and prepared data, for a run that has begun."""
    config, _ = read_config(folder)
    vocabulary = read_vocabulary(folder, config)
    concepts = read_concepts(folder, config)
    inputs = Inputs(vocabulary, concepts, towers=open_towers(config), reviews=named_reviews(config))
    return config, prepare(config, inputs)


def train(folder, config, prepared):
    """Train the run in `folder` from its newest state."""
    trainer = Trainer(config, folder, prepared, torch.device("cpu"), quiet())
    with RunLock(folder):
        trainer.resume()
        return trainer.run()


def stop_during(like, folder, step, number=signal.SIGTERM):
    """Train a run like another until a signal stops it during a step, counted from 0; return its folder."""
    folder, config, prepared = begin(like, folder)
    batches = stopping(prepared.batches, step, number)
    assert train(folder, config, replace(prepared, batches=batches)) == "stopped"
    return folder
