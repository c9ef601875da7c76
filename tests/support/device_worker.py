"""Trains tiny models of every kind on the CPU and on a second device: `python -m tests.support.device_worker FOLDER`.

On the device every run is stopped on its way and continued. Prints one JSON object: name of the case -> what the
history tells on the CPU and on the device; "mixed" -> what was said of an operation on both.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from coder_core.config.boosting import BoostingConfig
from coder_core.config.schema import Config, MemoryConfig
from coder_core.config.weighting import WeightingConfig
from coder_core.training.prepare import prepare
from coder_core.training.trainer import Trainer
from tests.support.second_device import register
from tests.support.tiny_bert import write_tiny_bert
from tests.support.tiny_runs import WORDS, StoppingBatches, quiet, tiny_config, told, write_tiny_data


def cases(folder: Path) -> dict[str, Config]:
    """Without dropout, whose random numbers come from the device."""
    config = tiny_config(write_tiny_data(folder / "data"), epochs=2, twin_precision="float32")
    still = {"image_dropout": 0.0, "word_dropout": 0.0, "embedding_dropout": 0.0}
    config = replace(config, model=replace(config.model, **still))
    bert = str(write_tiny_bert(folder / "bert", WORDS))
    objective, no_bank = config.objective, MemoryConfig()
    triplet = replace(config, memory=no_bank, objective=replace(objective, loss="btr-hardest", weight_instance=1.0))
    hinge = replace(triplet, objective=replace(objective, loss="npairs-hinge", weight_instance=1.0))
    whole = replace(
        config, model=replace(config.model, concepts=6, concept_query="unit"),
        memory=replace(config.memory, prototypes=5, prototype_recluster=1),
        objective=replace(objective, weight_prototypes=0.1),
    )  # fmt: skip

    def modelled(loss: Any, **values: Any) -> Config:
        model = replace(config.model, **values)
        return replace(triplet, model=model, objective=replace(triplet.objective, loss=loss))

    def boosted(kind: str, scenario: str) -> Config:
        chosen: Any = {"boosting": kind, "boosting_scenario": scenario}
        return replace(triplet, boosting=BoostingConfig(**chosen))

    def weighted(kind: Any) -> Config:
        return replace(hinge, weighting=WeightingConfig(sample_weights=kind))

    entropy = replace(objective, diversity="entropy", same_image_negatives=True, diversity_gradient=True)
    bert_model = replace(whole.model, text_encoder="bert", bert=bert)
    return {
        "whole": whole,
        "entropy": replace(config, objective=entropy),
        "bert": replace(whole, model=bert_model, training=replace(whole.training, gradient_checkpointing=True)),
        "mean and max, infonce": modelled("infonce", image_pooling="mean", text_pooling="max"),
        "sets, cmpm": modelled("cmpm", embeddings=2),
        "interaction, polynomial": modelled("polynomial", scorer="interaction"),
        "momentum": boosted("rs", "momentum"),
        "online": boosted("rm", "online"),
        "dino": boosted("dino", "online"),
        "neighbours": weighted("combined-stats"),
        "batch weights": weighted("hal"),
    }


def train(config: Config, folder: Path, device: torch.device, *, stop_during: int | None) -> list[dict[str, Any]]:
    """What the history tells of a run; one that is stopped goes on from its save."""
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
    found: dict[str, Any] = {}
    for name, config in cases(folder).items():
        here = train(config, folder / name / "cpu", torch.device("cpu"), stop_during=None)
        found[name] = [here, train(config, folder / name / "second", second, stop_during=6)]
    try:
        torch.ones(2, device=second) + torch.ones(2)
    except RuntimeError as error:
        found["mixed"] = str(error)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
