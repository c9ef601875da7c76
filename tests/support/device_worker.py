"""Train tiny models of every kind on the CPU and on another device, where every run is also stopped and resumed.

Prints one JSON object: name of the case → events of the history on the CPU and on the device; "suspicion" → that of
pairs on both; "clusters" and "near-duplicates" → those of random samples on both; "mixed" → error message of an
operation with tensors of both; "waits" → where a step waits for the simulated device.
"""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from coder_core.api import data_quality
from coder_core.api.sampling import whole_split
from coder_core.data.content.duplicates import duplicate_pictures
from coder_core.geometry.kmeans import cluster_pairs
from coder_core.geometry.settings import ClusterSettings
from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support.run_folders import unit
from tests.support.second_device import register, waits
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import STILL, WORDS, events, quiet, stopping, tiny_config, write_tiny_data

PRECISIONS = "precision", "twin_precision"
KINDS = {
    "dcl": {"bank_size": 13, "concepts": 6, "concept_query": "unit", "weight_prototypes": 0.1}
    | {"prototypes": 5, "prototype_recluster": 1, "text_encoder": "bert", "gradient_checkpointing": True},
    "entropy": {"bank_size": 13, "diversity": "entropy", "diversity_gradient": True}
    | {"same_image_negatives": True},
    "infonce": {"image_pooling": "mean", "text_pooling": "max", "sample_weights": "hal", "boosting": "rs"},
    "cmpm": {"embeddings": 2, "boosting": "dino", "boosting_scenario": "online"},
    "polynomial": {"scorer": "interaction", "boosting": "rm", "boosting_scenario": "online"},
    "npairs-hinge": {"sample_weights": "combined-stats"},
    "btr-hardest": {},
}

WATCHED = 4  # the second of the three steps of the second epoch, whose line is not written
WATCHED_KINDS = {
    "triplet": {"loss": "btr-hardest"},
    "infonce": {"loss": "infonce"},
    "coder": {"loss": "dcl", "bank_size": 13, "concepts": 6, "weight_prototypes": 0.1, "prototypes": 5},
}


class Watched(Trainer):
    """Trainer that records where a step waits for the device."""

    def _step(self, batch):
        if self.position.step != WATCHED:
            super()._step(batch)
            return
        with waits() as found:
            super()._step(batch)
        self.found = dict(Counter(found))


def watched(folder, device):
    """Train tiny models on the simulated device; return the places where a step waits for it, for each kind."""
    data = write_tiny_data(folder / "data", images=12)
    usual = STILL | {"epochs": 2, "evaluate_every": 2, "bank_size": 0} | dict.fromkeys(PRECISIONS, "float32")
    results = {}
    for name, values in WATCHED_KINDS.items():
        config = tiny_config(data, **usual | values)
        (folder / name).mkdir()
        trainer = Watched(config, folder / name, prepare(config), device, quiet())
        assert trainer.run() == "finished"
        results[name] = trainer.found
    return results


def train(config, folder, device, *, stop_during):
    """Train a run and return its events; with `stop_during`, stop it in that step and resume it from its save."""
    folder.mkdir(parents=True)
    prepared = prepare(config)
    if stop_during is not None:
        stopped = replace(prepared, batches=stopping(prepared.batches, stop_during))
        assert Trainer(config, folder, stopped, device, quiet()).run() == "stopped"
        prepared = prepare(config)
    trainer = Trainer(config, folder, prepared, device, quiet())
    trainer.resume()
    assert trainer.run() == "finished"
    return events(folder)


def suspicions(device):
    """Return the suspicion of every pair of random embeddings, and of random scores, of images with two captions each."""
    random = np.random.default_rng(5)
    images, texts = (unit(random.standard_normal((count, 6))).astype(np.float32) for count in (30, 60))
    owner = np.arange(60) % 30
    scored = whole_split(images[:, :0], texts[:, :0], owner, images @ texts.T)
    parts = [whole_split(images, texts, owner), scored]
    return [data_quality.suspicion(part, [], device)[0].tolist() for part in parts]


def clusters(device):
    """Return the centroids and labels of overlapping groups of images with two captions each."""
    random = np.random.default_rng(6)
    images = unit(
        random.standard_normal((9, 12))[np.arange(180) % 9] + 0.4 * random.standard_normal((180, 12))
    )
    owner = np.repeat(np.arange(180), 2)
    texts = unit(images[owner] + 0.1 * random.standard_normal((360, 12)))
    return [part.tolist() for part in cluster_pairs(images, texts, owner, ClusterSettings(7), device=device)]


def near_duplicates(device):
    """Return the groups among random pictures of which some differ in a few bits of their hashes."""
    random = np.random.default_rng(7)
    bits = random.integers(2, size=(40, 64), dtype=np.uint8).repeat(3, 0)
    bits[random.random(bits.shape) < 0.1] ^= 1
    tiny = unit(random.standard_normal((40, 20)).repeat(3, 0) + 0.2 * random.standard_normal((120, 20)))
    groups = duplicate_pictures(np.packbits(bits, axis=1), tiny, device)
    return [(rows.tolist(), likeness) for rows, likeness in groups]


SAMPLED = {"suspicion": suspicions, "clusters": clusters, "near-duplicates": near_duplicates}


def main(folder, name):
    """Train every kind on both devices, without dropout, whose random numbers depend on the device."""
    folder = Path(folder)
    device = register() if name == "second" else torch.device(name)
    data = write_tiny_data(folder / "data", images=8)
    bert = write_tiny_bert(folder / "bert", WORDS, 0.0)
    usual = STILL | {"epochs": 2, "evaluate_every": 2, "bank_size": 0, "bert": str(bert)}
    usual |= dict.fromkeys(PRECISIONS, "float32")
    results = {}
    for loss, values in KINDS.items():
        config = tiny_config(data, **usual | {"loss": loss if loss != "entropy" else "dcl"} | values)
        on_cpu = train(config, folder / loss / "cpu", torch.device("cpu"), stop_during=None)
        results[loss] = [on_cpu, train(config, folder / loss / name, device, stop_during=2)]
    for subject, of_device in SAMPLED.items():
        results[subject] = [of_device(where) for where in ("cpu", name)]
    try:
        torch.ones(2, device=device) + torch.ones(2)
    except RuntimeError as error:
        results["mixed"] = str(error)
    results["waits"] = watched(folder / "watched", device) if name == "second" else {}
    print(json.dumps(results))
