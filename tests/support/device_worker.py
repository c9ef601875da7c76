"""Trains tiny models of every kind on the CPU and on a second device: `python -m tests.support.device_worker FOLDER`.

On the device every run is stopped on its way and continued. Prints one JSON object: name of the case -> what the
history tells on the CPU and on the device; "mixed" -> what was said of an operation on both.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from coder_core.config.schema import Config
from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support.second_device import register
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import STILL, WORDS, StoppingBatches, quiet, tiny_config, told, write_tiny_data


def cases(folder: Path) -> dict[str, Config]:
    """Without dropout, whose random numbers come from the device."""
    data, bert = write_tiny_data(folder / "data", images=12), str(write_tiny_bert(folder / "bert", WORDS))
    triplet: dict[str, Any] = {"bank_size": 0, "loss": "btr-hardest", "weight_instance": 1.0}
    whole: dict[str, Any] = {
        "concepts": 6,
        "concept_query": "unit",
        "prototypes": 5,
        "prototype_recluster": 1,
        "weight_prototypes": 0.1,
    }
    kinds: dict[str, dict[str, Any]] = {
        "whole": whole,
        "entropy": {"diversity": "entropy", "same_image_negatives": True, "diversity_gradient": True},
        "bert": whole | {"text_encoder": "bert", "bert": bert, "gradient_checkpointing": True},
        "mean and max, infonce": triplet
        | {"loss": "infonce", "image_pooling": "mean", "text_pooling": "max"},
        "sets, cmpm": triplet | {"loss": "cmpm", "embeddings": 2},
        "interaction, polynomial": triplet | {"loss": "polynomial", "scorer": "interaction"},
        "momentum": triplet | {"boosting": "rs"},
        "online": triplet | {"boosting": "rm", "boosting_scenario": "online"},
        "dino": triplet | {"boosting": "dino", "boosting_scenario": "online"},
        "neighbours": triplet | {"loss": "npairs-hinge", "sample_weights": "combined-stats"},
        "batch weights": triplet | {"loss": "npairs-hinge", "sample_weights": "hal"},
    }
    usual = STILL | {"epochs": 2, "twin_precision": "float32"}
    return {name: tiny_config(data, **usual | values) for name, values in kinds.items()}


def train(
    config: Config, folder: Path, device: torch.device, *, stop_during: int | None
) -> list[dict[str, Any]]:
    """History of a run; a stopped one continues from its save."""
    folder.mkdir(parents=True)
    prepared = prepare(config)
    if stop_during is not None:
        stopping = replace(prepared, batches=StoppingBatches.of(prepared.batches, stop_during))
        assert Trainer(config, folder, stopping, device, quiet()).run() == "stopped"
        prepared = prepare(config)
    trainer = Trainer(config, folder, prepared, device, quiet())
    trainer.resume()
    assert trainer.run() == "finished"
    return told(folder)


def main() -> None:
    """Every case on both."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    second = register()
    results: dict[str, Any] = {}
    for name, config in cases(folder).items():
        here = train(config, folder / name / "cpu", torch.device("cpu"), stop_during=None)
        results[name] = [here, train(config, folder / name / "second", second, stop_during=4)]
    try:
        torch.ones(2, device=second) + torch.ones(2)
    except RuntimeError as error:
        results["mixed"] = str(error)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
