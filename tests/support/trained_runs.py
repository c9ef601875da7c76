"""Trained runs: like others and stopped during a step, with sample weights, with heat maps of regions."""

import signal
from dataclasses import replace

import torch

from coder_core.embed import main as embed
from coder_core.features import main as features
from coder_core.files.sealed import SealedFolder, write_sealed
from coder_core.model.run_towers import open_towers
from coder_core.runs.load import read_concepts, read_config, read_vocabulary
from coder_core.runs.record import RunLock
from coder_core.training.launch import start_run
from coder_core.training.prepare import Inputs, prepare
from coder_core.training.reviewed import named_reviews
from coder_core.training.trainer import Trainer
from tests.support.picture_folders import LAYOUTS
from tests.support.tiny_runs import STILL, quiet, stopping, tiny_config, write_tiny_data
from tests.support.tiny_towers import write_tiny_clip

WEIGHT_KINDS = {"combined": "combined", "opposite": "diversity", "hal": "hal"}


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
    reviews = named_reviews(config) if config.data.reviews else None
    inputs = Inputs(vocabulary, concepts, towers=open_towers(config), reviews=reviews)
    return config, prepare(config, inputs)


def train_on(folder, config, prepared):
    """Train the run in `folder` from its newest state."""
    trainer = Trainer(config, folder, prepared, torch.device("cpu"), quiet())
    with RunLock(folder):
        trainer.resume()
        return trainer.run()


def stop_during(like, folder, step, number=signal.SIGTERM):
    """Train a run like another until a signal stops it during a step, counted from 0; return its folder."""
    folder, config, prepared = begin(like, folder)
    batches = stopping(prepared.batches, step, number)
    assert train_on(folder, config, replace(prepared, batches=batches)) == "stopped"
    return folder


def train_weighted(base):
    """Train "combined", "opposite" (DIVERSITY, Γ = 1), "hal", "unweighted" on one data set; return their folder."""
    data = write_tiny_data(base / "data", images=30, captions=3)
    for name, kind in WEIGHT_KINDS.items():
        more = {"weight_direction": 1} if name == "opposite" else {}
        start_run(
            tiny_config(data, name, part="weights", sample_weights=kind, epochs=1, **more),
            base / "runs",
            quiet(),
        )
    start_run(tiny_config(data, "unweighted", epochs=1), base / "runs", quiet())
    return base / "runs"


def write_heat_runs(folder):
    """Write data/, features/, clip/ (the model) and runs/ with "plain", "words" (interaction scorer) and "clip"."""
    write_tiny_clip(folder / "clip")
    LAYOUTS["flickr8k"](folder / "data")
    out = folder / "features"
    model = f"--model={folder / 'clip'}"
    assert features([str(folder / "data"), f"--out={out}", model, "--workers=0", "--grid=2"]) == 0
    train_on_regions(folder, out, "plain")
    train_on_regions(folder, out, "words", loss="btr-hardest", scorer="interaction", interaction_size=8)
    flags = [f"--root={folder / 'runs'}", "--name=clip", "--split=dev", "--workers=0", "--prompt=see {}"]
    assert embed(["pictures", str(folder / "data"), model, *flags]) == 0
    return folder


def train_on_regions(folder, data, name, **values):
    """Train one epoch on the region features in `data` of the pictures in `folder`."""
    pictures = str(folder / "data" / "Flicker8k_Dataset")
    small = {"bank_size": 0, "batch_size": 4, "epochs": 1, **STILL, "pictures": pictures}
    start_run(tiny_config(data, name, **small | values), root=folder / "runs", console=quiet())
